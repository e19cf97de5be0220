//! Confirmations on the wire, and the probes that decide sooner.
//!
//! Decided here: a change whose probes fail three times in a row goes back at once, and one whose probes all pass three
//! times in a row is confirmed. Not decided here: what happens if neither comes to pass; the agent's own deadline stands,
//! also across a restart.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kilter_api::v1::probe::What;
use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_scheduler::Seq;
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};

use super::{Northbound, change, convert};
use crate::confirm::{ConfirmError, Pending};
use crate::desk::{Confirm, Desk};

/// How often probes are tried, and how long each may take.
const ROUND: Duration = Duration::from_secs(1);

/// How many rounds in a row decide.
const ENOUGH: u32 = 3;

/// How long a change shall wait.
pub(super) fn within(asked: &v1::ConfirmWithin) -> Result<Confirm, Problem> {
    let within = change::span(asked.within.as_ref())?;
    if within.is_zero() {
        return Err(Problem::new(Reason::Invalid, "a change must wait for some time to be confirmed"));
    }
    Ok(Confirm { within })
}

/// A change that waits.
pub(super) fn confirmation(pending: &Pending) -> v1::Confirmation {
    v1::Confirmation {
        id: pending.id.to_string(),
        txn: pending.id,
        deadline: Some(wire::moment(pending.deadline)),
        description: pending.description.clone(),
    }
}

/// Which change is meant; none means whichever waits.
fn named(id: &str) -> Result<Option<Seq>, Problem> {
    if id.is_empty() {
        return Ok(None);
    }
    let number = id.trim_start_matches('#').parse();
    number.map(Some).map_err(|_| {
        let message = format!("`{id}` is not the name of a confirmation");
        Problem::new(Reason::Invalid, message).with_hint("it is the number of its transaction")
    })
}

fn refusal(error: &ConfirmError) -> Problem {
    let reason = match error {
        ConfirmError::Nothing | ConfirmError::Another { .. } => Reason::Unknown,
        ConfirmError::NotKept { .. } => Reason::Refused,
        ConfirmError::Gone => Reason::Unavailable,
    };
    Problem::of(reason, error)
}

impl Northbound {
    /// What waits for a confirmation.
    pub(super) async fn waiting(&self) -> Result<v1::GetConfirmationReply, Problem> {
        let pending = self.desk.confirmation().await.map_err(|gone| change::ended(&gone))?;
        Ok(v1::GetConfirmationReply { confirmation: pending.as_ref().map(confirmation) })
    }

    /// Keeps what waits, and says what it was.
    pub(super) async fn keep(&self, id: &str) -> Result<v1::GetConfirmationReply, Problem> {
        let (id, waiting) = (named(id)?, self.waiting().await?);
        self.desk.confirm(id).await.map_err(|error| refusal(&error))?;
        Ok(waiting)
    }

    /// Gives what waits more time.
    pub(super) async fn extend(
        &self,
        request: &v1::ExtendConfirmationRequest,
    ) -> Result<v1::GetConfirmationReply, Problem> {
        let (id, within) = (named(&request.id)?, change::span(request.within.as_ref())?);
        self.desk.extend(id, within).await.map_err(|error| refusal(&error))?;
        self.waiting().await
    }

    /// Takes back what waits, and says how that went.
    pub(super) async fn take_back(&self, id: &str) -> Result<v1::Ended, Problem> {
        let applied = self.desk.cancel(named(id)?).await.ended().await;
        let applied = applied.map_err(|error| convert::refusal(&error))?;
        Ok(change::ended_well(&self.desk, applied, Vec::new(), &self.instance).await)
    }
}

/// Tries probes again and again while the change waits, until they decide.
pub(super) async fn decide(desk: Desk, id: Seq, probes: Vec<v1::Probe>) {
    let (mut good, mut bad) = (0, 0);
    let mut next = tokio::time::Instant::now() + ROUND;
    while let Ok(Some(pending)) = desk.confirmation().await {
        if pending.id != id {
            return;
        }
        match all_pass(&probes).await {
            true => (good, bad) = (good + 1, 0),
            false => (good, bad) = (0, bad + 1),
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

async fn all_pass(probes: &[v1::Probe]) -> bool {
    for probe in probes {
        let passes = match &probe.what {
            Some(What::Tcp(place)) => {
                timeout(ROUND, TcpStream::connect(place)).await.is_ok_and(|dialled| dialled.is_ok())
            }
            Some(What::Ping(address)) => ends_well(&["ping", "-c", "1", "-W", "1", "--", address]).await,
            Some(What::Command(command)) => ends_well(&["sh", "-c", command]).await,
            None => true,
        };
        if !passes {
            return false;
        }
    }
    true
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

    fn probe(what: What) -> v1::Probe {
        v1::Probe { what: Some(what) }
    }

    #[tokio::test]
    async fn a_probe_passes_only_if_what_it_tries_succeeds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = probe(What::Tcp(listener.local_addr().unwrap().to_string()));
        assert!(all_pass(&[open.clone(), probe(What::Command("true".to_owned()))]).await);
        assert!(!all_pass(&[open, probe(What::Command("false".to_owned()))]).await);
        assert!(
            !all_pass(&[probe(What::Command("sleep 60".to_owned()))]).await,
            "one that hangs does not pass"
        );
    }

    #[test]
    fn a_confirmation_is_named_by_its_transaction() {
        assert_eq!(
            (named("").unwrap(), named("12").unwrap(), named("#12").unwrap()),
            (None, Some(12), Some(12))
        );
        assert_eq!(named("twelve").unwrap_err().reason(), Reason::Invalid);
    }
}
