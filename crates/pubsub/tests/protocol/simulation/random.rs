//! A random life: weather, crashes, partitions, restores, slow readers; then quiet, in which everything must settle.

use std::time::Duration;

use kilter_pubsub::{Delivery, Settings, Tail, Topic};

use super::network::Weather;
use super::world::{World, item, topic};

const TOPICS: [&str; 4] = ["a", "ab", "b\u{0}", "D"];
const KEYS: [&str; 12] = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11"];

/// Settings in which everything happens within seconds.
pub(crate) fn quick() -> Settings {
    Settings {
        heartbeat_interval: Duration::from_millis(500),
        peer_timeout: Duration::from_millis(1500),
        reorder_window: Duration::from_millis(50),
        fetch_timeout: Duration::from_millis(500),
        behind_timeout: Duration::from_millis(300),
        progress_timeout: Duration::from_secs(2),
        backoff_cap: Duration::from_secs(1),
        snapshot_interval: Duration::from_millis(200),
        snapshot_interval_cap: Duration::from_secs(1),
        audit_interval: Duration::from_secs(4),
        fallback_after: Duration::from_secs(4),
        stale_limit: Duration::from_secs(1),
        window: 4096,
        log_bytes: 1 << 20,
        ack_interval: Duration::from_millis(500),
        ..Settings::default()
    }
}

/// How much clocks gain or lose in a second, at most, in microseconds: more than any that works.
const DRIFT: u32 = 20_000;

/// What can happen in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Anything.
    Wild,
    /// Nothing that takes more than the log holds: losses, delays, cuts, lost connections, slow readers, a store that is
    /// away.
    Gentle,
}

fn build(seed: u64) -> (World, Kind) {
    let mut dice = kilter_testkit::dice::Dice::new(seed);
    let kind = if dice.one_in(4) { Kind::Gentle } else { Kind::Wild };
    let delivery = if dice.one_in(2) { Delivery::Broadcast } else { Delivery::Cursors };
    let log_slices = *dice.pick(&[4, 30, 2000]).expect("some");
    let ahead_slices = *dice.pick(&[2, 16, 256]).expect("some");
    let lag_slices = *dice.pick(&[1, 8, 64]).expect("some");
    let log_slices = if kind == Kind::Gentle { 2000 } else { log_slices };
    let settings = Settings { log_slices, ahead_slices, lag_slices, ..quick() };
    let mut world = World::new(settings, delivery, dice.number());
    world.tail = if dice.one_in(4) { Tail::Poll } else { Tail::Watch };
    world.weather = Weather {
        loss: dice.below(25),
        twice: dice.below(15),
        delay: 1 + dice.below(80),
        hostile: if dice.one_in(3) && kind == Kind::Wild { dice.below(8) } else { 0 },
    };
    world.drift = DRIFT;
    world.dice = dice;
    (world, kind)
}

fn some_topics(world: &mut World) -> Vec<Topic> {
    let mut topics: Vec<Topic> = TOPICS.iter().map(|name| topic(name)).collect();
    topics.retain(|_| !world.dice.one_in(3));
    topics
}

fn write(world: &mut World) {
    let count = 1 + world.dice.below(3);
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let key = item(KEYS[world.dice.below(KEYS.len())]);
        if puts.iter().any(|(_, other, _)| *other == key) || deletes.contains(&key) {
            continue;
        }
        if world.dice.one_in(4) {
            deletes.push(key);
        } else {
            let value = format!("{} {}", key.key, world.dice.below(1000)).into_bytes();
            puts.push((topic(TOPICS[world.dice.below(TOPICS.len())]), key, value));
        }
    }
    world.commit(&puts, &deletes);
}

/// Something happens.
fn disturb(world: &mut World, kind: Kind) {
    let subscriber = world.dice.below(world.subscribers.len());
    let distributor = world.dice.below(world.distributors.len());
    let what = match kind {
        Kind::Wild => world.dice.below(16),
        Kind::Gentle => *world.dice.pick(&[5, 6, 7, 8, 10, 11, 12, 13]).expect("some"),
    };
    match what {
        0 => world.crash_distributor(distributor),
        1 | 2 => {
            for index in 0..world.distributors.len() {
                if world.distributors[index].core.is_none() {
                    world.start_distributor(index);
                }
            }
        }
        3 => world.crash_subscriber(subscriber),
        4 => {
            for index in 0..world.subscribers.len() {
                if world.subscribers[index].core.is_none() {
                    let (topics, from_mirror) = (some_topics(world), world.dice.one_in(2));
                    world.start_subscriber(index, &topics, from_mirror);
                }
            }
        }
        5 => world.break_connection(subscriber),
        6 => world.set_cut(subscriber, distributor, true),
        7 => world.set_cut(subscriber, distributor, false),
        8 => {
            let available = world.dice.one_in(2);
            world.set_store(available);
        }
        9 => world.store.compacted = world.store.rev(),
        10 => world.subscribers[subscriber].slowness = world.dice.below(200) as u64,
        11 => {
            let reachable = world.dice.one_in(2);
            world.set_source(distributor, reachable);
        }
        12 => {
            let name = topic(TOPICS[world.dice.below(TOPICS.len())]);
            world.follow(subscriber, &name);
        }
        13 => {
            let name = topic(TOPICS[world.dice.below(TOPICS.len())]);
            world.unfollow(subscriber, &name);
        }
        14 => world.subscribers[subscriber].garble = 1,
        _ => {
            if world.dice.one_in(6) {
                let back = world.dice.below(5) as u64;
                world.restore_store(back, None);
            }
        }
    }
}

/// Everything works again.
fn calm(world: &mut World) {
    world.weather = Weather { delay: 2, ..Weather::default() };
    world.cut.clear();
    world.set_store(true);
    for index in 0..world.distributors.len() {
        world.set_source(index, true);
        if world.distributors[index].core.is_none() {
            world.start_distributor(index);
        }
    }
    for index in 0..world.subscribers.len() {
        world.subscribers[index].slowness = 0;
        world.subscribers[index].garble = 0;
        if world.subscribers[index].core.is_none() {
            let topics = some_topics(world);
            world.start_subscriber(index, &topics, true);
        }
    }
}

/// Lives the life of a seed; the error says what broke.
pub(crate) fn live(seed: u64, traced: bool) -> Result<World, Box<(World, String)>> {
    let (mut world, kind) = build(seed);
    world.trace = traced.then(Vec::new);
    for _ in 0..2 {
        world.add_distributor();
    }
    for _ in 0..3 {
        let topics = some_topics(&mut world);
        world.add_subscriber(&topics);
    }
    for _ in 0..60 {
        match world.dice.below(4) {
            0 => disturb(&mut world, kind),
            _ => write(&mut world),
        }
        let pause = world.dice.below(400) as u64;
        world.run_millis(pause);
        if world.broken.is_some() {
            break;
        }
    }
    if let Some(what) = world.broken.clone() {
        return Err(Box::new((world, what)));
    }
    calm(&mut world);
    let settled = world.run_until(Duration::from_secs(20), World::is_settled);
    if settled.is_none() && world.broken.is_none() {
        let what = format!("G1: not settled after 20 s of quiet:\n{}", world.unsettled());
        world.fail(what);
    }
    // Two more beats: digests are equal at equal positions, and no deletion is remembered for nothing.
    let before: Vec<_> = mismatches(&world);
    world.run_millis(1200);
    if mismatches(&world) != before {
        world.fail("digests differ although the items are equal".to_owned());
    }
    let forgotten = world.run_until(Duration::from_secs(5), |world| remembered(world) == 0);
    if forgotten.is_none() {
        let what = format!("{} deletions are remembered although everything is applied", remembered(&world));
        world.fail(what);
    }
    if kind == Kind::Gentle {
        world.check_whole();
    }
    match world.broken.clone() {
        Some(what) => Err(Box::new((world, what))),
        None => Ok(world),
    }
}

fn remembered(world: &World) -> usize {
    world.subscribers.iter().filter_map(|one| Some(one.core.as_ref()?.remembered().0)).sum()
}

fn mismatches(world: &World) -> Vec<u64> {
    world.subscribers.iter().map(|one| one.core.as_ref().map_or(0, |core| core.counts().mismatches)).collect()
}

/// What broke, with the last lines of its trace and the way to see it again.
pub(crate) fn told(seed: u64) -> String {
    match live(seed, true) {
        Ok(_) => format!("seed {seed} holds with a trace"),
        Err(broken) => {
            let (world, what) = *broken;
            let trace = world.trace.unwrap_or_default();
            let from = trace.len().saturating_sub(80);
            format!(
                "seed {seed}: {what}\n{}\nrun it again with: cargo xtask simulate --subject pubsub --seed {seed} --seeds 1",
                trace[from..].join("\n")
            )
        }
    }
}
