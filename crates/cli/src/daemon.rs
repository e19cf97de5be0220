//! What `kilter agent`, `kilter replay` and `kilter distributor` take: the verbs that the agent itself carries out.

use std::path::PathBuf;

use clap::Args;

/// Where settings are unless somebody says otherwise.
pub(crate) const SETTINGS: &str = "/etc/kilter/kilter.toml";

/// What `agent` takes.
#[derive(Clone, Debug, Args)]
pub struct Daemon {
    /// The settings; defaults apply to what they leave out.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Remove everything that is declared when the agent ends, instead of leaving the network as it is.
    #[arg(long)]
    pub clean_up: bool,
    /// Write the run down, for `replay`; what the file held before goes to FILE.1.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// What `replay` takes.
#[derive(Clone, Debug, Args)]
pub struct Replay {
    /// The recording: what `record`, `agent --record` or `up --record` wrote.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Show every transaction with its plan and what was carried out.
    #[arg(long)]
    pub full: bool,
}

/// What `distributor` takes.
#[derive(Clone, Debug, Args)]
pub struct Distributor {
    /// The settings; `[cluster]` says where the store is, and `[cluster.distributor]` who this is.
    #[arg(long, env = "KILTER_SETTINGS", default_value = SETTINGS, value_name = "FILE", hide_env_values = true)]
    pub settings: PathBuf,
}
