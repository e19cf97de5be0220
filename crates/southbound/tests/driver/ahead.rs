//! Operations that are taken ahead: each has its deadline from when it is begun.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use kilter_scheduler::Outcome;
use kilter_southbound::{Actuator, Actuators, Batch, Settings};
use tokio::time::{Instant, sleep}; // Planned work in paused time, never a wait.

use super::world::{House, Script, World, put, secs, thing};

/// Takes everything ahead and performs it one after the other, twenty seconds each.
struct Orderly(Arc<World>);

impl Actuator for Orderly {
    fn perform(&self, mut batch: Batch) -> BoxFuture<'_, ()> {
        async move {
            if batch.is_read() {
                return;
            }
            for assignment in batch.take_ahead(usize::MAX) {
                assignment.begin();
                sleep(secs(20)).await;
                if let Some(answer) = self.0.change(&assignment.act).await {
                    assignment.answer(answer);
                }
            }
        }
        .boxed()
    }
}

fn house() -> House {
    let world = Arc::new(World::default());
    let mut actuators = Actuators::new();
    actuators.add("a", Arc::new(Orderly(Arc::clone(&world)))).unwrap();
    House::with(world, actuators, Settings::default())
}

#[tokio::test(start_paused = true)]
async fn a_long_row_of_operations_taken_ahead_does_not_make_its_tail_late() {
    let mut house = house();
    let start = Instant::now();
    let record = house.run(put(&["a/1", "a/2", "a/3", "a/4"].map(|key| (key, thing())))).await;
    assert_eq!(record.outcome, Outcome::Applied);
    assert_eq!(start.elapsed().as_secs(), 80);
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_ahead_fails_when_the_actuator_is_silent() {
    let mut house = house();
    house.world.script("a/2", Script::Hangs);
    house.run(put(&["a/1", "a/2", "a/3"].map(|key| (key, thing())))).await;
    assert_eq!(house.state("a/1").0, "CONFIGURED");
    assert_eq!(house.error("a/2"), "no answer within 30s");
    assert_eq!(house.error("a/3"), "not taken up within 30s");
}
