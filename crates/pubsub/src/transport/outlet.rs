//! The side of a socket that is written to, by whoever has something for it.
//!
//! Decided here: that whoever has something for a socket may write it at once, so that nobody has to be woken for it, and that
//! what does not fit is left to the socket's own task. Nobody ever waits but that task. Where the bytes come from, and when
//! it is better to leave them to the task, which writes what waits together, the caller knows.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use super::hub::{Pace, lock};

/// What shall be written next.
pub(crate) struct Taken {
    /// The bytes; none if nothing waits.
    pub(crate) batch: Bytes,
    /// What there is besides.
    pub(crate) rest: Rest,
}

/// What there is besides what was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing, for now.
    Nothing,
    /// Perhaps more.
    More,
    /// Nothing, ever.
    End,
}

/// How a write went.
enum Step {
    Wrote(Rest),
    Full,
    Idle,
    Ended,
}

/// A socket that is written to.
///
/// **Guarantees** that bytes are written in the order in which they are taken, each once, whoever takes them.
#[derive(Debug)]
pub(crate) struct Outlet {
    stream: OwnedWriteHalf,
    /// What was begun and not finished.
    begun: Mutex<Bytes>,
    wake: Notify,
}

impl Outlet {
    pub(crate) fn new(stream: OwnedWriteHalf) -> Self {
        Self { stream, begun: Mutex::default(), wake: Notify::new() }
    }

    /// Lets the task of the socket look for something to write.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Writes at once what there is, if the socket takes it; what is left is its task's.
    pub(crate) fn prompt(&self, take: impl FnMut() -> Taken) {
        if !self.is_written_at_once(take) {
            self.wake();
        }
    }

    fn is_written_at_once(&self, mut take: impl FnMut() -> Taken) -> bool {
        // Somebody writes right now, and may have looked already: it is told to look once more.
        let Ok(mut begun) = self.begun.try_lock() else { return false };
        begun.is_empty()
            && matches!(self.step(&mut begun, &mut take), Ok(Step::Wrote(Rest::Nothing) | Step::Idle))
            && begun.is_empty()
    }

    /// Writes what is taken until the end; a socket that takes nothing for so long is an error.
    pub(crate) async fn drain(&self, patience: Duration, mut take: impl FnMut() -> Taken) -> io::Result<()> {
        loop {
            let step = self.step(&mut lock(&self.begun), &mut take)?;
            match step {
                Step::Wrote(_) => consume_budget().await,
                Step::Full => tokio::time::timeout(patience, self.stream.writable()).await??,
                Step::Idle => self.wake.notified().await,
                Step::Ended => return Ok(()),
            }
        }
    }

    fn step(&self, begun: &mut Bytes, take: &mut impl FnMut() -> Taken) -> io::Result<Step> {
        let mut rest = Rest::More;
        if begun.is_empty() {
            let taken = take();
            (*begun, rest) = (taken.batch, taken.rest);
            if begun.is_empty() {
                return Ok(if rest == Rest::End { Step::Ended } else { Step::Idle });
            }
        }
        match self.stream.try_write(begun) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                begun.advance(length);
                Ok(Step::Wrote(rest))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Step::Full),
            Err(error) => Err(error),
        }
    }
}

/// How many bytes are written at a time.
const WRITE: usize = 64 << 10;

/// Frames that wait for a socket, as many as there is room for.
#[derive(Debug)]
pub(crate) struct Queue {
    outlet: Outlet,
    waiting: Mutex<Waiting>,
    room: Room,
    has_room: Notify,
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    is_closed: bool,
}

impl Queue {
    /// An empty one.
    pub(crate) fn new(stream: OwnedWriteHalf, room: Room) -> Self {
        Self { outlet: Outlet::new(stream), waiting: Mutex::default(), room, has_room: Notify::new() }
    }

    /// Lets a frame wait; it comes back if there is no room, or nobody who writes.
    pub(crate) fn push(&self, frame: Bytes) -> Result<(), Bytes> {
        let mut waiting = lock(&self.waiting);
        let has_room = waiting.frames.len() < self.room.frames && waiting.bytes < self.room.bytes;
        if waiting.is_closed || !has_room {
            return Err(frame);
        }
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        Ok(())
    }

    /// The same, and waits for room; the answer says whether anybody writes.
    pub(crate) async fn pushed(&self, mut frame: Bytes) -> bool {
        loop {
            let has_room = self.has_room.notified();
            match self.push(frame) {
                Ok(()) => return true,
                Err(_) if lock(&self.waiting).is_closed => return false,
                Err(back) => frame = back,
            }
            has_room.await;
        }
    }

    /// Writes at once what waits, or lets the task of the socket do it.
    pub(crate) fn prompt(&self, pace: Pace) {
        match pace {
            Pace::Calm => self.outlet.prompt(|| self.taken()),
            Pace::Busy => self.outlet.wake(),
        }
    }

    /// Writes what waits, and what comes; a socket that takes nothing for so long is an error.
    pub(crate) async fn drain(&self, patience: Duration) -> io::Result<()> {
        self.outlet.drain(patience, || self.taken()).await
    }

    /// Forgets what waits, and takes nothing more.
    pub(crate) fn close(&self) {
        *lock(&self.waiting) = Waiting { is_closed: true, ..Waiting::default() };
        self.has_room.notify_waiters();
    }

    fn taken(&self) -> Taken {
        let mut waiting = lock(&self.waiting);
        let (mut frames, mut size) = (Vec::new(), 0);
        while size < WRITE {
            let Some(frame) = waiting.frames.pop_front() else { break };
            size += frame.len();
            frames.push(frame);
        }
        waiting.bytes -= size;
        let rest = if waiting.frames.is_empty() { Rest::Nothing } else { Rest::More };
        drop(waiting);
        self.has_room.notify_waiters();
        Taken { batch: joined(frames), rest }
    }
}

/// Frames one behind the other; a single one as it is.
pub(crate) fn joined(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() == 1 {
        return frames.pop().unwrap_or_default();
    }
    let mut batch = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
    frames.iter().for_each(|frame| batch.extend_from_slice(frame));
    batch.freeze()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;
    use tokio::net::tcp::OwnedReadHalf;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    async fn pair(room: Room) -> (Arc<Queue>, OwnedReadHalf) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let (reader, _) = far.into_split();
        let (_, writer) = near.into_split();
        (Arc::new(Queue::new(writer, room)), reader)
    }

    #[tokio::test]
    async fn whoever_writes_the_order_is_that_of_the_frames() {
        let (queue, mut reader) = pair(Room { frames: usize::MAX, bytes: usize::MAX }).await;
        let writes = Arc::clone(&queue);
        let writing = tokio::spawn(async move { writes.drain(DEADLINE).await });
        let frame = |number: u32| Bytes::from(number.to_be_bytes().repeat(256));
        let all = 20_000;
        let pushing = async {
            for number in 0..all {
                queue.push(frame(number)).unwrap();
                queue.prompt(if number % 3 == 0 { Pace::Busy } else { Pace::Calm });
                if number % 100 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        };
        let reading = async {
            let mut heard = [0; 1024];
            for number in 0..all {
                reader.read_exact(&mut heard).await.unwrap();
                assert_eq!(heard[..], frame(number)[..], "frame {number}");
            }
        };
        tokio::time::timeout(DEADLINE, async { tokio::join!(pushing, reading) }).await.unwrap();
        writing.abort();
    }

    #[tokio::test]
    async fn bytes_take_room_as_well_as_frames() {
        let (queue, _reader) = pair(Room { frames: usize::MAX, bytes: 1000 }).await;
        let large = Bytes::from(vec![7; 600]);
        assert_eq!([queue.push(large.clone()), queue.push(large.clone())], [Ok(()), Ok(())]);
        assert_eq!(queue.push(large.clone()), Err(large));
    }

    #[tokio::test]
    async fn what_there_is_no_room_for_comes_back_or_waits() {
        let (queue, mut reader) = pair(Room { frames: 2, bytes: usize::MAX }).await;
        let frame = Bytes::from_static(b"frame");
        assert_eq!([queue.push(frame.clone()), queue.push(frame.clone())], [Ok(()), Ok(())]);
        assert_eq!(queue.push(frame.clone()), Err(frame.clone()));
        let (waits, writes) = (Arc::clone(&queue), Arc::clone(&queue));
        let waiting = tokio::spawn(async move { waits.pushed(frame).await });
        let writing = tokio::spawn(async move { writes.drain(DEADLINE).await });
        assert!(tokio::time::timeout(DEADLINE, waiting).await.unwrap().unwrap());
        queue.prompt(Pace::Busy);
        let mut heard = [0; 15];
        tokio::time::timeout(DEADLINE, reader.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(&heard, b"frameframeframe");
        writing.abort();
        queue.close();
        assert!(!queue.pushed(Bytes::from_static(b"late")).await);
    }
}
