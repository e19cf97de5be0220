//! The fake world as an actuator, for agents that act through the driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kilter_scheduler::{RegisterError, Scheduler};
use kilter_southbound::{Actuator, Actuators, AddActuatorError, Batch, BoxFuture};

use crate::kinds::KINDS;
use crate::world::World;

/// A world that several tasks share.
#[derive(Clone, Default)]
pub struct Hand(Arc<Mutex<World>>);

impl Hand {
    /// The world. An operation that it finds unsafe panics, and so fails.
    pub fn world(&self) -> MutexGuard<'_, World> {
        // What panics is an operation that was not performed: the world is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the kinds of the scenarios with a scheduler, and this hand for all of them.
    pub fn serve(&self, scheduler: &mut Scheduler) -> Result<Actuators, ServeError> {
        self.world().register(scheduler, KINDS)?;
        let mut actuators = Actuators::new();
        let hand: Arc<dyn Actuator> = Arc::new(self.clone());
        for kind in KINDS {
            actuators.add(kind.name(), Arc::clone(&hand))?;
        }
        Ok(actuators)
    }
}

/// Why a scheduler cannot be served.
#[derive(Debug)]
pub enum ServeError {
    /// Its kinds overlap.
    Register(RegisterError),
    /// A kind has two actuators.
    Actuator(AddActuatorError),
}

impl From<RegisterError> for ServeError {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}

impl From<AddActuatorError> for ServeError {
    fn from(error: AddActuatorError) -> Self {
        Self::Actuator(error)
    }
}

impl Actuator for Hand {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut hung = Vec::new();
            for assignment in batch.take_all() {
                let kind = KINDS.iter().find(|kind| *kind.name() == *assignment.kind);
                let kind = kind.expect("only the kinds of the scenarios are served");
                let answer = self.world().perform_act(kind, &assignment.act);
                match answer {
                    Some(answer) => assignment.answer(answer),
                    None => hung.push(assignment),
                }
            }
            if !hung.is_empty() {
                std::future::pending::<()>().await;
            }
        })
    }
}
