//! What is lost while something else is fetched, what is broken without a loss, what is too large, and where publishers are.

use std::time::Duration;

use kilter_pubsub::{
    Change, Delivery, MAX_VALUE, Moment, Notice, Output, Report, Settings, Subscriber, SubscriberCounts,
};

use crate::simulation::network::Weather;
use crate::simulation::random::quick;
use crate::simulation::world::{World, item, topic};

const WINDOW: u64 = 50_000;
/// What a message takes in these networks, at most.
const DELAY: u64 = 20_000;
const LONG: Duration = Duration::from_secs(30);

/// A distributor that says everything to everybody, and a subscriber of topic `a`, with the timeouts people have.
fn world(seed: u64) -> World {
    let settings = Settings {
        heartbeat_interval: Duration::from_secs(10),
        peer_timeout: Duration::from_secs(30),
        fetch_timeout: Duration::from_secs(2),
        ..quick()
    };
    let mut world = World::new(settings, Delivery::Broadcast, seed);
    world.weather = Weather { delay: (DELAY / 1000) as usize, ..Weather::default() };
    world.add_distributor();
    world.put("a", "old");
    world.run_millis(50);
    world.add_subscriber(&[topic("a")]);
    settle(&mut world);
    world
}

fn settle(world: &mut World) -> u64 {
    let took = world.run_until(LONG, World::is_settled);
    assert_eq!(world.broken, None);
    took.unwrap_or_else(|| panic!("not settled: {}", world.unsettled()))
}

fn counts(world: &World) -> SubscriberCounts {
    world.subscribers[0].core.as_ref().expect("it runs").counts()
}

/// One commit that is lost and one that is heard, as soon as the network lets it.
fn lose_and_say(world: &mut World, round: u64) {
    world.weather.loss = 100;
    world.put("a", &format!("lost{round}"));
    world.run_for(Duration::from_micros(300));
    world.weather.loss = 0;
    world.put("a", &format!("heard{round}"));
}

#[test]
fn what_is_lost_while_something_else_is_fetched_costs_a_window_more_and_no_session() {
    let (mut twice, mut slowest) = (0, 0);
    for seed in 0..40 {
        let mut world = world(seed);
        let before = counts(&world);
        // Several losses, each while the answer to the one before is on its way.
        lose_and_say(&mut world, 0);
        for round in 1..=4 {
            let fetches = counts(&world).fetches;
            if world.run_until(LONG, |world| counts(world).fetches > fetches || world.is_settled()).is_none()
            {
                panic!("not settled: {}", world.unsettled());
            }
            let asked = world.distributors[0].core.as_ref().unwrap().published().counts().ranges;
            world.run_until(Duration::from_micros(DELAY), |world| {
                world.distributors[0].core.as_ref().unwrap().published().counts().ranges > asked
            });
            lose_and_say(&mut world, round);
        }
        slowest = slowest.max(settle(&mut world));
        let now = counts(&world);
        assert_eq!((now.sessions_lost, now.snapshots, now.deltas), (0, before.snapshots, before.deltas));
        twice += u64::from(now.fetches - before.fetches > now.gaps - before.gaps);
    }
    assert!(twice > 0, "nothing was lost while something else was fetched");
    assert!(slowest <= 2 * (WINDOW + 3 * DELAY), "{slowest} us");
}

#[test]
fn an_address_that_was_set_outlives_its_row() {
    let start = Moment::from_millis(0);
    let mut subscriber = Subscriber::new(quick(), "node", 1, ["tcp://set".to_owned()], 1, start);
    subscriber.learn(["tcp://set", "tcp://learnt"].map(str::to_owned));
    subscriber.forget("tcp://set");
    subscriber.forget("tcp://learnt");
    let mut now = start;
    for _ in 0..20 {
        subscriber.advance(now);
        let outputs = std::iter::from_fn(|| subscriber.output());
        let asked: Vec<Output> = outputs.filter(|output| matches!(output, Output::Connect(_))).collect();
        assert!(asked.iter().all(|output| *output == Output::Connect("tcp://set".to_owned())), "{asked:?}");
        if !asked.is_empty() {
            return;
        }
        now = now.after(Duration::from_secs(1));
    }
    panic!("it connects nowhere");
}

#[test]
fn a_value_that_is_too_large_is_told_shown_as_empty_and_costs_no_read() {
    for delivery in [Delivery::Cursors, Delivery::Broadcast] {
        let mut world = World::new(quick(), delivery, 7);
        world.add_distributor();
        world.put("a", "large");
        world.run_millis(50);
        world.add_subscriber(&[topic("a")]);
        settle(&mut world);
        world.excuse_values = true;
        let rev = world.commit(&[(topic("a"), item("large"), vec![b'x'; MAX_VALUE + 1])], &[]);
        let shown = |world: &World| world.subscribers[0].witness.view[&item("large")].clone();
        let told = world.run_until(LONG, |world| shown(world).0.version == rev);
        assert!(told.is_some() && shown(&world).1.is_empty(), "{told:?}");
        let notice = Notice::Oversize { topic: topic("a"), item: item("large"), size: MAX_VALUE + 1 };
        assert!(world.distributors[0].notices.contains(&notice));
        // Audits read the source, and find nothing wrong: it is loaded once.
        world.run_millis(15_000);
        let loads = world.distributors[0].notices.iter().filter(|one| matches!(one, Notice::Loaded { .. }));
        assert_eq!((loads.count(), counts(&world).snapshots, counts(&world).deltas), (1, 1, 0));
        assert!(world.store.reads >= 3, "{} reads", world.store.reads);
        // Another distributor, which never saw it happen, says the same.
        world.crash_distributor(0);
        world.start_distributor(0);
        world.run_millis(5000);
        assert_eq!((counts(&world).deltas, counts(&world).mismatches), (0, 0));
        world.put("a", "large");
        settle(&mut world);
    }
}

/// What a subscriber holds is broken in one item: nobody has lost a message, and only the digest tells.
#[test]
fn f33_what_is_broken_in_a_replica_is_noticed_within_a_heartbeat_and_costs_its_bucket() {
    const HEARTBEAT: u64 = 500_000;
    let version: fn(&mut Vec<Change>) = |items| items[100].version -= 1;
    let missing: fn(&mut Vec<Change>) = |items| drop(items.remove(100));
    let extra: fn(&mut Vec<Change>) = |items| items.push(Change::put(item("extra"), 3, "x"));
    for (delivery, tamper) in [Delivery::Cursors, Delivery::Broadcast]
        .into_iter()
        .flat_map(|delivery| [version, missing, extra].map(|tamper| (delivery, tamper)))
    {
        let mut world = World::new(quick(), delivery, 7);
        world.add_distributor();
        for key in 0..500 {
            world.commit(&[(topic("a"), item(&format!("key{key}")), vec![b'x'; 100])], &[]);
        }
        world.run_millis(50);
        world.add_subscriber(&[topic("a")]);
        settle(&mut world);
        world.crash_subscriber(0);
        world.excuse_values = true;
        tamper(&mut world.subscribers[0].mirror.as_mut().expect("it held something").topics[0].2);
        world.subscribers[0].resent_bytes = 0;
        world.start_subscriber(0, &[topic("a")], true);
        let is_live = |world: &World| world.subscribers[0].core.as_ref().unwrap().topics()[0].is_live;
        assert!(world.run_until(LONG, is_live).is_some());
        let noticed = world.run_until(LONG, |world| counts(world).mismatches > 0);
        assert!(noticed.is_some_and(|took| took <= HEARTBEAT + DELAY), "{noticed:?}");
        let took = settle(&mut world);
        assert!(took <= 4 * DELAY, "{took} us");
        world.excuse_values = false;
        world.run_millis(2000);
        let now = counts(&world);
        assert_eq!((now.mismatches, now.deltas, now.snapshots, world.broken.take()), (1, 1, 0, None));
        let told = world.subscribers[0].reports.iter();
        assert_eq!(told.filter(|(_, report)| matches!(report, Report::Mismatch { .. })).count(), 1);
        // Five hundred items are two in a bucket; of those, what is right is not sent again.
        let resent = world.subscribers[0].resent_bytes;
        assert!(resent < 400, "{resent} bytes were sent again for one item");
    }
}

#[test]
fn how_near_a_subscriber_is_is_known_to_it() {
    let mut world = World::new(quick(), Delivery::Broadcast, 7);
    world.add_distributor();
    world.put("a", "old");
    world.run_millis(50);
    world.add_subscriber(&[topic("a")]);
    settle(&mut world);
    world.run_millis(1200);
    let near = |world: &World| world.nearness(0);
    assert_eq!(near(&world).lag, 0);
    assert!(near(&world).age <= Duration::from_millis(600), "{:?}", near(&world).age);
    // Three commits are lost, and the next beat tells of them: they are missed until they are fetched.
    world.weather.loss = 100;
    for key in 0..3 {
        world.put("a", &format!("lost{key}"));
    }
    world.run_millis(20);
    world.weather.loss = 0;
    let told = world.run_until(LONG, |world| near(world).lag == 3);
    assert!(told.is_some(), "{:?}", near(&world));
    settle(&mut world);
    assert_eq!(near(&world).lag, 0);
    world.crash_distributor(0);
    world.run_millis(5000);
    assert!(near(&world).age >= Duration::from_secs(4), "{:?}", near(&world).age);
}
