//! Feeds: where declarations come from. Each is an external source of the loop and owns what it declares.

pub mod cluster;
pub mod directory;
mod ear;
