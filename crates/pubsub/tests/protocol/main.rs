//! The protocol without a network: frames, and the seeded simulation of everything that can go wrong.

mod failures;
mod frames;
mod lives;
mod simulation;
