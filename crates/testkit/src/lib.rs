//! Test material for the pure crates: a fake world with planned faults, a virtual clock, kinds for scenarios, and
//! the runner of scenario scripts.
//!
//! Decided here: what the scripts mean and what is asserted after every block. Not decided here: what the scheduler
//! does. Read [`kinds`] for the attributes that scripts may use, [`scenario`] for the commands, [`world`] for
//! what the fake world checks by itself.

pub mod attrs;
pub mod clock;
pub mod dice;
pub mod hand;
pub mod house;
pub mod kinds;
pub mod model;
pub mod needs;
pub mod render;
pub mod scenario;
pub mod simulate;
pub mod world;

pub use attrs::Attrs;
pub use clock::Clock;
pub use dice::Dice;
pub use house::House;
pub use world::World;
