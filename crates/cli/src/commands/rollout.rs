//! What `rollout` takes. Whoever knows the store of a cluster does it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kilter_api::v1::Probe;

use super::apply::probe;
use crate::arguments::Listing;
use crate::daemon::SETTINGS;
use crate::span;

/// What `rollout` takes.
#[derive(Clone, Debug, Args)]
pub struct Rollout {
    /// Files, and directories whose `.yaml`, `.yml` and `.json` files are taken.
    #[arg(id = "files", short = 'f', long = "file", value_name = "FILE", num_args = 1.., required = true)]
    files: Vec<PathBuf>,
    /// The nodes: `all`, a node, a label `NAME=VALUE`, or `tenant:NAME`.
    #[arg(long, value_name = "WHO")]
    to: String,
    /// The settings whose `[cluster]` says where the store is.
    #[arg(long, env = "KILTER_SETTINGS", default_value = SETTINGS, value_name = "FILE", hide_env_values = true)]
    settings: PathBuf,
    /// The documents are everything that is declared to them in this way: the rest of it is removed.
    #[arg(long)]
    prune: bool,
    /// How many nodes have it after each wave, as numbers or in percent; the last wave is everybody.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,25%", value_parser = wave)]
    waves: Vec<Wave>,
    /// How long a wave goes on passing before the next one begins.
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "10s")]
    soak: Duration,
    /// How long a wave may take to pass. A node that is cut off goes back by itself after this time, too.
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "1m")]
    confirm: Duration,
    /// What must pass on every node: `ping:ADDRESS`, `tcp:HOST:PORT` or `cmd:COMMAND`, tried every second. May be given
    /// several times.
    #[arg(long, value_name = "PROBE", value_parser = probe)]
    probe: Vec<Probe>,
    /// Go on without nodes that are away; they get it when they come back.
    #[arg(long)]
    without_away: bool,
    #[command(flatten)]
    listing: Listing,
}

/// How many nodes have a change after a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wave {
    /// So many.
    Nodes(usize),
    /// So many of a hundred.
    Percent(u8),
}

fn wave(text: &str) -> Result<Wave, String> {
    let wrong = || "a wave is a number of nodes, or a percentage like `25%`".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse() {
            Ok(percent @ 1..=100) => Ok(Wave::Percent(percent)),
            Ok(_) | Err(_) => Err(wrong()),
        },
        None => text.parse().map(Wave::Nodes).map_err(|_| wrong()),
    }
}

/// A change that nodes of a cluster try together.
#[derive(Clone, Debug)]
pub struct Together<'a> {
    /// How many nodes have it after each wave; the last wave is everybody.
    pub waves: &'a [Wave],
    /// How long a wave goes on passing before the next one begins.
    pub soak: Duration,
    /// How long a wave may take to pass.
    pub within: Duration,
    /// What must pass on every node.
    pub probes: &'a [Probe],
    /// Whether nodes that are away are no obstacle.
    pub without_away: bool,
}

impl Rollout {
    /// The documents, and to whom they are declared.
    pub fn to_nodes(&self) -> super::apply::ToNodes<'_> {
        super::apply::ToNodes {
            to: &self.to,
            settings: &self.settings,
            files: &self.files,
            prune: self.prune,
            wait: None,
            together: Some(Together {
                waves: &self.waves,
                soak: self.soak,
                within: self.confirm,
                probes: &self.probe,
                without_away: self.without_away,
            }),
            output: self.listing.output,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_is_a_number_or_a_percentage() {
        assert_eq!((wave("3"), wave("25%")), (Ok(Wave::Nodes(3)), Ok(Wave::Percent(25))));
        for wrong in ["", "x", "0%", "101%", "-1"] {
            assert!(wave(wrong).is_err(), "{wrong}");
        }
    }
}
