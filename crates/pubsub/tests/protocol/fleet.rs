//! A fleet: twenty nodes, fifty topics, a network that loses every tenth message, and the bounds that hold all the same.

use std::time::Duration;

use kilter_pubsub::{Delivery, Topic};

use crate::simulation::random::quick;
use crate::simulation::world::{World, item, topic};

const NODES: usize = 20;
const TOPICS: usize = 50;
const COMMITS: usize = 2000;
const HEARTBEAT: u64 = 500_000;
const WINDOW: u64 = 50_000;
/// A question, its answer and a little work.
const REPAIR: u64 = 60_000;
/// A value and what names it.
const CHANGE: usize = 130;

/// Each node follows five topics, so that each topic has two nodes.
fn followed(node: usize) -> Vec<Topic> {
    (0..5).map(|number| topic(&format!("tenant:{}", (node * 5 + number) % TOPICS))).collect()
}

/// Changes one item of each topic in turn; a topic has so many of them.
fn change(world: &mut World, number: usize, items: usize) {
    let (at, of) = (number % TOPICS, number / TOPICS % items);
    let value = format!("{:0100}", world.store.rev()).into_bytes();
    world.commit(&[(topic(&format!("tenant:{at}")), item(&format!("item-{at:02}-{of:03}")), value)], &[]);
}

/// A fleet that has everything, topics of so many items.
fn fleet(seed: u64, distributors: usize, items: usize) -> World {
    let mut world = World::new(quick(), Delivery::Broadcast, seed);
    for _ in 0..distributors {
        world.add_distributor();
    }
    (0..TOPICS * items).for_each(|number| change(&mut world, number, items));
    world.run_millis(50);
    for node in 0..NODES {
        world.add_subscriber(&followed(node));
    }
    let settled = world.run_until(Duration::from_secs(30), agrees);
    assert!(settled.is_some(), "{:?} {}", world.broken, world.unsettled());
    world.run_millis(1000);
    world
}

/// Whether the digest of every topic is the same at every node that follows it as at a distributor.
fn agrees(world: &World) -> bool {
    let Some(publisher) = world.distributors.iter().find_map(|one| Some(one.core.as_ref()?.published()))
    else {
        return false;
    };
    world.subscribers.iter().filter_map(|one| one.core.as_ref()).all(|core| {
        core.topics().iter().all(|status| {
            publisher.view(&status.topic).is_some_and(|view| view.digest() == status.digest) && status.is_live
        })
    })
}

/// Changes items for two seconds while so many of a hundred messages are lost.
fn change_under_loss(world: &mut World, loss: usize, items: usize, count: usize) {
    world.weather.loss = loss;
    for number in 0..count {
        change(world, number, items);
        world.run_millis(1);
    }
    assert_eq!(world.broken, None);
}

fn settle(world: &mut World) -> u64 {
    let took = world.run_until(Duration::from_secs(30), agrees);
    assert!(world.is_settled() && world.broken.is_none(), "{:?} {}", world.broken, world.unsettled());
    took.expect("it is settled")
}

/// Snapshots and comparisons of every node.
fn catch_ups(world: &World) -> u64 {
    let cores = world.subscribers.iter().filter_map(|one| one.core.as_ref());
    cores.map(|core| core.counts().snapshots + core.counts().deltas).sum()
}

#[test]
fn twenty_nodes_agree_within_a_heartbeat_the_window_and_a_repair() {
    for seed in 1..=3 {
        let mut world = fleet(seed, 1, 10);
        let before = catch_ups(&world);
        change_under_loss(&mut world, 10, 10, COMMITS);
        assert!(!agrees(&world), "something was lost");
        world.weather.loss = 0;
        let took = settle(&mut world);
        assert!(took <= HEARTBEAT + WINDOW + REPAIR, "seed {seed}: {took} us");
        assert_eq!(catch_ups(&world), before, "what is in the log is never sent whole");
    }
}

#[test]
fn a_beat_that_is_lost_costs_one_more_heartbeat() {
    let mut world = fleet(4, 1, 10);
    change_under_loss(&mut world, 10, 10, COMMITS);
    let took = settle(&mut world);
    assert!(took <= 4 * HEARTBEAT + WINDOW + REPAIR, "{took} us");
}

#[test]
fn a_distributor_that_dies_in_the_middle_costs_its_nodes_one_connection_more() {
    let mut world = fleet(5, 2, 10);
    let before = catch_ups(&world);
    change_under_loss(&mut world, 10, 10, COMMITS / 2);
    world.crash_distributor(0);
    change_under_loss(&mut world, 10, 10, COMMITS / 2);
    world.weather.loss = 0;
    let took = settle(&mut world);
    assert!(took <= 200_000 + HEARTBEAT + WINDOW + REPAIR, "{took} us");
    assert_eq!(catch_ups(&world), before);
}

/// Bytes that were sent again to a fleet with topics of so many items, while so many of a hundred messages were lost.
fn resent(items: usize, loss: usize) -> usize {
    let mut world = fleet(6, 1, items);
    let sum = |world: &World| -> usize { world.subscribers.iter().map(|one| one.resent_bytes).sum() };
    let before = sum(&world);
    change_under_loss(&mut world, loss, items, COMMITS);
    world.weather.loss = 0;
    settle(&mut world);
    sum(&world) - before
}

#[test]
fn bytes_sent_again_follow_what_was_lost_and_not_what_there_is() {
    let (small, large, twice) = (resent(4, 10), resent(20, 10), resent(4, 20));
    assert_eq!(resent(4, 0), 0);
    let times = |one: usize, other: usize| one as f64 / other as f64;
    assert!((0.8..1.25).contains(&times(large, small)), "{small} bytes, {large} of five times the state");
    assert!((1.6..2.6).contains(&times(twice, small)), "{small} bytes, {twice} for twice the loss");
    // Each commit is for two nodes; what came behind a gap before it was fetched comes again with it.
    let lost = COMMITS * 2 * CHANGE / 10;
    assert!(small <= 3 * lost, "{small} bytes were sent again for {lost} that were lost");
}
