//! How what the scheduler says looks, for whoever drives one in this process.

pub mod plan;
pub mod status;

pub use kilter_api::render::table::{Cell, table};
pub use kilter_api::render::{count, paint};
