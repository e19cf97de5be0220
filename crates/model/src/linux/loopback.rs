//! `loopback`: the link `lo` that every namespace comes with; it is configured, never made or removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What only this kind of link has: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loopback {}
