//! One agent per network: two that declare different things would take each other's items down.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

/// The name that the agent of a network holds. Such names belong to the network namespace and go with the process.
const NAME: &str = "kilter-agent";

/// How long the name may be held by what is about to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait before the name is asked for again.
const PAUSE: Duration = Duration::from_millis(20);

/// Why this agent may not keep the network.
#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    /// Another agent does.
    #[error("another agent keeps this network, hint: stop it first; `ss -xlp` shows who holds `@{NAME}`")]
    Taken,
    /// It could not be found out.
    #[error("failed to find out whether another agent keeps this network")]
    Unknown(#[source] io::Error),
}

/// The right to keep the network of the calling thread, as long as it is held.
#[derive(Debug)]
pub struct Alone(#[expect(dead_code, reason = "held, not used")] UnixListener);

impl Alone {
    /// Takes the right, if nobody has it.
    ///
    /// **Why** it waits a moment: a child that an agent was starting when it was killed holds the name until it has
    /// ended too, and the next agent may be there before.
    pub fn take() -> Result<Self, AloneError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Self::try_take() {
                Err(AloneError::Taken) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                taken => return taken,
            }
        }
    }

    fn try_take() -> Result<Self, AloneError> {
        let bound = SocketAddr::from_abstract_name(NAME).and_then(|name| UnixListener::bind_addr(&name));
        match bound {
            Ok(listener) => Ok(Self(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(AloneError::Taken),
            Err(error) => Err(AloneError::Unknown(error)),
        }
    }
}
