//! Version 1 of the wire, compiled from the files below `proto/kilter/v1`, which say what each message is.

#![allow(clippy::wildcard_enum_match_arm, clippy::unwrap_used, reason = "generated code")]

use std::fmt;

tonic::include_proto!("kilter.v1");

/// The compiled files themselves, for whoever asks a server what it speaks.
pub const FILES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kilter.v1.bin"));

impl State {
    /// The public name: `CONFIGURED`.
    pub fn name(self) -> &'static str {
        self.as_str_name().trim_start_matches("STATE_")
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Action {
    /// The word for people: `create`.
    pub fn name(self) -> String {
        self.as_str_name().trim_start_matches("ACTION_").to_lowercase()
    }
}

impl Outcome {
    /// The word for people: `revert failed`.
    pub fn name(self) -> String {
        self.as_str_name().trim_start_matches("OUTCOME_").to_lowercase().replace('_', " ")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
