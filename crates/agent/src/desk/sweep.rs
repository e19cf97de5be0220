//! Looking at everything, a few items at a time: the loop goes on in between, however many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_scheduler::{Key, Seq};

use super::{Desk, Gone, View};

/// How many vertices are looked at in one go: about a millisecond's work.
const PAGE: usize = 128;

/// How often what changed meanwhile is looked at again. A network that changes faster than it can be looked at is told
/// as it was seen, item by item.
const ROUNDS: usize = 8;

/// What a sweep found.
#[derive(Clone, Debug)]
pub struct Swept<T> {
    /// What was found, by key.
    pub found: BTreeMap<Key, T>,
    /// It is how things stood after this transaction.
    pub after: Seq,
}

/// What was found about an item, with the base that it is derived from.
type Found<T> = (Key, Option<Key>, T);

/// The same by key.
type ByKey<T> = BTreeMap<Key, (Option<Key>, T)>;

impl Desk {
    /// Looks at every item that is there.
    ///
    /// **Guarantees** that the loop is held up by a few items at a time, and that what changed meanwhile is looked at again,
    /// so that all of it stood so at one moment, unless it changes faster than it can be looked at.
    pub async fn sweep<T: Send + 'static>(
        &self,
        look: impl Fn(&View<'_>, &Key) -> Option<T> + Send + Sync + 'static,
    ) -> Result<Swept<T>, Gone> {
        let look = Arc::new(look);
        let (mut found, mut after) = self.look_at_all(&look).await?;
        for _ in 0..ROUNDS {
            let since = after;
            let (newest, changed) = self
                .inquire(move |view| {
                    let history = view.scheduler.history();
                    (history.newest(), history.changed_since(since))
                })
                .await?;
            after = newest;
            match changed {
                Some(changed) if changed.is_empty() => break,
                Some(changed) => self.look_again(&mut found, changed, &look).await?,
                // More has happened than is remembered: what was seen may be anything by now.
                None => (found, after) = self.look_at_all(&look).await?,
            }
        }
        Ok(Swept { found: found.into_iter().map(|(key, (_, it))| (key, it)).collect(), after })
    }

    /// Looks at every item once; the answer says after which transaction that began.
    async fn look_at_all<T: Send + 'static, F>(&self, look: &Arc<F>) -> Result<(ByKey<T>, Seq), Gone>
    where
        F: Fn(&View<'_>, &Key) -> Option<T> + Send + Sync + 'static,
    {
        let began = self.inquire(|view| view.scheduler.history().newest()).await?;
        let mut found = BTreeMap::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let look = Arc::clone(look);
            let (some, further) = self
                .inquire(move |view| {
                    let (keys, further) = view.scheduler.page(from, PAGE);
                    (looked(view, &keys, &*look), further)
                })
                .await?;
            found.extend(some.into_iter().map(|(key, base, it)| (key, (base, it))));
            next = further;
        }
        Ok((found, began))
    }

    /// Looks again at base items that changed, and at what is derived from them.
    async fn look_again<T: Send + 'static, F>(
        &self,
        found: &mut ByKey<T>,
        changed: Vec<Key>,
        look: &Arc<F>,
    ) -> Result<(), Gone>
    where
        F: Fn(&View<'_>, &Key) -> Option<T> + Send + Sync + 'static,
    {
        let bases: BTreeSet<&Key> = changed.iter().collect();
        found.retain(|key, (base, _)| {
            !bases.contains(key) && !base.as_ref().is_some_and(|it| bases.contains(it))
        });
        for some in changed.chunks(PAGE) {
            let (some, look) = (some.to_vec(), Arc::clone(look));
            let again = self.inquire(move |view| {
                let keys: Vec<Key> =
                    some.iter().flat_map(|base| view.scheduler.family(base.as_str())).collect();
                looked(view, &keys, &*look)
            });
            found.extend(again.await?.into_iter().map(|(key, base, it)| (key, (base, it))));
        }
        Ok(())
    }
}

fn looked<T>(view: &View<'_>, keys: &[Key], look: &impl Fn(&View<'_>, &Key) -> Option<T>) -> Vec<Found<T>> {
    let one = |key: &Key| {
        let it = look(view, key)?;
        Some((key.clone(), view.scheduler.base_of(key.as_str()), it))
    };
    keys.iter().filter_map(one).collect()
}
