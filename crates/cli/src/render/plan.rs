//! Steps of a scheduler as people read them: the renderings of the wire, over [`crate::wire`].

use kilter_api::render::plan;
use kilter_scheduler::{Plan, Step};

use crate::wire;

/// A plan: its steps, how many there are of each kind, and what they put at risk.
pub fn text(steps: &[Step]) -> String {
    plan::text(&wire::plan(&Plan { steps: steps.to_vec() }, 0))
}

/// The steps that a person wants to see, one line each.
pub fn steps(steps: &[Step]) -> String {
    plan::steps(&wire::steps(steps))
}
