//! Changing: what a client asks becomes an order at the desk, and what the desk tells becomes progress on the wire.

use std::time::Duration;

use kilter_api::v1::plan_request::What;
use kilter_api::v1::progress::What as Told;
use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_scheduler::{Executed, Key, OnFailure, Record, Retry};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::audit::Witness;
use super::door::Role;
use super::{Northbound, confirm, convert, declared};
use crate::desk::{Applied, Changing, Declaration, Desk, Expected, Options, Progress, SettleError};

/// How much progress waits for a slow client before the desk's own queue does.
const PROGRESS: usize = 64;

/// The shortest time between two attempts that a client may ask for.
const SHORTEST: Duration = Duration::from_millis(10);

/// How many bytes a description may have: it is kept with the transaction, and shown wherever that is.
const LONGEST_DESCRIPTION: usize = 4096;

/// As long as anybody may wait.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Progress as a client gets it.
pub(super) type Stream = ReceiverStream<Result<v1::Progress, Status>>;

impl Northbound {
    /// What a client asks for, as declarations of one transaction.
    pub(super) async fn asked(&self, request: &v1::PlanRequest) -> Result<Vec<Declaration>, Problem> {
        match &request.what {
            Some(What::Declaration(declaration)) => {
                let declaration = declared::declaration(declaration)?;
                let wrong = self.remotes.check(&declaration.puts).await;
                declared::refuse_wrong(&declaration, wrong)?;
                Ok(declaration.into())
            }
            Some(What::RevertTo(seq)) => self.revert(*seq).await,
            Some(What::RemoveSource(name)) => {
                let source = name.clone();
                let known = move |view: &crate::desk::View<'_>| {
                    view.sources().iter().map(|line| line.name.to_string()).collect::<Vec<_>>()
                };
                let known = self.desk.inquire(known).await.map_err(|gone| ended(&gone))?;
                if !known.contains(&source) {
                    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                    let message = format!("there is no source `{source}`");
                    let hint = format!("the sources are {}", names.join(", "));
                    return Err(Problem::new(Reason::Unknown, message).with_hint(hint));
                }
                Ok(Declaration::leave(name.as_str()).into())
            }
            None => Err(Problem::new(Reason::Invalid, "the request does not say what is asked")),
        }
    }

    /// Says what would be done.
    pub(super) async fn plan_of(&self, request: &v1::PlanRequest) -> Result<v1::Plan, Problem> {
        let declarations = self.asked(request).await?;
        let planned = self.desk.plan(declarations).await.map_err(|error| convert::refusal(&error))?;
        let newest = self.desk.inquire(|view| view.scheduler.history().newest()).await;
        Ok(convert::planned(&planned, newest.map_err(|gone| ended(&gone))?))
    }

    /// Does what a client asks, and tells how it goes.
    pub(super) async fn change(
        &self,
        request: v1::ApplyRequest,
        mut witness: Witness,
    ) -> Result<Stream, Problem> {
        let asked = request.request.clone().unwrap_or_default();
        witness.describe(&request.description, &request.expected_hash);
        let prepared = match Self::may_change(&request, &asked, &witness) {
            Ok(()) => self.asked(&asked).await,
            Err(problem) => Err(problem),
        };
        let options = options(&request, asked.on_failure(), witness.who().to_owned());
        let wait = request.wait.as_ref().map(|wait| span(Some(wait))).transpose();
        let prepared = prepared.and_then(|declarations| Ok((declarations, options?, wait?)));
        let (declarations, options, wait) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return witness.seen(Err(problem)).await,
        };
        let puts = declarations.iter().flat_map(|declaration| &declaration.puts);
        let concerned = puts.map(|put| put.key.clone()).collect();
        let changing = self.desk.apply(declarations, options).await;
        Ok(relay(self, changing, concerned, wait, witness))
    }

    /// Waits until nothing is left to do, as long as this at most, and tells what is not where it should be.
    pub(super) async fn settle(&self, timeout: Duration) -> Result<v1::WaitReply, Problem> {
        let settled = tokio::select! {
            settled = self.desk.settled(timeout.min(PATIENCE)) => settled,
            () = self.closing() => Err(SettleError::Gone),
        };
        let settled = match settled {
            Ok(()) => true,
            Err(SettleError::Late { .. }) => false,
            Err(error @ SettleError::Gone) => return Err(Problem::of(Reason::Unavailable, &error)),
        };
        self.unsettled().await.map(|unsettled| v1::WaitReply { settled, unsettled })
    }

    /// What an admin alone may ask for.
    fn may_change(
        request: &v1::ApplyRequest,
        asked: &v1::PlanRequest,
        witness: &Witness,
    ) -> Result<(), Problem> {
        let refused = |what: &str, hint: &str| {
            let message = format!("{} may not {what}", witness.who());
            Err(Problem::new(Reason::Forbidden, message).with_hint(hint))
        };
        if witness.role() >= Role::Admin {
            return Ok(());
        }
        if matches!(asked.what, Some(What::RemoveSource(_))) {
            return refused("remove a source with everything it declares", "ask as an admin");
        }
        if request.confirm.as_ref().is_some_and(confirm::runs_commands) {
            return refused(
                "run commands of this machine as probes",
                "use `tcp` or `ping`, or ask as an admin",
            );
        }
        Ok(())
    }
}

/// The agent has ended.
pub(super) fn ended(gone: &crate::desk::Gone) -> Problem {
    Problem::of(Reason::Unavailable, gone)
}

fn options(request: &v1::ApplyRequest, on_failure: v1::OnFailure, who: String) -> Result<Options, Problem> {
    let on_failure = match on_failure {
        v1::OnFailure::Continue => OnFailure::Continue,
        v1::OnFailure::Revert | v1::OnFailure::Unspecified => OnFailure::Revert,
    };
    let expected = (!request.expected_hash.is_empty()).then(|| Expected {
        hash: request.expected_hash.clone(),
        digests: request
            .expected_digests
            .iter()
            .map(|digest| (Key::new(&digest.key), digest.digest.clone()))
            .collect(),
    });
    let length = request.description.len();
    if length > LONGEST_DESCRIPTION {
        let message = format!("the description has {length} bytes");
        let hint = format!("{LONGEST_DESCRIPTION} bytes at most");
        return Err(Problem::new(Reason::Invalid, message).with_hint(hint));
    }
    let confirm = request.confirm.as_ref().map(confirm::within).transpose()?;
    let retry = request.retry.as_ref().map(retry).transpose()?;
    let description = request.description.clone();
    Ok(Options { on_failure, retry, expected, confirm, description, who })
}

/// Whether and when what failed is tried again.
fn retry(rule: &v1::RetryRule) -> Result<Retry, Problem> {
    let period = match &rule.period {
        Some(_) => span(rule.period.as_ref())?,
        None => Retry::default().period,
    };
    if period < SHORTEST {
        let message = format!("what failed is tried again after {SHORTEST:?} at the earliest");
        return Err(Problem::new(Reason::Invalid, message));
    }
    let backoff_cap = rule.longest.as_ref().map(|longest| span(Some(longest))).transpose()?;
    Ok(Retry { period, count: rule.count, backoff_cap, ..Retry::default() })
}

/// A span of time that a client said.
pub(super) fn span(span: Option<&prost_types::Duration>) -> Result<Duration, Problem> {
    let span = span.cloned().unwrap_or_default();
    Duration::try_from(span).map_err(|error| Problem::of(Reason::Invalid, &error))
}

/// Passes on what the desk tells, until it ends; a client that went away is not waited for, and the end is recorded
/// whether or not it listens.
pub(super) fn relay(
    northbound: &Northbound,
    mut changing: Changing,
    concerned: Vec<Key>,
    wait: Option<Duration>,
    mut witness: Witness,
) -> Stream {
    let (sender, receiver) = channel(PROGRESS);
    let northbound = northbound.clone();
    let (desk, instance) = (northbound.desk.clone(), northbound.instance.to_string());
    tokio::spawn(async move {
        while let Some(told) = changing.next().await {
            let message = match told {
                Progress::Planned(planned) => {
                    witness.planned(&planned.hash.to_string());
                    let newest = desk.inquire(|view| view.scheduler.history().newest()).await;
                    Told::Planned(convert::planned(&planned, newest.unwrap_or_default()))
                }
                Progress::Operated(operated) => Told::Finished(v1::Finished {
                    key: operated.key.map(|key| key.to_string()).unwrap_or_default(),
                    action: wire::action(operated.action).into(),
                    error: operated.error.as_deref().unwrap_or_default().to_owned(),
                }),
                Progress::Ended(Ok(applied)) => {
                    let summary = applied.record.as_deref().map(convert::summary);
                    witness.end_with(summary.as_ref()).await;
                    // An agent that ends meanwhile has done what was asked all the same: nothing came of waiting then.
                    let waited = match wait {
                        Some(wait) => tokio::select! {
                            waited = northbound.settle(wait) => waited.ok(),
                            () = sender.closed() => None,
                        },
                        None => None,
                    };
                    let ended = ended_well(&desk, applied, concerned.clone(), &instance).await;
                    Told::Ended(v1::Ended { waited, ..ended })
                }
                Progress::Ended(Err(error)) => {
                    witness.end(None, &error.to_string()).await;
                    let _ = sender.send(Err(convert::refusal(&error).into_status())).await;
                    return;
                }
            };
            // Whoever does not listen any more is told nothing; what was asked is done all the same.
            let _ = sender.send(Ok(v1::Progress { what: Some(message) })).await;
        }
    });
    ReceiverStream::new(receiver)
}

/// How it ended: the transaction, and where every item concerned stands.
pub(super) async fn ended_well(
    desk: &Desk,
    applied: Applied,
    declared: Vec<Key>,
    instance: &str,
) -> v1::Ended {
    let record = applied.record;
    let mut ended = v1::Ended {
        confirmation: applied.confirmation.as_ref().map(confirm::confirmation),
        ..v1::Ended::default()
    };
    if let Some(record) = &record {
        ended.transaction = Some(convert::summary(record));
        if let Executed::Steps(steps) = &record.executed {
            ended.executed = wire::steps(steps);
        }
    }
    let keys = concerned(record.as_deref(), declared);
    let statuses = desk.inquire(move |view| {
        let status = |key: &Key| convert::status(view, &view.scheduler.status(key.as_str()));
        let cursor = view.scheduler.history().newest();
        (keys.iter().map(status).collect::<Vec<_>>(), cursor)
    });
    if let Ok((statuses, cursor)) = statuses.await {
        ended.statuses = statuses;
        ended.cursor = format!("{instance}:{cursor}");
    }
    ended
}

/// The base items that a transaction was about.
fn concerned(record: Option<&Record>, declared: Vec<Key>) -> Vec<Key> {
    let changed = record.into_iter().flat_map(Record::changes);
    let changed = changed.map(|step| step.base.as_ref().unwrap_or(&step.key).clone());
    let mut keys: Vec<Key> = changed.chain(declared).collect();
    keys.sort();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_says_when_what_failed_is_tried_again() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let rule = v1::RetryRule { period: seconds(2), count: Some(0), longest: seconds(9) };
        let (period, backoff_cap) = (Duration::from_secs(2), Some(Duration::from_secs(9)));
        assert_eq!(retry(&rule).unwrap(), Retry { period, count: Some(0), backoff_cap, ..Retry::default() });
        let endless = retry(&v1::RetryRule::default()).unwrap();
        assert_eq!(
            (endless.period, endless.count, endless.backoff_cap),
            (Duration::from_secs(1), None, None)
        );
        for period in [seconds(0), seconds(-1)] {
            assert!(retry(&v1::RetryRule { period, ..rule }).is_err(), "{period:?}");
        }
    }
}
