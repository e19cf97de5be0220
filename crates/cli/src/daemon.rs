//! What `kilter agent` takes.

use std::path::PathBuf;

use clap::Args;

/// What `agent` takes.
#[derive(Clone, Debug, Args)]
pub struct Daemon {
    /// The settings; defaults apply to what they leave out.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Remove everything that is declared when the agent ends, instead of leaving the network as it is.
    #[arg(long)]
    pub clean_up: bool,
}
