//! Telling the service manager how the agent stands: ready, alive, stopping. A few words to a socket, if it names one.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where the service manager listens.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear from the agent.
    pub(crate) beat: Option<Duration>,
}

impl ServiceManager {
    /// The one that started this process, if one did.
    pub(crate) fn of_this_process() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let is_meant = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let beat = variable("WATCHDOG_USEC").filter(|_| is_meant).and_then(|span| span.parse().ok());
        Self {
            socket: variable("NOTIFY_SOCKET").and_then(|name| open(&name).ok()),
            // Twice as often as it would lose its patience.
            beat: beat.map(|micros: u64| Duration::from_micros(micros / 2)),
        }
    }

    /// Says something. Whoever does not listen any more is no reason to end.
    pub(crate) fn say(&self, words: &str) {
        if let Some((socket, manager)) = &self.socket {
            let _ = socket.send_to_addr(words.as_bytes(), manager);
        }
    }
}

fn open(name: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    Ok((UnixDatagram::unbound()?, address))
}
