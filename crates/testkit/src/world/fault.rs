//! Planned faults: what goes wrong, for which operation, how often.

use std::time::Duration;

use kilter_scheduler::{Action, Failure, Key};

use super::World;

/// How much of a failed operation happened all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    #[default]
    Before,
    /// All of it.
    After,
    /// A create or update left `v=broken` behind; a delete did nothing.
    Partial,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The operation fails.
    Fail {
        /// What the agent is told.
        failure: Failure,
        /// What really happened.
        effect: Effect,
    },
    /// The operation is not answered until it is released.
    Hang,
    /// The operation is accepted; its effect comes when it is confirmed.
    Accept {
        /// How long the agent shall wait for it.
        within: Duration,
    },
}

/// A planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operation it waits for.
    pub action: Action,
    /// The item; for `retrieve`, also the name of a kind, which stands for reading all of it.
    pub key: Key,
    /// What goes wrong.
    pub mishap: Mishap,
    /// How many times.
    pub times: u32,
}

impl World {
    /// Plans a fault.
    pub fn plan_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// The faults that have not happened as often as planned.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Forgets all planned faults.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    pub(super) fn take_fault(&mut self, action: Action, key: &str) -> Option<Mishap> {
        let at = self.faults.iter().position(|fault| fault.action == action && fault.key.as_str() == key)?;
        let fault = &mut self.faults[at];
        let mishap = fault.mishap.clone();
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            self.faults.remove(at);
        }
        Some(mishap)
    }
}
