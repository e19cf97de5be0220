//! EventFlow on Kubernetes: a composite with a shared child, kept by the same scheduler that keeps networks.
//!
//! Decided here: what an `EventFlow` object makes true in a cluster, and how it says so in its conditions. Read
//! [`kinds`] for the items and what they need (the order of everything follows from that), [`flows`] for what is
//! declared, [`mirror`] and [`translate`](self) for how the cluster is seen, [`condition`] for how a flow stands,
//! [`controller`] for how it is driven, [`run`](mod@run) for one run against a cluster, [`osb`] for the service broker in
//! front.

mod actuator;
mod adoption;
mod announcement;
mod budget;
pub mod client;
pub mod combined;
pub mod condition;
pub mod controller;
mod counts;
pub mod flows;
pub mod key;
pub mod kinds;
pub mod lease;
pub mod manifest;
mod metrics;
pub mod mirror;
pub mod names;
pub mod object;
mod onlooker;
mod orders;
pub mod osb;
mod patience;
mod read;
pub mod request;
pub mod run;
mod send;
mod serve;
mod settings;
mod standing;
mod translate;
pub mod watch;
mod write;

pub use controller::{Controller, ControllerError};
pub use counts::Counts;
pub use settings::Settings;
