//! What may be typed: verbs, arguments, and the words that explain them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::daemon::Daemon;

/// Keeps a machine in the state its owner declared.
#[derive(Clone, Debug, Parser)]
#[command(name = "kilter", version, max_term_width = 110)]
pub struct Arguments {
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
    /// Check documents, without an agent and without changing anything.
    Check(Documents),
    /// Show what documents would do to an empty machine, without changing anything.
    Plan(Plan),
    /// Print the JSON Schema of documents, for editors.
    Schema,
    /// List what may be declared.
    Kinds,
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
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// What `plan` takes.
#[derive(Clone, Debug, Args)]
pub struct Plan {
    /// The documents.
    #[command(flatten)]
    pub documents: Documents,
    /// How the plan is printed.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// How something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
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
}
