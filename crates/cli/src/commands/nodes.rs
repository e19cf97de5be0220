//! What `nodes` takes. Whoever knows the store of a cluster does it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::arguments::{Form, Listing};
use crate::daemon::SETTINGS;

/// What `nodes` takes.
#[derive(Clone, Debug, Args)]
pub struct Nodes {
    /// The settings whose `[cluster]` says where the store is.
    #[arg(long, global = true, env = "KILTER_SETTINGS", default_value = SETTINGS, value_name = "FILE", hide_env_values = true)]
    settings: PathBuf,
    #[command(flatten)]
    listing: Listing,
    #[command(subcommand)]
    what: Option<What>,
}

/// What is done about nodes besides listing them.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Say which labels a node has and which tenants it hosts, besides those of its settings.
    Set(Set),
}

/// What `nodes set` takes.
#[derive(Clone, Debug, Args)]
pub struct Set {
    /// The node.
    pub node: String,
    /// A label, `NAME=VALUE`. May be given several times.
    #[arg(id = "label", long = "label", value_name = "LABEL", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// A tenant. May be given several times.
    #[arg(id = "tenant", long = "tenant", value_name = "NAME")]
    pub tenants: Vec<String>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let label = text.split_once('=').ok_or_else(|| "a label is `NAME=VALUE`".to_owned())?;
    Ok((label.0.to_owned(), label.1.to_owned()))
}

impl Nodes {
    /// Where the settings are.
    pub fn settings(&self) -> &Path {
        &self.settings
    }

    /// How nodes are listed.
    pub fn form(&self) -> Form {
        self.listing.output
    }

    /// What a node is told to be.
    pub fn set(&self) -> Option<&Set> {
        self.what.as_ref().map(|What::Set(set)| set)
    }
}
