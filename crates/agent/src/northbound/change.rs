//! Changing: what a client asks becomes an order at the desk, and what the desk tells becomes progress on the wire.

use kilter_api::v1::plan_request::What;
use kilter_api::v1::progress::What as Told;
use kilter_api::v1::{self, Problem, Reason};
use kilter_cli::wire;
use kilter_scheduler::{Executed, Key, OnFailure, Record};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Northbound, confirm, convert, declared};
use crate::desk::{Applied, Changing, Declaration, Desk, Expected, Options, Progress};

/// How much progress waits for a slow client before the desk's own queue does.
const PROGRESS: usize = 64;

/// Progress as a client gets it.
pub(super) type Stream = ReceiverStream<Result<v1::Progress, Status>>;

impl Northbound {
    /// What a client asks for, as declarations of one transaction.
    pub(super) async fn asked(&self, request: &v1::PlanRequest) -> Result<Vec<Declaration>, Problem> {
        match &request.what {
            Some(What::Declaration(declaration)) => Ok(declared::declaration(declaration)?.into()),
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
    pub(super) async fn change(&self, request: v1::ApplyRequest, who: String) -> Result<Stream, Problem> {
        let asked = request.request.clone().unwrap_or_default();
        let declarations = self.asked(&asked).await?;
        let options = options(&request, asked.on_failure(), who)?;
        let puts = declarations.iter().flat_map(|declaration| &declaration.puts);
        let concerned = puts.map(|put| put.key.clone()).collect();
        let changing = self.desk.apply(declarations, options).await;
        let probes = request.confirm.map(|confirm| confirm.probes).unwrap_or_default();
        Ok(relay(self, changing, concerned, probes))
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
    let confirm = request.confirm.as_ref().map(confirm::within).transpose()?;
    let description = request.description.clone();
    Ok(Options { on_failure, expected, confirm, description, who, ..Options::default() })
}

/// A span of time that a client said.
pub(super) fn span(span: Option<&prost_types::Duration>) -> Result<std::time::Duration, Problem> {
    let span = span.cloned().unwrap_or_default();
    std::time::Duration::try_from(span).map_err(|error| Problem::of(Reason::Invalid, &error))
}

/// Passes on what the desk tells, until it ends; a client that went away is not waited for.
pub(super) fn relay(
    northbound: &Northbound,
    mut changing: Changing,
    concerned: Vec<Key>,
    probes: Vec<v1::Probe>,
) -> Stream {
    let (sender, receiver) = channel(PROGRESS);
    let (desk, instance) = (northbound.desk.clone(), northbound.instance.to_string());
    tokio::spawn(async move {
        while let Some(told) = changing.next().await {
            let message = match told {
                Progress::Planned(planned) => {
                    let newest = desk.inquire(|view| view.scheduler.history().newest()).await;
                    Told::Planned(convert::planned(&planned, newest.unwrap_or_default()))
                }
                Progress::Operated(operated) => Told::Finished(v1::Finished {
                    key: operated.key.map(|key| key.to_string()).unwrap_or_default(),
                    action: wire::action(operated.action).into(),
                    error: operated.error.as_deref().unwrap_or_default().to_owned(),
                }),
                Progress::Ended(Ok(applied)) => {
                    if let Some(pending) = applied.confirmation.as_ref().filter(|_| !probes.is_empty()) {
                        tokio::spawn(confirm::decide(desk.clone(), pending.id, probes.clone()));
                    }
                    Told::Ended(ended_well(&desk, applied, concerned.clone(), &instance).await)
                }
                Progress::Ended(Err(error)) => {
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
