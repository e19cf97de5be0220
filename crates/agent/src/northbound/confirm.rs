//! Changes that wait for their confirmation, on the wire.

use std::time::{Duration, UNIX_EPOCH};

use kilter_api::v1::{self, Problem, Reason};
use kilter_scheduler::Seq;

use super::Northbound;
use super::change::{self, ended, relay, span};
use crate::confirm::{ConfirmError, Pending};
use crate::desk::{Confirm, View};

/// How long a change shall wait.
pub(super) fn within(asked: &v1::ConfirmWithin) -> Result<Confirm, Problem> {
    if !asked.probes.is_empty() {
        let message = "this agent decides by nobody's probes";
        let hint = "probe yourself, then `kilter confirm`; nothing was done";
        return Err(Problem::new(Reason::Refused, message).with_hint(hint));
    }
    let within = span(asked.within.as_ref())?;
    if within.is_zero() {
        return Err(Problem::new(Reason::Invalid, "a change must wait for some time to be confirmed"));
    }
    Ok(Confirm { within })
}

/// A change that waits.
pub(super) fn wire(pending: &Pending) -> v1::Confirmation {
    let deadline = UNIX_EPOCH + Duration::from_nanos(pending.deadline.0);
    v1::Confirmation {
        id: pending.id.to_string(),
        txn: pending.id,
        deadline: Some(deadline.into()),
        description: pending.description.clone(),
    }
}

/// Which change waits, if one does.
pub(super) fn reply(view: &View<'_>) -> v1::GetConfirmationReply {
    v1::GetConfirmationReply { confirmation: view.ledger.confirmation.as_ref().map(wire) }
}

impl Northbound {
    pub(super) async fn confirmed(&self, id: &str) -> Result<v1::GetConfirmationReply, Problem> {
        self.desk.confirm(parse(id)?).await.map_err(|error| problem(&error))?;
        Ok(v1::GetConfirmationReply::default())
    }

    pub(super) async fn extended(
        &self,
        request: &v1::ExtendConfirmationRequest,
    ) -> Result<v1::GetConfirmationReply, Problem> {
        let within = span(request.within.as_ref())?;
        self.desk.extend(parse(&request.id)?, within).await.map_err(|error| problem(&error))?;
        self.desk.inquire(reply).await.map_err(|gone| ended(&gone))
    }

    pub(super) async fn cancelled(&self, id: &str) -> Result<change::Stream, Problem> {
        let changing = self.desk.cancel(parse(id)?).await;
        Ok(relay(self.desk.clone(), changing, Vec::new(), self.instance.to_string()))
    }
}

fn parse(id: &str) -> Result<Option<Seq>, Problem> {
    if id.is_empty() {
        return Ok(None);
    }
    let number = id.trim_start_matches('#').parse();
    number.map(Some).map_err(|_| Problem::new(Reason::Unknown, format!("no change is called `{id}`")))
}

fn problem(error: &ConfirmError) -> Problem {
    let reason = match error {
        ConfirmError::Nothing | ConfirmError::Another { .. } => Reason::Unknown,
        ConfirmError::NotKept { .. } => Reason::Refused,
        ConfirmError::Gone => Reason::Unavailable,
    };
    Problem::of(reason, error)
}
