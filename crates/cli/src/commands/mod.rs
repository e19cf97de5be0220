//! The verbs, one file each: what a verb takes, and what it does.
//!
//! Decided here: which verb asks the agent what, and how the answer is shown. Not decided here: what the agent does
//! about it, and how plans, statuses and the rest look (`api::render`).

pub mod apply;
pub mod check;
pub mod confirm;
pub mod diff;
pub mod events;
pub mod explain;
pub mod export;
pub mod get;
pub mod graph;
pub mod kinds;
pub mod nodes;
pub mod pause;
pub mod plan;
pub mod record;
mod reference;
pub mod resync;
pub mod revert;
pub mod rollout;
pub mod source;
pub mod status;
pub mod timeline;
pub mod txn;
pub mod wait;
pub mod watch;

use crate::arguments::{Arguments, Verb};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// Does what a verb says, if it is a client's; `None` for those of the agent.
pub fn run(arguments: &Arguments, output: &mut Output) -> Option<Result<Exit, CommandError>> {
    let said = arguments.socket.as_deref();
    let socket = &session::socket(said);
    Some(match &arguments.verb {
        Verb::Up(_)
        | Verb::Agent(_)
        | Verb::Replay(_)
        | Verb::Distributor(_)
        | Verb::Nodes(_)
        | Verb::Rollout(_)
        | Verb::Eventflow(_) => return None,
        Verb::Apply(apply) if apply.to_nodes().is_some() => return None,
        Verb::Apply(apply) => apply::run(apply, socket, output),
        Verb::Plan(plan) => plan::run(plan, said, output),
        Verb::Diff(diff) => diff::run(diff, socket, output),
        Verb::Check(check) => check::run(check, output),
        Verb::Get(get) => get::run(get, socket, output),
        Verb::Status(status) => status::run(status, socket, output),
        Verb::Explain(explain) => explain::run(explain, socket, output),
        Verb::Watch(watch) => watch::run(watch, socket, output),
        Verb::Graph(graph) => graph::run(graph, socket, output),
        Verb::Txn(txn) => txn::run(txn, socket, output),
        Verb::Timeline(timeline) => timeline::run(timeline, socket, output),
        Verb::Events(events) => events::run(events, socket, output),
        Verb::Record(record) => record::run(record, socket, output),
        Verb::Resync(resync) => resync::run(resync, socket, output),
        Verb::Confirm(confirm) => confirm::run(confirm, socket, output),
        Verb::Revert(revert) => revert::run(revert, socket, output),
        Verb::Source(source) => source::run(source, socket, output),
        Verb::Export(export) => export::run(export, socket, output),
        Verb::Wait(wait) => wait::run(wait, socket, output),
        Verb::Pause(pause) => pause::run(&pause.prefix, true, pause.listing, socket, output),
        Verb::Resume(resume) => pause::run(&resume.prefix, false, resume.listing, socket, output),
        Verb::Schema => reference::schema(output),
        Verb::Kinds(kinds) => kinds::run(kinds, output),
        Verb::Completions { shell } => reference::completions(*shell, output),
    })
}
