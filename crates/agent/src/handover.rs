//! Handing over: the process becomes the program that lies where its own lay, which may be a newer one.
//!
//! Numbered steps: 1. nobody new is let in, and whoever was is answered; who connects meanwhile waits, for the socket and
//! the address stay open; 2. the loop ends without taking anything back; 3. the process becomes the next agent, which takes over the
//! sockets, what was kept and the network, as every start does: without a write.

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kilter_linux::inherited;
use tokio::sync::oneshot;

use crate::drive::Stop;
use crate::northbound::closing::Closer;
use crate::northbound::socket::Socket;
use crate::signals::HangUp;

/// How long whoever was let in may take until the loop ends all the same.
const PATIENCE: Duration = Duration::from_secs(45);

/// The program of this process, as it was found when it began: the file may be another one when it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The one that runs.
    pub(crate) fn of_this_process() -> std::io::Result<Self> {
        Ok(Self { path: std::env::current_exe()?, arguments: std::env::args_os().skip(1).collect() })
    }

    /// Becomes the next agent; returns only if that cannot be done. // 3
    pub(crate) fn succeed(&self, socket: Socket, tcp: Vec<TcpListener>) -> std::io::Error {
        let left = || {
            let left: Vec<OwnedFd> =
                std::iter::once(socket.leave()?).chain(tcp.into_iter().map(Into::into)).collect();
            inherited::leave(&left).map(|found_by| (left, found_by))
        };
        let (left, (name, found_by)) = match left() {
            Ok(left) => left,
            Err(error) => return error,
        };
        let error = Command::new(&self.path).args(&self.arguments).env(name, found_by).exec();
        drop(left);
        error
    }
}

/// Whether the agent ends to be followed by another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handover(Arc<AtomicBool>);

impl Handover {
    /// Waits for the signal, lets whoever was let in come to an end, and ends the loop.
    pub(crate) async fn begin(
        self,
        mut hang_up: HangUp,
        closer: Closer,
        served: oneshot::Receiver<()>,
        stop: Stop,
    ) {
        hang_up.heard().await;
        self.0.store(true, Ordering::SeqCst);
        closer.close(served, PATIENCE).await; // 1
        stop.finish(); // 2
    }

    /// Whether it was told to.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
