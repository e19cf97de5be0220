//! A whole network in one thread: a store, distributors and subscribers, and everything that can go wrong between them.
//!
//! Time is virtual, every throw comes from one seed, and every frame is encoded and decoded. After every step the
//! guarantees are checked (`check`); `random` lives a random life, `failures` has one test for each row of the failure
//! matrix.

pub(crate) mod check;
pub(crate) mod clock;
pub(crate) mod network;
pub(crate) mod random;
pub(crate) mod store;
pub(crate) mod world;
