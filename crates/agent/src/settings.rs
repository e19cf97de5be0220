//! The settings of the daemon: a TOML file that nests the settings of each part.
//!
//! Decided here: what the file looks like and how an error in it is told. What a setting means stands with the part it
//! steers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use kilter_events::Settings as EventSettings;
use kilter_linux::Settings as LinuxSettings;
use kilter_linux::drift::Settings as DriftSettings;
use kilter_model::document::{Place, closest};
use kilter_southbound::Settings as DriverSettings;
use serde::{Deserialize, Serialize};

use crate::cluster;
use crate::feed;
use crate::keep::Settings as StateSettings;
use crate::northbound::Settings as NorthboundSettings;
use crate::{recording, telemetry};

/// The settings of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where what must outlive the agent is kept. Default: `/var/lib/kilter`.
    pub state_directory: PathBuf,
    /// Where clients talk to the agent. Default: `/run/kilter/kilter.sock`.
    pub socket: PathBuf,
    /// Whether the agent removes everything that is declared when it ends. Default: no, the network stays as it is.
    pub clean_up: bool,
    /// The directories that the agent follows, in the order in which they are heard: each with a name for its source.
    pub directory: Vec<DirectorySettings>,
    /// What is kept, and for how long.
    pub state: StateSettings,
    /// The recording of the run.
    pub record: recording::Settings,
    /// The event loop.
    pub events: EventSettings,
    /// How patient the driver is, and how much it hands out at once.
    pub driver: DriverSettings,
    /// How much drift is healed, and when it is given up.
    pub drift: DriftSettings,
    /// The southbound.
    pub linux: LinuxSettings,
    /// Logs, metrics and traces.
    pub telemetry: telemetry::Settings,
    /// Who may ask the agent besides those who reach its socket, and where.
    pub northbound: NorthboundSettings,
    /// The cluster that the agent belongs to. Default: none.
    pub cluster: Option<cluster::Settings>,
}

/// A directory that the agent follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DirectorySettings {
    /// The name of the source.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            state_directory: PathBuf::from("/var/lib/kilter"),
            socket: PathBuf::from("/run/kilter/kilter.sock"),
            clean_up: false,
            directory: Vec::new(),
            state: StateSettings::default(),
            record: recording::Settings::default(),
            events: EventSettings::default(),
            driver: DriverSettings::default(),
            drift: DriftSettings::default(),
            linux: LinuxSettings::default(),
            telemetry: telemetry::Settings::default(),
            northbound: NorthboundSettings::default(),
            cluster: None,
        }
    }
}

/// What is wrong with the settings, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    place: Option<Place>,
    message: String,
    hint: Option<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, ", hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Wrong {}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("failed to read the settings `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is wrong.
    #[error("the settings are wrong")]
    Invalid(#[source] Wrong),
}

impl Settings {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text).map_err(SettingsError::Invalid)
    }

    /// Reads a text; the name is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, Wrong> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| place(name, text, span.start));
            let message = error.message().trim_end().to_owned();
            let hint = did_you_mean(&message);
            // The list of what is allowed is for the hint.
            let message = message.split(", expected").next().unwrap_or(&message).to_owned();
            Wrong { place, message, hint }
        })?;
        settings.check()?;
        Ok(settings)
    }

    /// The settings of the southbound: which kernel parameters and fields were changed is remembered with the rest of what
    /// must outlive the agent, unless another file is named.
    pub fn southbound(&self) -> LinuxSettings {
        let mut linux = self.linux.clone();
        linux.parameters.get_or_insert_with(|| self.state_directory.join("parameters"));
        linux.former_fields.get_or_insert_with(|| self.state_directory.join("former-fields"));
        linux
    }

    fn check(&self) -> Result<(), Wrong> {
        let wrong =
            |message: String, hint: &str| Err(Wrong { place: None, message, hint: Some(hint.to_owned()) });
        let parts = [
            ("events", self.events.validate().map_err(|error| error.to_string())),
            ("driver", self.driver.validate().map_err(|error| error.to_string())),
            ("drift", self.drift.validate().map_err(|error| error.to_string())),
        ];
        for (part, checked) in parts {
            checked.map_err(|error| Wrong {
                place: None,
                message: format!("`{part}`: {error}"),
                hint: None,
            })?;
        }
        if let Some(Err((message, hint))) = self.cluster.as_ref().map(cluster::Settings::check) {
            return wrong(message, hint);
        }
        let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
        for directory in &self.directory {
            let good = |letter: char| letter.is_alphanumeric() || "-_./".contains(letter);
            let name = directory.name.as_str();
            if name.is_empty() || !name.chars().all(good) {
                return wrong(
                    format!("`{name}` cannot be the name of a source"),
                    "letters, digits and `-_./`",
                );
            }
            if self.cluster.is_some() && name == feed::cluster::SOURCE {
                return wrong(
                    format!("`{name}` is the source of the cluster"),
                    "give the directory another name",
                );
            }
            if let Some(other) = names.insert(name, &directory.path) {
                let (one, other) = (directory.path.display(), other.display());
                return wrong(
                    format!("`{one}` and `{other}` are both called `{name}`"),
                    "give each directory a name of its own",
                );
            }
        }
        Ok(())
    }
}

/// The line and the column of a byte.
fn place(name: &str, text: &str, at: usize) -> Place {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place { file: name.into(), line: number(line), column: number(column) }
}

/// The closest of the allowed words that a message lists, or all of them.
fn did_you_mean(message: &str) -> Option<String> {
    let (what, allowed) = message.split_once(", expected")?;
    let word = what.split('`').nth(1)?;
    let allowed: Vec<&str> = allowed.split('`').skip(1).step_by(2).collect();
    match closest(word, allowed.iter().copied()) {
        Some(meant) => Some(format!("did you mean `{meant}`?")),
        None => Some(format!("allowed are {}", allowed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert_eq!(Settings::parse("kilter.toml", "").unwrap(), Settings::default());
    }

    #[test]
    fn a_misspelt_setting_is_told_with_its_place_and_what_was_meant() {
        let wrong = Settings::parse("kilter.toml", "socket = \"/s\"\n\n[events]\nretry-dela = \"1s\"\n");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "kilter.toml:4:1: unknown field `retry-dela`, hint: did you mean `retry-delay`?"
        );
    }

    #[test]
    fn every_part_can_be_set() {
        let text = "state-directory = \"/s\"\nclean-up = true\n\n[[directory]]\nname = \"site\"\npath = \"/etc/site\"\n\n\
                    [state]\nhistory-days = 3\n\n[events]\nretry-delay = \"2s\"\nprune = true\n\n[linux]\nprotocol = 76\n\n\
                    [northbound]\naddress = \"127.0.0.1:7480\"\n[northbound.limits]\nconnections = 9\n";
        let settings = Settings::parse("kilter.toml", text).unwrap();
        assert_eq!(settings.directory[0].name, "site");
        assert_eq!((settings.state.history_days, settings.linux.protocol), (3, 76));
        assert!(settings.clean_up && settings.events.prune);
        assert_eq!(settings.northbound.limits.connections, 9);
    }

    #[test]
    fn what_was_changed_is_remembered_in_the_state_directory_unless_a_file_is_named() {
        let files = |text: &str| {
            let linux = Settings::parse("kilter.toml", text).unwrap().southbound();
            [linux.parameters, linux.former_fields].map(|file| file.unwrap().display().to_string())
        };
        let state = "state-directory = \"/s\"\n";
        assert_eq!(files(state), ["/s/parameters", "/s/former-fields"]);
        let named = format!("{state}[linux]\nparameters = \"/elsewhere\"\nformer-fields = \"/there\"\n");
        assert_eq!(files(&named), ["/elsewhere", "/there"]);
    }

    #[test]
    fn a_cluster_is_set_where_its_place_is_told() {
        let text = "[cluster]\nlabels = { role = \"edge\" }\n[cluster.store]\nendpoints = [\"http://[::1]:2379\"]\n\
                    [cluster.pubsub]\nenable_df_pub_sub = true\nlease = \"30s\"\n";
        let cluster = Settings::parse("kilter.toml", text).unwrap().cluster.unwrap();
        assert!(cluster.pubsub.enabled && cluster.labels["role"] == "edge");
        let wrong = |text: &str| Settings::parse("kilter.toml", text).unwrap_err().to_string();
        let short = format!("{text}lease-renewal = \"20s\"\n");
        assert!(
            wrong(&short).contains("`cluster.pubsub`: setting `lease` must be at least"),
            "{}",
            wrong(&short)
        );
        let misspelt = "[cluster]\nlabel = {}\n";
        assert_eq!(wrong(misspelt), "kilter.toml:2:1: unknown field `label`, hint: did you mean `labels`?");
        let taken = "[[directory]]\nname = \"cluster\"\npath = \"/1\"\n[cluster]\n";
        assert_eq!(
            wrong(taken),
            "`cluster` is the source of the cluster, hint: give the directory another name"
        );
    }

    #[test]
    fn two_directories_do_not_share_a_name() {
        let text = "[[directory]]\nname = \"a\"\npath = \"/1\"\n[[directory]]\nname = \"a\"\npath = \"/2\"\n";
        let wrong = Settings::parse("kilter.toml", text).unwrap_err().to_string();
        assert_eq!(wrong, "`/2` and `/1` are both called `a`, hint: give each directory a name of its own");
    }
}
