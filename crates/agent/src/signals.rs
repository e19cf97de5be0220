//! Signals: Ctrl-C and SIGTERM end the agent, a second one ends it at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::drive::Stop;

/// As a shell tells a program that was ended by Ctrl-C.
const AT_ONCE: i32 = 130;

/// Ends the agent on the first signal, and the process on the second.
///
/// **Assumes** a tokio runtime with I/O.
pub(crate) fn heed(stop: Stop) -> io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        let reason = either(&mut interrupt, &mut terminate).await;
        stop.stop(reason);
        either(&mut interrupt, &mut terminate).await;
        std::process::exit(AT_ONCE);
    });
    Ok(())
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "stopped by Ctrl-C",
        _ = terminate.recv() => "stopped by SIGTERM",
    }
}
