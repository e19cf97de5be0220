//! What can be declared: kinds, keys, descriptors and the document. Pure: how anything is made real is not known here.
//!
//! Decided here: what a declaration may say, what each item needs, derives and can change in place. Open [`kinds`]
//! for the list of kinds, [`linux`] for the kinds themselves, one file each, and [`document`] for how text becomes
//! items.

pub mod declare;
pub mod document;
pub mod export;
pub mod kinds;
pub mod linux;
pub mod reference;
pub mod remote;
pub mod schema;
mod shape;
pub mod typed;
mod yaml;

#[cfg(test)]
mod random;

pub use kinds::KINDS;
