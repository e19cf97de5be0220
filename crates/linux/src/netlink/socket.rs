//! The socket that carries requests of one namespace: batches of changes, dumps, single reads.
//!
//! **Guarantees**: every change is answered for by its sequence number, whatever else arrives; a dump that the kernel
//! interrupted is made again. It blocks: it belongs on a thread of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink, sockopt,
};

use super::error::Refusal;
use super::message::{Attributes, Message, Messages, Received, control, flag, u32_at};
use super::scratch::with_scratch;
use crate::syscall::{NetlinkOption, namespace_cookie, set_netlink_option};

/// How many changes go out in one send. From here on, more per send is not faster.
const PER_SEND: usize = 64;

/// How long the kernel may keep us waiting for an answer: requests are carried out while they are sent, so an answer
/// that is not there will not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often an interrupted dump is made again before the reader is told to try again.
const DUMPS: usize = 8;

const RECEIVE_BUFFER: usize = 1 << 20;

/// What was asked of the kernel since the start, over all namespaces.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    writes: AtomicU64,
    sends: AtomicU64,
    reads: AtomicU64,
    dumps: AtomicU64,
}

/// What was asked of the kernel since the start, over all namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that change something: one message each, whether refused or not; also files written and programs run.
    pub writes: u64,
    /// System calls that carried them.
    pub sends: u64,
    /// Single things that were read.
    pub reads: u64,
    /// Tables that were read, filtered by the kernel or not.
    pub dumps: u64,
}

impl Counters {
    pub(crate) fn seen(&self) -> Counts {
        Counts {
            writes: self.writes.load(Ordering::Relaxed),
            sends: self.sends.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            dumps: self.dumps.load(Ordering::Relaxed),
        }
    }

    /// A change that did not go over a socket.
    pub(crate) fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

/// The request socket of one namespace.
#[derive(Debug)]
pub(crate) struct Requests {
    socket: OwnedFd,
    port: u32,
    seq: u32,
    counters: Arc<Counters>,
    out: Vec<u8>,
}

impl Requests {
    /// Opens a socket in the namespace of the calling thread.
    pub(crate) fn open(counters: Arc<Counters>) -> Result<Self, Refusal> {
        Self::over(open(None)?, counters)
    }

    /// The same for the family of packet filters.
    pub(crate) fn open_netfilter(counters: Arc<Counters>) -> Result<Self, Refusal> {
        Self::over(open(Some(rustix::net::netlink::NETFILTER))?, counters)
    }

    fn over(socket: OwnedFd, counters: Arc<Counters>) -> Result<Self, Refusal> {
        for option in [NetlinkOption::CapAck, NetlinkOption::ExtAck, NetlinkOption::StrictCheck] {
            set_netlink_option(&socket, option)?;
        }
        // Without the right to a large buffer a smaller one does: answers are read after every send.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        let port = SocketAddrNetlink::try_from(rustix::net::getsockname(&socket)?)?.pid();
        Ok(Self { socket, port, seq: 0, counters, out: Vec::new() })
    }

    /// The port by which the events that our requests cause are recognised.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// The number of the namespace of the socket, which no other one gets as long as the machine runs.
    pub(crate) fn cookie(&self) -> Result<u64, Refusal> {
        Ok(namespace_cookie(&self.socket)?)
    }

    /// Sends changes, many at a time, and says how each of them ended, in order.
    ///
    /// Only the last change of a send asks for an acknowledgement: the kernel carries them out in order and reports
    /// every failure by its sequence number, so its arrival says that all the others are done.
    pub(crate) fn change(&mut self, changes: &[Message]) -> Vec<Result<(), Refusal>> {
        let mut results = Vec::with_capacity(changes.len());
        for chunk in changes.chunks(PER_SEND) {
            self.change_chunk(chunk, &mut results);
        }
        results
    }

    /// Sends one change.
    pub(crate) fn change_one(&mut self, change: &Message) -> Result<(), Refusal> {
        self.change(std::slice::from_ref(change)).pop().unwrap_or(Ok(()))
    }

    fn change_chunk(&mut self, chunk: &[Message], results: &mut Vec<Result<(), Refusal>>) {
        let first = self.seq.wrapping_add(1);
        let base = results.len();
        let last = chunk.len().saturating_sub(1);
        self.out.clear();
        for (at, message) in chunk.iter().enumerate() {
            self.seq = self.seq.wrapping_add(1);
            message.finish_into(&mut self.out, if at == last { flag::ACK } else { 0 }, self.seq);
            results.push(Ok(()));
        }
        self.counters.writes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        self.counters.sends.fetch_add(1, Ordering::Relaxed);
        if let Err(refusal) = self.send() {
            results[base..].iter_mut().for_each(|result| *result = Err(refusal.clone()));
            return;
        }
        let end = self.seq;
        let ended = self.receive(|received| {
            let at = received.seq.wrapping_sub(first) as usize;
            if received.kind != control::ERROR || at >= chunk.len() {
                return None;
            }
            if let Some(refusal) = refusal_of(&received) {
                results[base + at] = Err(refusal);
            }
            (received.seq == end).then_some(())
        });
        if let Err(refusal) = ended {
            // What was not answered for may have been done or not: nobody may take it as done.
            let unknown = results[base..].iter_mut().filter(|result| result.is_ok());
            unknown.for_each(|result| *result = Err(refusal.clone()));
        }
    }

    /// Reads one thing; `None` if the kernel says that it is not there.
    pub(crate) fn read<T>(
        &mut self,
        request: &Message,
        mut decode: impl FnMut(&Received<'_>) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        self.request(request, flag::ACK)?;
        let seq = self.seq;
        let mut found = None;
        let ended = self.receive(|received| {
            if received.seq != seq {
                return None;
            }
            if received.kind == control::ERROR {
                return Some(refusal_of(&received).map_or(Ok(()), Err));
            }
            found = decode(&received).or(found.take());
            None
        })?;
        match ended {
            Ok(()) => Ok(found),
            Err(refusal) if refusal.is_any(&[Errno::NODEV, Errno::NOENT, Errno::SRCH]) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Reads a table and gives each of its entries to `take`; `start` is called before each attempt.
    pub(crate) fn dump<S>(
        &mut self,
        request: &Message,
        start: impl Fn() -> S,
        mut take: impl FnMut(&mut S, &Received<'_>),
    ) -> Result<S, Refusal> {
        for _ in 0..DUMPS {
            self.counters.dumps.fetch_add(1, Ordering::Relaxed);
            self.request(request, flag::DUMP)?;
            let seq = self.seq;
            let mut table = start();
            let mut interrupted = false;
            let ended = self.receive(|received| {
                if received.seq != seq {
                    return None;
                }
                interrupted |= received.flags & flag::DUMP_INTERRUPTED != 0;
                match received.kind {
                    control::DONE => Some(done_refusal(received.payload).map_or(Ok(()), Err)),
                    control::ERROR => Some(refusal_of(&received).map_or(Ok(()), Err)),
                    _ => {
                        take(&mut table, &received);
                        None
                    }
                }
            })?;
            ended?;
            if !interrupted {
                return Ok(table);
            }
        }
        let text = format!("the table changed while it was read, {DUMPS} times in a row");
        Err(Refusal { text: Some(text), ..Refusal::of(Errno::AGAIN) })
    }

    fn request(&mut self, request: &Message, flags: u16) -> Result<(), Refusal> {
        self.seq = self.seq.wrapping_add(1);
        self.out.clear();
        request.finish_into(&mut self.out, flags, self.seq);
        self.send()
    }

    fn send(&self) -> Result<(), Refusal> {
        loop {
            match rustix::net::send(&self.socket, &self.out, SendFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Receives until `take` has what it waits for.
    fn receive<T>(&mut self, mut take: impl FnMut(Received<'_>) -> Option<T>) -> Result<T, Refusal> {
        with_scratch(|buffer| {
            loop {
                let (length, _) = match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                    Ok(received) => received,
                    Err(Errno::INTR) => continue,
                    Err(errno) => return Err(errno.into()),
                };
                let mut found = None;
                for received in Messages(&buffer[..length]) {
                    found = take(received).or(found);
                }
                if let Some(found) = found {
                    return Ok(found);
                }
            }
        })
    }
}

/// Opens a netlink socket in the namespace of the calling thread, bound to a port of its own; without a protocol it is
/// one for routing.
pub(crate) fn open(protocol: Option<rustix::net::Protocol>) -> Result<OwnedFd, Refusal> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    rustix::net::bind(socket.as_fd(), &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// What an acknowledgement says; `None` if all is well.
fn refusal_of(received: &Received<'_>) -> Option<Refusal> {
    let errno = u32_at(received.payload, 0)?.cast_signed().wrapping_neg();
    // The error is followed by the header of the request, which is not repeated whole.
    let with_words = received.flags & flag::ACK_TLVS != 0;
    let text = with_words.then(|| words(Attributes::after(received.payload, 4 + super::message::HEADER)));
    (errno != 0).then(|| Refusal { errno, text: text.flatten() })
}

/// What the end of a dump says; `None` if all is well.
fn done_refusal(payload: &[u8]) -> Option<Refusal> {
    let errno = u32_at(payload, 0)?.cast_signed().wrapping_neg();
    (errno > 0).then(|| Refusal { errno, text: words(Attributes::after(payload, 4)) })
}

fn words(attributes: Attributes<'_>) -> Option<String> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    attributes.get(NLMSGERR_ATTR_MSG).map(|attribute| attribute.as_text())
}

/// Fuzzed: whatever a kernel may answer to a change.
#[doc(hidden)]
pub fn decode_refusals(bytes: &[u8]) -> usize {
    let refusal = |received: Received<'_>| refusal_of(&received).or_else(|| done_refusal(received.payload));
    Messages(bytes).filter_map(refusal).count()
}

#[cfg(test)]
mod tests;
