//! The beginning: what the state directory held and what the directories say become the startup resync.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_events::builtin::{DatabaseResync, ExternalItems};
use kilter_scheduler::{Key, Timestamp};

use crate::confirm::Pending;
use crate::desk::Declaration;
use crate::keep::Kept;
use crate::ledger::{Delta, Ledger};

/// How an agent begins.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    pub(crate) resync: DatabaseResync,
    pub(crate) ledger: Ledger,
    /// What is declared otherwise than the state directory says, to be kept once it is carried out.
    pub(crate) deltas: Vec<Delta>,
    /// The confirmation that is waited for from now on, or no longer, if the state directory says otherwise.
    pub(crate) confirmation: Option<Option<Pending>>,
}

/// Puts together how an agent begins:
///
/// 1. what was declared, by source;
/// 2. a change that was not confirmed in time goes back; one that waits does so no longer than it was given, whatever the
///    wall clock says by now;
/// 3. directories say what they declare; one that cannot be read is left out, and what it declared stands;
/// 4. what an unfinished change may have made, and what was declared and is no longer, is removed if nobody declares
///    it; everything else of ours that nobody declares is left alone.
pub(crate) fn begin(kept: Kept, directories: &[Declaration], names: &[String], now: Timestamp) -> Beginning {
    let mut ledger = Ledger::default();
    ledger.directories = names.to_vec();
    let mut leftovers: BTreeSet<Key> = kept.intent;
    let txn = Some(kept.last_txn + 1);
    for source in kept.sources {
        ledger.restore(&source.name, source.place, source.items);
    }
    let mut deltas = Vec::new();
    let mut declare = |ledger: &mut Ledger, declaration: &Declaration| {
        let delta = ledger.delta(declaration, txn);
        leftovers.extend(delta.removes.iter().cloned());
        ledger.apply(&delta);
        deltas.push(delta);
    };
    let (waiting, confirmation) = match kept.confirmation {
        Some(pending) if pending.deadline <= now => {
            pending.undo.iter().for_each(|undo| declare(&mut ledger, &undo.declaration()));
            (None, Some(None))
        }
        Some(pending) if pending.deadline > now.after(pending.within) => {
            let pending = Pending { deadline: now.after(pending.within), ..pending };
            (Some(pending.clone()), Some(Some(pending)))
        }
        waiting => (waiting, None),
    };
    for declaration in directories {
        declare(&mut ledger, declaration);
    }
    ledger.confirmation = waiting;
    let external: BTreeMap<String, ExternalItems> = ledger
        .sources()
        .map(|(name, items)| {
            let items = items.iter().map(|(key, mark)| (key.clone(), mark.value.clone()));
            (name.to_owned(), items.collect())
        })
        .collect();
    let resync = DatabaseResync { external, leftovers: Arc::new(leftovers), ..DatabaseResync::default() };
    Beginning { resync, ledger, deltas, confirmation }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn waits(deadline: Timestamp, within: Duration) -> Kept {
        let pending = Pending {
            id: 7,
            deadline,
            within,
            description: String::new(),
            probes: Vec::new(),
            joint: None,
            undo: Vec::new(),
        };
        Kept { confirmation: Some(pending), ..Kept::default() }
    }

    #[test]
    fn a_change_waits_no_longer_than_it_was_given_whatever_the_clock_says() {
        let (hour, year) = (Duration::from_secs(3600), Duration::from_secs(365 * 86_400));
        let now = Timestamp::default().after(year);
        let deadline = |beginning: &Beginning| beginning.ledger.confirmation.as_ref().unwrap().deadline;

        // The clock was set back by a year while the machine was down.
        let begun = begin(waits(now.after(year), hour), &[], &[], now);
        assert_eq!(deadline(&begun), now.after(hour));
        assert_eq!(begun.confirmation, Some(begun.ledger.confirmation.clone()), "and that is kept");

        let begun = begin(waits(now.after(hour / 2), hour), &[], &[], now);
        assert_eq!((deadline(&begun), begun.confirmation), (now.after(hour / 2), None));
        let begun = begin(waits(now, hour), &[], &[], now);
        assert_eq!((begun.ledger.confirmation, begun.confirmation), (None, Some(None)));
    }
}
