//! The write budget: how often one object may be written for one item before somebody else must be fighting us for it.
//!
//! Each object has a bucket of writes that fills slowly. A controller that is alone never empties it; two that undo each
//! other's work do, and from then on write no faster than it fills.

use std::collections::BTreeMap;
use std::time::Duration;

use kilter_scheduler::{Key, Timestamp};

use crate::object::Id;

/// How many writes an object may have at once.
const BURST: u32 = 20;

/// How long it takes until there is room for one more.
pub(crate) const REFILL: Duration = Duration::from_secs(30);

/// The sort of failure that it is if there is no write left.
pub(crate) const SPENT: &str = "spent";

/// An object was written too often.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id} was written {BURST} times in a short time, {}, hint: find out who else keeps it", self.suspect())]
pub(crate) struct Exhausted {
    /// The object.
    pub(crate) id: Id,
    /// Who else wrote it last, if the cluster tells.
    pub(crate) rival: Option<String>,
}

impl Exhausted {
    fn suspect(&self) -> String {
        match &self.rival {
            Some(rival) => format!("and `{rival}` writes it too"),
            None => "and somebody undoes it".to_owned(),
        }
    }
}

/// What is left of one object's budget.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    as_of: Timestamp,
}

/// The budgets of all objects that were written lately, for each item that they are written for: the claims of many flows
/// on one Broker are no fight.
#[derive(Debug, Default)]
pub(crate) struct Budget(BTreeMap<(Key, Id), Bucket>);

impl Budget {
    /// Takes one write of an object for an item; `rival` is asked only if there is none left.
    pub(crate) fn spend(
        &mut self,
        key: &Key,
        id: &Id,
        now: Timestamp,
        rival: impl FnOnce() -> Option<String>,
    ) -> Result<(), Exhausted> {
        // What is full again says nothing.
        self.0.retain(|_, bucket| now.since(bucket.as_of) < REFILL * BURST);
        let bucket = self.0.entry((key.clone(), id.clone())).or_insert(Bucket { left: BURST, as_of: now });
        let earned = u32::try_from(now.since(bucket.as_of).as_nanos() / REFILL.as_nanos()).unwrap_or(BURST);
        if earned > 0 {
            bucket.left = bucket.left.saturating_add(earned).min(BURST);
            bucket.as_of = bucket.as_of.after(REFILL * earned);
        }
        match bucket.left.checked_sub(1) {
            Some(left) => {
                bucket.left = left;
                Ok(())
            }
            None => Err(Exhausted { id: id.clone(), rival: rival() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Resource;

    #[test]
    fn a_fight_is_slowed_down_and_a_quiet_object_has_its_budget_back() {
        let (mut budget, mut now) = (Budget::default(), Timestamp::default());
        let id = Id::new(Resource::Subscription, "integration", "sub");
        let other = Id::new(Resource::Subscription, "integration", "other");
        let key = Key::from("eventflow/subscription/shop/crm");
        let mut spend = |id: &Id, now| budget.spend(&key, id, now, || Some("helm".to_owned()));
        for _ in 0..BURST {
            assert_eq!(spend(&id, now), Ok(()));
        }
        let error = spend(&id, now).unwrap_err();
        assert!(error.to_string().contains("`helm` writes it too"), "{error}");
        assert_eq!(spend(&other, now), Ok(()), "each object has its own");
        now = now.after(REFILL);
        assert_eq!(spend(&id, now), Ok(()));
        assert!(spend(&id, now).is_err());
        now = now.after(REFILL * BURST);
        for _ in 0..BURST {
            assert_eq!(spend(&id, now), Ok(()));
        }
    }
}
