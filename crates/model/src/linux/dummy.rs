//! `dummy`: a link that drops everything, to carry addresses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What only this kind of link has: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dummy {}
