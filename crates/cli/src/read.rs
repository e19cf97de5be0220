//! Reading documents and planning them without an agent.

use std::path::Path;

use kilter_model::document::{Declared, gather, read};
use kilter_model::kinds::descriptors;
use kilter_scheduler::{Plan, Scheduler, Timestamp, Txn};

use crate::error::CommandError;

/// The items of these files and directories.
pub fn documents(paths: &[impl AsRef<Path>]) -> Result<Vec<Declared>, CommandError> {
    let sources = gather(paths).map_err(CommandError::Unreadable)?;
    if sources.is_empty() {
        let names = paths.iter().map(|path| format!("`{}`", path.as_ref().display()));
        return Err(CommandError::Empty(names.collect::<Vec<_>>().join(", ")));
    }
    read(&sources).map_err(CommandError::Invalid)
}

/// A scheduler that knows every kind and no item.
pub fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::default();
    for descriptor in descriptors().expect("the patterns of our kinds are well formed") {
        scheduler.register(descriptor).expect("no two of our kinds claim the same keys");
    }
    scheduler
}

/// What these items would do to an empty machine.
pub fn plan(declared: &[Declared]) -> Plan {
    let mut scheduler = scheduler();
    scheduler.begin(Txn::changes(declared.iter().map(Declared::change).collect()), Timestamp(0));
    scheduler.plan().cloned().unwrap_or_default()
}
