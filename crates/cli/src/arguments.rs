//! What may be typed: verbs, and the words that explain them. What a verb takes stands with the verb, in `commands`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    apply, check, confirm, diff, events, explain, export, get, graph, kinds, nodes, pause, plan, record,
    resync, revert, rollout, source, status, timeline, txn, wait, watch,
};
use crate::daemon::{Daemon, Distributor, Replay};
use crate::eventflow::Eventflow;

/// Keeps a machine in the state its owner declared.
#[derive(Clone, Debug, Parser)]
#[command(name = "kilter", version, max_term_width = 110)]
pub struct Arguments {
    /// The socket of the agent; `/run/kilter/kilter.sock` if left out.
    #[arg(long, global = true, env = "KILTER_SOCKET", value_name = "PATH", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Apply a directory, show plan, progress and status, and heal until stopped.
    Up(Up),
    /// Keep this network until stopped: the daemon.
    Agent(Daemon),
    /// Bring what the store of a cluster holds to its nodes, until stopped.
    Distributor(Distributor),
    /// Declare documents to the agent, or carry out a stored plan.
    Apply(apply::Apply),
    /// List the nodes of a cluster and how they stand, or say what one is.
    Nodes(nodes::Nodes),
    /// Bring documents to nodes of a cluster in waves, and take everything back if a wave does not pass.
    Rollout(rollout::Rollout),
    /// Show what documents would do, without changing anything.
    Plan(plan::Plan),
    /// Show how documents differ from what is, or one moment from another.
    Diff(diff::Diff),
    /// Check documents, without an agent and without changing anything.
    Check(check::Check),
    /// List items, kinds or sources.
    Get(get::Get),
    /// Show where items stand.
    Status(status::Status),
    /// Say why an item stands where it stands, and what would unblock it.
    Explain(explain::Explain),
    /// Show where items stand, then every change.
    Watch(watch::Watch),
    /// Show items and what they need.
    Graph(graph::Graph),
    /// List transactions, or show one.
    Txn(txn::Txn),
    /// Show what happened to an item.
    Timeline(timeline::Timeline),
    /// List events, or show one.
    Events(events::Events),
    /// Write the run of the agent down from now on, for `replay`; end that, or show how it stands.
    Record(record::Record),
    /// Run a recorded run once more, without touching anything, and tell where it differs.
    Replay(Replay),
    /// Recompute and re-read.
    Resync(resync::Resync),
    /// Keep a change that waits for its confirmation, give it more time, or take it back.
    Confirm(confirm::Confirm),
    /// Go back to the state after a transaction; the plan is shown first.
    Revert(revert::Revert),
    /// Remove a source and everything it declares.
    Source(source::Source),
    /// Write what exists as a document.
    Export(export::Export),
    /// Wait until nothing is left to do.
    Wait(wait::Wait),
    /// Leave items alone when they drift.
    Pause(pause::Pause),
    /// Heal items again that were left alone.
    Resume(pause::Resume),
    /// Print the JSON Schema of documents, for editors.
    Schema,
    /// List what may be declared, without an agent.
    Kinds(kinds::Kinds),
    /// Keep EventFlow objects in a Kubernetes cluster.
    Eventflow(Eventflow),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Which documents.
#[derive(Clone, Debug, Args)]
pub struct Documents {
    /// Files, and directories whose `.yaml`, `.yml` and `.json` files are taken.
    #[arg(required_unless_present = "more", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The same, for those who are used to it.
    #[arg(id = "more", short = 'f', long = "file", value_name = "FILE")]
    pub more: Vec<PathBuf>,
}

impl Documents {
    /// Every file that was named.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().chain(&self.more).cloned().collect()
    }
}

/// How something is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// For programs.
    Json,
    /// For programs that people read.
    Yaml,
}

/// How a listing is printed.
#[derive(Clone, Copy, Debug, Args)]
pub struct Listing {
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
    pub output: Form,
}

/// What `up` takes.
#[derive(Clone, Debug, Args)]
pub struct Up {
    /// The directory of documents, or one document.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Return when everything is settled, instead of healing until stopped.
    #[arg(long)]
    pub once: bool,
    /// Also remove what an earlier run made and the directory no longer declares.
    #[arg(long)]
    pub prune: bool,
    /// Do it inside fresh namespaces: nothing of the machine is touched, and everything is gone at the end.
    #[arg(long)]
    pub sandbox: bool,
    /// Remove everything that is declared when it ends, instead of leaving the network as it is.
    #[arg(long, conflicts_with = "sandbox")]
    pub clean_up: bool,
    /// Write the run down, for `replay`; what the file held before goes to FILE.1.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}
