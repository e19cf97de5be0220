//! Confirmations on the wire. What probes decide is not decided here; see [`crate::probes`].

use kilter_api::v1::probe::What;
use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_scheduler::Seq;

use super::{Northbound, change, convert};
use crate::confirm::{ConfirmError, Pending, Probe};
use crate::desk::Confirm;

/// How long a change shall wait, and what decides sooner.
pub(super) fn within(asked: &v1::ConfirmWithin) -> Result<Confirm, Problem> {
    let within = change::span(asked.within.as_ref())?;
    if within.is_zero() {
        return Err(Problem::new(Reason::Invalid, "a change must wait for some time to be confirmed"));
    }
    let probes = asked.probes.iter().filter_map(|probe| probe.what.as_ref()).map(probe).collect();
    Ok(Confirm { within, probes, joint: None })
}

pub(crate) fn probe(what: &What) -> Probe {
    match what {
        What::Ping(address) => Probe::Ping(address.clone()),
        What::Tcp(place) => Probe::Tcp(place.clone()),
        What::Command(command) => Probe::Command(command.clone()),
    }
}

/// Whether a probe is a command of this machine, which runs with everything that the agent may.
pub(super) fn runs_commands(asked: &v1::ConfirmWithin) -> bool {
    asked.probes.iter().any(|probe| matches!(probe.what, Some(What::Command(_))))
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
        ConfirmError::NotKept { .. } | ConfirmError::GoesBack { .. } => Reason::Refused,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_is_named_by_its_transaction() {
        assert_eq!(
            (named("").unwrap(), named("12").unwrap(), named("#12").unwrap()),
            (None, Some(12), Some(12))
        );
        assert_eq!(named("twelve").unwrap_err().reason(), Reason::Invalid);
    }
}
