//! Giving up old revisions.

use super::apply::Group;
use super::translate::{Trying, WRITE};
use crate::{Revision, StoreError};

/// Gives up what is older than a revision, as somebody asked for.
pub(super) fn compact(group: &mut Group<'_>, before: Revision) -> Result<(), StoreError> {
    if before > group.head {
        return Err(StoreError::Ahead { asked: before, head: group.head });
    }
    forget(group, before)
}

/// Deletes the commits up to a revision, and the items that ended with them.
///
/// **Why** an item that ended at a revision can only be asked for before it, and each commit names the items it ended:
/// nothing has to be searched.
pub(super) fn forget(group: &mut Group<'_>, before: Revision) -> Result<(), StoreError> {
    for revision in group.oldest.0 + 1..=before.0 {
        let Some(commit) = group.tables.commits.remove(revision).trying(WRITE)? else { continue };
        for (key, _) in commit.value() {
            group.tables.past.remove((key, revision)).trying(WRITE)?;
        }
    }
    group.oldest = group.oldest.max(before);
    Ok(())
}
