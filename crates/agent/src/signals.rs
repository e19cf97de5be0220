//! Signals: Ctrl-C and SIGTERM end the agent, a second one ends it at once; SIGHUP lets the daemon hand over, and ends
//! `up`, whose terminal is gone.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::drive::Stop;

/// As a shell tells a program that was ended by Ctrl-C.
const AT_ONCE: i32 = 130;

/// Ends the agent on the first signal, and the process on the second.
///
/// **Assumes** a tokio runtime with I/O.
pub(crate) fn heed(stop: Stop) -> io::Result<()> {
    let first = first()?;
    tokio::spawn(async move { stop.stop(first.await) });
    Ok(())
}

/// Ends the agent in order when the terminal that it runs on is gone, unless it was told to outlive that (`nohup`).
///
/// **Why** a second one does nothing: the shell sends it, and so does the kernel.
///
/// **Assumes** a tokio runtime with I/O.
pub(crate) fn heed_hang_up(stop: Stop) -> io::Result<()> {
    if ignores_hang_up() {
        return Ok(());
    }
    let mut hang_up = HangUp::listen()?;
    tokio::spawn(async move {
        hang_up.heard().await;
        stop.stop("the terminal is gone");
        // Heard, and nothing else, until the process has ended.
        loop {
            hang_up.heard().await;
        }
    });
    Ok(())
}

/// Whether whoever started this process wants SIGHUP to be ignored.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Hears that the agent is to hand over.
pub(crate) struct HangUp(Signal);

impl HangUp {
    /// Begins to listen; without that the signal would end the process.
    ///
    /// **Assumes** a tokio runtime with I/O.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the signal.
    pub(crate) async fn heard(&mut self) {
        self.0.recv().await;
    }
}

/// Waits for the first signal; a second one ends the process.
///
/// **Assumes** a tokio runtime with I/O.
pub(crate) fn first() -> io::Result<impl Future<Output = &'static str>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        let reason = either(&mut interrupt, &mut terminate).await;
        tokio::spawn(async move {
            either(&mut interrupt, &mut terminate).await;
            std::process::exit(AT_ONCE);
        });
        reason
    })
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "stopped by Ctrl-C",
        _ = terminate.recv() => "stopped by SIGTERM",
    }
}
