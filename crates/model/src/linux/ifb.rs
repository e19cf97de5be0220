//! `ifb`: an intermediate functional block, where incoming traffic is queued.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What only this kind of link has: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ifb {}
