//! The kinds: what the cluster shows ([`observed`]) and what the controller declares ([`declared`]).
//!
//! Decided here: what each item needs, and for how long. Everything else follows from that: the order of set-up and
//! teardown, the reference count of the shared sink (a set of claims), and that a Broker which blinks removes nothing.
//! Not decided here: what is declared ([`crate::flows`]), how it is made real ([`crate::write`]).

pub mod declared;
pub mod observed;

use kilter_scheduler::{Descriptor, PatternError, describe};

/// A descriptor of every kind.
pub fn descriptors() -> Result<Vec<Box<dyn Descriptor>>, PatternError> {
    Ok(vec![
        describe(observed::Definition)?,
        describe(observed::Namespace)?,
        describe(observed::Flow)?,
        describe(observed::Channel)?,
        describe(observed::Broker)?,
        describe(declared::FinalizerKind)?,
        describe(declared::SinkClaimKind)?,
        describe(declared::SubscriptionClaimKind)?,
        describe(declared::SlotKind)?,
        describe(declared::SinkKind)?,
        describe(declared::PolicyKind)?,
        describe(declared::SubscriptionKind)?,
    ])
}
