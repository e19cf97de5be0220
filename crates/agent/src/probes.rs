//! Probes: what decides about a change that waits for its confirmation, before its deadline does.
//!
//! Decided here: a change whose probes fail three times in a row goes back at once, and one whose probes all pass three
//! times in a row is confirmed. They are kept with the change: an agent that comes back tries them again, once it has
//! begun. Not decided here: what happens if neither comes to pass; the deadline stands.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kilter_scheduler::Seq;
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};

use crate::confirm::Probe;
use crate::desk::Desk;

/// How often probes are tried, and how long each may take.
pub(crate) const ROUND: Duration = Duration::from_secs(1);

/// How many rounds in a row decide.
pub(crate) const ENOUGH: u32 = 3;

/// Tries probes again and again while the change waits, until they decide.
pub(crate) async fn decide(desk: Desk, id: Seq, probes: Vec<Probe>) {
    let (mut good, mut bad) = (0, 0);
    let mut next = tokio::time::Instant::now() + ROUND;
    while let Ok(Some(pending)) = desk.confirmation().await {
        if pending.id != id {
            return;
        }
        match failing(&probes).await {
            None => (good, bad) = (good + 1, 0),
            Some(_) => (good, bad) = (0, bad + 1),
        }
        // Somebody may have been faster; then there is nothing left to decide.
        if bad >= ENOUGH {
            let _ = desk.cancel(Some(id)).await.ended().await;
            return;
        }
        if good >= ENOUGH {
            let _ = desk.confirm(Some(id)).await;
            return;
        }
        sleep_until(next).await;
        next = tokio::time::Instant::now() + ROUND;
    }
}

/// The first probe that does not pass.
pub(crate) async fn failing(probes: &[Probe]) -> Option<&Probe> {
    for probe in probes {
        let passes = match probe {
            Probe::Tcp(place) => {
                timeout(ROUND, TcpStream::connect(place)).await.is_ok_and(|dialled| dialled.is_ok())
            }
            Probe::Ping(address) => ends_well(&["ping", "-c", "1", "-W", "1", "--", address]).await,
            Probe::Command(command) => ends_well(&["sh", "-c", command]).await,
        };
        if !passes {
            return Some(probe);
        }
    }
    None
}

/// Whether a program ends with 0 in time; one that does not end is killed.
async fn ends_well(words: &[&str]) -> bool {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let run = move || {
        let deadline = Instant::now() + 2 * ROUND;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(ROUND / 50),
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return false;
                }
            }
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_probe_passes_only_if_what_it_tries_succeeds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = Probe::Tcp(listener.local_addr().unwrap().to_string());
        assert_eq!(failing(&[open.clone(), Probe::Command("true".to_owned())]).await, None);
        let bad = Probe::Command("false".to_owned());
        assert_eq!(failing(&[open, bad.clone()]).await, Some(&bad));
        let hangs = Probe::Command("sleep 60".to_owned());
        assert_eq!(failing(std::slice::from_ref(&hangs)).await, Some(&hangs));
    }
}
