//! The cluster: one store for many nodes, and how what it holds reaches them.
//!
//! Decided here: what lies under which key of the store ([`layout`]), how a store is found ([`settings`]) and tailed
//! ([`source`]), how distributors know each other (`table`), and how writers of the same machine reach one ([`door`]).
//! Not decided here: how delivery works (`pubsub`), what a store promises (`store`), and what a node does with what
//! reaches it ([`crate::feed::cluster`]).
//!
//! Read next: [`distributor`], which puts these together.

pub mod distributor;
pub mod door;
pub(crate) mod joint;
pub mod layout;
pub mod member;
pub(crate) mod remarks;
pub mod settings;
pub(crate) mod source;
pub(crate) mod table;

pub use settings::Settings;
