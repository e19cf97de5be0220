//! The composition root: feeds, the event loop, actuators and healing put together.
//!
//! Decided here: which handlers, sources and actuators there are and in which order ([`assemble`]), who drives the loop
//! ([`drive`]), how northbounds talk to it ([`desk`]), and how what the kernel tells becomes events ([`drift`]). Not decided here: what an event leads to
//! (`events`), in which order operations run (`scheduler`), how an item is made real (`linux`).
//!
//! Read next: [`up`] for one run from its start to its end.

pub mod alone;
pub mod assemble;
mod clock;
pub mod cluster;
pub mod confirm;
pub mod daemon;
pub mod desk;
pub mod drift;
pub mod drive;
mod ending;
pub mod eventflow;
mod fault;
pub mod feed;
pub mod fleet;
mod handover;
pub mod keep;
mod ledger;
pub mod northbound;
mod notify;
mod probes;
pub mod recording;
pub mod remote;
pub mod replay;
pub mod settings;
mod show;
mod signals;
mod start;
pub mod telemetry;
pub mod timings;
pub mod up;

pub use clock::SteadyClock;
