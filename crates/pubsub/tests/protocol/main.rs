//! The protocol without a network: frames, and the seeded simulation of everything that can go wrong.

mod corpus;
mod failures;
mod fleet;
mod frames;
mod isolation;
mod lives;
mod repairs;
mod simulation;
