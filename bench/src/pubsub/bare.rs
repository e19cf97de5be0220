//! The bare transports: frames to everybody, without topics, order, loss or repair. What delivery is held against.
//!
//! Decided here: that a bare transport has the shape of the one it is held against. Frames have the size that Kilter's have
//! there, are made once for everybody, and are written by a task for each subscriber, those that wait together. Whoever
//! reads does not wait for the application: a task reads, and hands every frame over to its owner.

#[path = "bare/nats.rs"]
mod nats;
#[path = "bare/zmq.rs"]
mod zmq;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};

use super::told::Told;

pub(crate) use nats::{frame as nats_frame, nats};
pub(crate) use zmq::{frame as zmq_frame, zmq};

/// How much is written at a time.
const BATCH: usize = 64 << 10;

/// How many frames wait between whoever reads and its owner: as many as behind a follower.
const WAITING: usize = 64;

/// Frames for everybody.
pub(crate) type Frames = broadcast::Sender<Bytes>;

/// Where whoever reads hands frames over.
type Owner = mpsc::Sender<Bytes>;

/// An owner of what is read, in a task of its own.
fn owner(told: &Told) -> Owner {
    let (to, mut frames) = mpsc::channel::<Bytes>(WAITING);
    let told = told.clone();
    tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            told.applied(&frame);
        }
    });
    to
}

/// A channel to everybody in this process; one task takes from it, and hands over.
pub(crate) fn local(subscribers: usize, room: usize, told: &Told) -> Frames {
    let (frames, _) = broadcast::channel::<Bytes>(room);
    for _ in 0..subscribers {
        let (mut heard, owner) = (frames.subscribe(), owner(told));
        tokio::spawn(async move {
            while let Ok(frame) = heard.recv().await {
                if owner.send(frame).await.is_err() {
                    return;
                }
            }
        });
    }
    frames
}

/// The same without anybody in between: the owner takes from the channel.
pub(crate) fn channel(subscribers: usize, room: usize, told: &Told) -> Frames {
    let (frames, _) = broadcast::channel::<Bytes>(room);
    for _ in 0..subscribers {
        let (mut heard, told) = (frames.subscribe(), told.clone());
        tokio::spawn(async move {
            while let Ok(frame) = heard.recv().await {
                told.applied(&frame);
            }
        });
    }
    frames
}

/// Frames with a length from one sender to every connection.
pub(crate) async fn tcp(subscribers: usize, room: usize, told: &Told) -> anyhow::Result<Frames> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let place = listener.local_addr()?;
    let (frames, _) = broadcast::channel::<Bytes>(room);
    for _ in 0..subscribers {
        let reader = TcpStream::connect(place).await?;
        let (writer, _) = listener.accept().await?;
        writer.set_nodelay(true)?;
        tokio::spawn(write(writer, frames.subscribe()));
        tokio::spawn(read(reader.into_split().0, owner(told)));
    }
    Ok(frames)
}

/// A frame with its length, of a size in all, that begins with when it was made.
pub(crate) fn tcp_frame(stamp: u64, size: usize) -> Bytes {
    let mut frame = vec![b'x'; size];
    frame[..4].copy_from_slice(&u32::try_from(size - 4).unwrap_or(0).to_be_bytes());
    frame[4..12].copy_from_slice(&stamp.to_le_bytes());
    frame.into()
}

async fn read(mut reader: OwnedReadHalf, owner: Owner) {
    let mut buffer = BytesMut::with_capacity(BATCH);
    while let Ok(1..) = reader.read_buf(&mut buffer).await {
        while let Some(length) = buffer.first_chunk::<4>().map(|length| u32::from_be_bytes(*length)) {
            let length = length as usize;
            if buffer.len() < 4 + length {
                break;
            }
            buffer.advance(4);
            if owner.send(buffer.split_to(length).freeze()).await.is_err() {
                return;
            }
        }
    }
}

/// Writes frames as they come, those that wait together.
async fn write(mut stream: TcpStream, mut frames: broadcast::Receiver<Bytes>) {
    let mut batch = Vec::new();
    while let Ok(frame) = frames.recv().await {
        let Ok(more) = frames.try_recv() else {
            if stream.write_all(&frame).await.is_err() {
                return;
            }
            continue;
        };
        batch.clear();
        batch.extend_from_slice(&frame);
        batch.extend_from_slice(&more);
        while batch.len() < BATCH {
            let Ok(more) = frames.try_recv() else { break };
            batch.extend_from_slice(&more);
        }
        if stream.write_all(&batch).await.is_err() {
            return;
        }
    }
}
