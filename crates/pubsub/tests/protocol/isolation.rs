//! G8: whatever one subscriber does or suffers, the others get everything, as soon as without it.

use std::time::Duration;

use kilter_pubsub::{Delivery, SubscriberCounts};

use crate::simulation::random::quick;
use crate::simulation::world::{World, topic};

/// What a commit takes to reach whoever is well, at most.
const TRIP: u64 = 5_000;
const WELL: usize = 3;
const LIVES: u64 = 100;

fn counts(world: &World, subscriber: usize) -> SubscriberCounts {
    world.subscribers[subscriber].core.as_ref().expect("it runs").counts()
}

/// Something happens to the one that is not well.
fn disturb(world: &mut World, bad: usize) {
    match world.dice.below(9) {
        0 => world.subscribers[bad].slowness = world.dice.below(500) as u64,
        1 => world.subscribers[bad].suspended = !world.subscribers[bad].suspended,
        2 => world.subscribers[bad].garble = 1 + world.dice.below(3),
        3 => world.break_connection(bad),
        4 => {
            let is_cut = world.dice.one_in(2);
            world.set_cut(bad, 0, is_cut);
        }
        5 => world.unfollow(bad, &topic("a")),
        6 => world.follow(bad, &topic("a")),
        7 => world.follow(bad, &topic("b")),
        _ => {
            world.crash_subscriber(bad);
            let from_mirror = world.dice.one_in(2);
            world.start_subscriber(bad, &[topic("a")], from_mirror);
        }
    }
}

#[test]
fn g8_whoever_is_not_well_delays_nobody_and_costs_nobody_a_message() {
    for seed in 0..LIVES {
        let mut world = World::new(quick(), Delivery::Cursors, seed);
        world.add_distributor();
        for key in 0..20 {
            world.put("a", &format!("old{key}"));
        }
        world.run_millis(50);
        for _ in 0..=WELL {
            world.add_subscriber(&[topic("a"), topic("b")]);
        }
        let settled = world.run_until(Duration::from_secs(30), World::is_settled);
        assert!(settled.is_some(), "seed {seed}: {:?} {}", world.broken, world.unsettled());
        let before: Vec<SubscriberCounts> = (0..WELL).map(|one| counts(&world, one)).collect();
        for round in 0..60 {
            disturb(&mut world, WELL);
            let to = if round % 3 == 0 { "b" } else { "a" };
            world.put(to, &format!("{to}{}", round % 10));
            let took = world.run_until(Duration::from_micros(TRIP), |world| {
                (0..WELL).all(|one| world.held(one, &topic(to)) == world.store.life().now(&topic(to)))
            });
            assert!(
                took.is_some() && world.broken.is_none(),
                "seed {seed}: {:?} {}",
                world.broken,
                world.unsettled()
            );
            let pause = world.dice.below(400) as u64;
            world.run_millis(pause);
        }
        for (one, before) in before.into_iter().enumerate() {
            let now = counts(&world, one);
            let lost = (now.gaps, now.sessions_lost, now.snapshots, now.deltas, now.duplicates);
            let was = (before.gaps, before.sessions_lost, before.snapshots, before.deltas, before.duplicates);
            assert_eq!(lost, was, "seed {seed}: s{one}");
        }
    }
}
