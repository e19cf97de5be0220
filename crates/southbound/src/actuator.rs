//! Actuators, and which kind each of them makes real.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::batch::Batch;
use crate::error::AddActuatorError;

/// What makes a kind real.
///
/// An actuator gets all its operations that may run at the moment as one [`Batch`], of one or of several kinds,
/// either all changes or all reads. It takes them out of the batch one by one or many at a time, in any order it
/// likes to finish them, and answers each as soon as it is done: what waits for that one goes on while the rest of
/// the batch is under way. Operations that become ready later come in a further call, while the first still runs.
///
/// **Guarantees** of the driver: an item has one operation under way at a time (an overdue one no longer counts). A
/// panic, a hang or a missing answer costs only the unanswered operations of this batch.
///
/// **Assumes** that the future does not block its thread, and that it may be dropped at any of its await points once
/// none of its answers is waited for.
///
/// Most actuators act on one item after the other: implement [`crate::SingleItem`] and wrap it with [`crate::each`].
pub trait Actuator: Send + Sync + 'static {
    /// Performs the operations of the batch. What is not answered when the future ends has failed.
    fn perform(&self, batch: Batch) -> BoxFuture<'_, ()>;
}

/// The actuators by the kinds they make real.
#[derive(Clone, Default)]
pub struct Actuators {
    by_kind: BTreeMap<Arc<str>, usize>,
    list: Vec<Arc<dyn Actuator>>,
}

impl Actuators {
    /// No kind is made real yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets an actuator make a kind real. One that is added for several kinds gets one batch for all of them.
    pub fn add(
        &mut self,
        kind: impl Into<Arc<str>>,
        actuator: Arc<dyn Actuator>,
    ) -> Result<(), AddActuatorError> {
        let kind = kind.into();
        if self.by_kind.contains_key(&kind) {
            return Err(AddActuatorError::KindTaken { kind: kind.as_ref().to_owned() });
        }
        let known = self.list.iter().position(|other| same(other, &actuator));
        let at = known.unwrap_or_else(|| {
            self.list.push(actuator);
            self.list.len() - 1
        });
        self.by_kind.insert(kind, at);
        Ok(())
    }

    /// The kinds that are made real, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.by_kind.keys().map(|kind| &**kind)
    }

    /// The shared name of the kind, and the place of its actuator.
    pub(crate) fn find(&self, kind: &str) -> Option<(&Arc<str>, usize)> {
        self.by_kind.get_key_value(kind).map(|(name, at)| (name, *at))
    }

    pub(crate) fn at(&self, place: usize) -> &Arc<dyn Actuator> {
        &self.list[place]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

fn same(one: &Arc<dyn Actuator>, other: &Arc<dyn Actuator>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}
