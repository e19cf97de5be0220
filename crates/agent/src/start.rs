//! The beginning: what the state directory held and what the directories say become the startup resync.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_events::builtin::{DatabaseResync, ExternalItems};
use kilter_scheduler::{Key, Timestamp};

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
    /// A change whose time ran out while the agent was away goes back with the startup resync.
    pub(crate) expired: bool,
}

/// Puts together how an agent begins:
///
/// 1. what was declared, by source;
/// 2. a change that was not confirmed in time goes back;
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
    let (expired, waiting) = match kept.confirmation {
        Some(pending) if pending.deadline <= now => (Some(pending), None),
        waiting => (None, waiting),
    };
    if let Some(pending) = &expired {
        pending.undo.iter().for_each(|undo| declare(&mut ledger, &undo.declaration()));
    }
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
    Beginning { resync, ledger, deltas, expired: expired.is_some() }
}
