//! What a process was started with: listening sockets that somebody held for it.
//!
//! Decided here: how such sockets are found (by number, from the service manager or from the agent before this one), and
//! that they are taken once. Not decided here: what is served on them.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;
use rustix::net::AddressFamily;
use rustix::net::sockopt::{socket_acceptconn, socket_domain};

use crate::syscall;

/// Names the sockets that the agent before this one left: `PROCESS:NUMBER,NUMBER`.
const LEFT: &str = "KILTER_LISTENERS";

/// The first descriptor that a service manager hands out.
const FIRST: i32 = 3;

/// Who held the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The agent that this process was before.
    ByPredecessor,
    /// The service manager: the file of the socket is its own.
    ByManager,
}

/// The listening sockets that this process was started with.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The one with a file.
    pub socket: Option<(UnixListener, Held)>,
    /// Those with an address.
    pub tcp: Vec<TcpListener>,
}

/// The listening sockets that this process was started with.
///
/// **Guarantees** that they are given out once.
pub fn listeners() -> io::Result<Inherited> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let mut inherited = Inherited::default();
    let named = named(|name| std::env::var(name).ok(), std::process::id());
    let Some((numbers, held)) = named.filter(|_| !TAKEN.swap(true, Ordering::SeqCst)) else {
        return Ok(inherited);
    };
    for number in numbers {
        let socket = syscall::inherit(number)?;
        let family = socket_domain(&socket)?;
        if !socket_acceptconn(&socket)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no socket that listens"));
        }
        if family == AddressFamily::UNIX {
            inherited.socket.get_or_insert((UnixListener::from(socket), held));
        } else {
            inherited.tcp.push(TcpListener::from(socket));
        }
    }
    Ok(inherited)
}

/// The numbers of the sockets, if these variables name some for this process.
fn named(variable: impl Fn(&str) -> Option<String>, process: u32) -> Option<(Vec<i32>, Held)> {
    let process = process.to_string();
    if let Some((whose, numbers)) = variable(LEFT).as_deref().and_then(|text| text.split_once(':'))
        && whose == process
    {
        let numbers = numbers.split(',').map(str::parse).collect::<Result<_, _>>();
        return Some((numbers.ok()?, Held::ByPredecessor));
    }
    let is_ours = variable("LISTEN_PID")? == process;
    let count: i32 = variable("LISTEN_FDS")?.parse().ok()?;
    (is_ours && count > 0).then(|| ((FIRST..FIRST.saturating_add(count)).collect(), Held::ByManager))
}

/// Lets sockets outlive this program: what the next one finds them by. Whoever tells it to hand over before it listens is
/// not its end: it has just been handed over.
///
/// **Assumes** that the process is about to become that program.
pub fn leave(sockets: &[OwnedFd]) -> io::Result<(&'static str, String)> {
    syscall::ignore_hang_up()?;
    for socket in sockets {
        rustix::io::fcntl_setfd(socket.as_fd(), FdFlags::empty())?;
    }
    let numbers: Vec<String> = sockets.iter().map(|socket| socket.as_raw_fd().to_string()).collect();
    Ok((LEFT, format!("{}:{}", std::process::id(), numbers.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(variables: &[(&str, &str)]) -> Option<(Vec<i32>, Held)> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        named(|name| find(name).map(|(_, value)| (*value).to_owned()), 7)
    }

    #[test]
    fn only_what_is_meant_for_this_process_counts() {
        assert_eq!(among(&[]), None);
        assert_eq!(among(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "1")]), Some((vec![3], Held::ByManager)));
        assert_eq!(among(&[("LISTEN_PID", "8"), ("LISTEN_FDS", "1")]), None);
        assert_eq!(among(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "0")]), None);
        assert_eq!(among(&[(LEFT, "7:12")]), Some((vec![12], Held::ByPredecessor)));
        assert_eq!(among(&[(LEFT, "7:12,9")]), Some((vec![12, 9], Held::ByPredecessor)));
        assert_eq!(
            among(&[(LEFT, "8:12"), ("LISTEN_PID", "7"), ("LISTEN_FDS", "2")]),
            Some((vec![3, 4], Held::ByManager))
        );
    }

    #[test]
    fn what_is_not_open_is_refused() {
        assert!(syscall::inherit(1).is_err());
        assert!(syscall::inherit(987_654).is_err());
    }
}
