//! The failure matrix, row by row: what goes wrong, and how soon it is right again.
//!
//! The guarantees (G1–G9) are checked after every step of every one of these; what stands here are the bounds.

use std::time::Duration;

use kilter_pubsub::{
    Delivery, Discovery, LogId, Moment, Neighbour, Notice, Report, Row, Settings, StaleAction,
    SubscriberCounts, TableRequest, Tail,
};

use crate::simulation::network::Weather;
use crate::simulation::random::quick;
use crate::simulation::world::{World, item, topic};

const HEARTBEAT: u64 = 500_000;
const WINDOW: u64 = 50_000;
const DEAD: u64 = 3 * HEARTBEAT;
/// What a round trip and a little work take, at most.
const TRIP: u64 = 20_000;
const LONG: Duration = Duration::from_secs(30);

/// So many distributors, and subscribers of topic `a`, all settled.
fn world(settings: Settings, delivery: Delivery, distributors: usize, subscribers: usize) -> World {
    let mut world = World::new(settings, delivery, 7);
    for _ in 0..distributors {
        world.add_distributor();
    }
    for key in 0..20 {
        world.put("a", &format!("old{key}"));
    }
    world.run_millis(50);
    for _ in 0..subscribers {
        world.add_subscriber(&[topic("a")]);
    }
    settle(&mut world);
    world.run_millis(600);
    world
}

fn settle(world: &mut World) -> u64 {
    let took = world.run_until(LONG, World::is_settled);
    assert_eq!(world.broken, None);
    took.unwrap_or_else(|| panic!("not settled: {}", world.unsettled()))
}

fn counts(world: &World, subscriber: usize) -> SubscriberCounts {
    world.subscribers[subscriber].core.as_ref().expect("it runs").counts()
}

/// Which distributor a subscriber is connected to.
fn at(world: &World, subscriber: usize) -> usize {
    let mut addresses = world.subscribers[subscriber].reports.iter().rev().filter_map(|(_, report)| {
        let Report::Connected { address } = report else { return None };
        Some(address.parse().expect("addresses are numbers"))
    });
    addresses.next().expect("it was connected")
}

/// Puts an item while everything that is said to everybody is lost.
fn lose(world: &mut World, key: &str) {
    world.weather.loss = 100;
    world.put("a", key);
    world.run_millis(5);
    world.weather.loss = 0;
}

fn no_catch_up_since(world: &World, subscriber: usize, before: SubscriberCounts) {
    let now = counts(world, subscriber);
    assert_eq!(
        (now.snapshots, now.deltas, now.source_reads),
        (before.snapshots, before.deltas, before.source_reads)
    );
}

#[test]
fn f1_a_dead_publisher_costs_its_timeout_and_no_snapshot() {
    let mut world = world(quick(), Delivery::Cursors, 2, 1);
    let before = counts(&world, 0);
    let dead = at(&world, 0);
    world.set_cut(0, dead, true);
    world.put("a", "new");
    let took = settle(&mut world);
    assert!(took <= DEAD + 200_000 + 3 * TRIP, "{took} us");
    no_catch_up_since(&world, 0, before);
}

#[test]
fn f2_a_publisher_that_restarts_is_resumed_from_the_cursor() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    let before = counts(&world, 0);
    world.crash_distributor(0);
    world.run_millis(100);
    world.start_distributor(0);
    settle(&mut world);
    no_catch_up_since(&world, 0, before);
    // Something happened while it was down: what differs is found by digests, and only that is sent.
    world.crash_distributor(0);
    world.put("a", "meanwhile");
    world.start_distributor(0);
    settle(&mut world);
    assert_eq!(
        (counts(&world, 0).snapshots, counts(&world, 0).deltas),
        (before.snapshots, before.deltas + 1)
    );
}

#[test]
fn f2_numbers_of_its_own_are_never_compared_with_others() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.restore_store(0, Some(LogId::of("another start")));
    world.crash_distributor(0);
    world.start_distributor(0);
    world.run_millis(5000);
    settle(&mut world);
    let rebased = Report::Rebased { topic: topic("a"), changed: 0 };
    assert!(world.subscribers[0].reports.iter().any(|(_, report)| *report == rebased));
}

#[test]
fn f3_a_crash_between_commit_and_delivery_loses_nothing() {
    let mut world = world(quick(), Delivery::Cursors, 2, 1);
    world.put("a", "committed");
    let serving = at(&world, 0);
    world.crash_distributor(serving);
    let took = settle(&mut world);
    assert!(took <= 200_000 + 3 * TRIP, "{took} us");
}

#[test]
fn f4_nothing_is_delivered_that_was_not_committed() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    let before = world.subscribers[0].witness.batches;
    world.set_store(false);
    assert_eq!(world.put_if("a", "failed", None), None);
    world.poke(0);
    world.run_millis(3000);
    assert_eq!(world.subscribers[0].witness.batches, before);
    // Nor when the store is back: what was not committed never was. What is committed then is seen, and nothing else.
    world.set_store(true);
    world.run_millis(3000);
    assert_eq!(world.subscribers[0].witness.batches, before);
    assert!(world.put_if("a", "done", None).is_some());
    settle(&mut world);
    assert_eq!(world.subscribers[0].witness.batches, before + 1);
    assert!(!world.subscribers[0].witness.view.contains_key(&item("failed")));
}

#[test]
fn f5_a_subscriber_restarts_from_its_mirror_without_a_snapshot() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.crash_subscriber(0);
    world.put("a", "meanwhile");
    world.start_subscriber(0, &[topic("a")], true);
    settle(&mut world);
    assert_eq!((counts(&world, 0).snapshots, counts(&world, 0).deltas), (0, 0));
    world.crash_subscriber(0);
    world.start_subscriber(0, &[topic("a")], false);
    // Committed during the read: neither lost nor applied twice, which the checks see.
    world.put("a", "during");
    settle(&mut world);
    assert_eq!(counts(&world, 0).snapshots, 1);
}

#[test]
fn f6_a_lost_connection_costs_what_was_missed_not_what_there_is() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    for key in 0..500 {
        world.put("a", &format!("big{key}"));
    }
    settle(&mut world);
    world.run_millis(700);
    let (before, bytes) = (counts(&world, 0), world.subscribers[0].received_bytes);
    world.break_connection(0);
    for key in 0..3 {
        world.put("a", &format!("big{key}"));
    }
    settle(&mut world);
    let moved = world.subscribers[0].received_bytes - bytes;
    assert!(moved < 1500, "{moved} bytes for three of 500 items");
    no_catch_up_since(&world, 0, before);
}

#[test]
fn f7_a_lost_message_is_noticed_and_fetched_exactly() {
    for missing in [1, 2, 10] {
        let mut world = world(quick(), Delivery::Broadcast, 1, 1);
        let before = counts(&world, 0);
        for key in 0..missing {
            lose(&mut world, &format!("lost{key}"));
        }
        world.put("a", "seen");
        let took = settle(&mut world);
        assert!(took <= WINDOW + 3 * TRIP, "{took} us");
        assert_eq!(counts(&world, 0).fetches, before.fetches + 1);
        no_catch_up_since(&world, 0, before);
    }
}

#[test]
fn f8_the_last_message_before_silence_is_missed_within_a_heartbeat() {
    let mut world = world(quick(), Delivery::Broadcast, 1, 1);
    let before = counts(&world, 0);
    lose(&mut world, "tail");
    let took = settle(&mut world);
    assert!(took <= HEARTBEAT + WINDOW + 3 * TRIP, "{took} us");
    no_catch_up_since(&world, 0, before);
}

#[test]
fn f9_a_burst_beyond_the_log_costs_one_comparison_of_its_topic() {
    let settings = Settings { log_slices: 8, ..quick() };
    let mut world = world(settings, Delivery::Broadcast, 1, 1);
    world.follow(0, &topic("quiet"));
    settle(&mut world);
    let before = counts(&world, 0);
    for key in 0..50 {
        lose(&mut world, &format!("burst{key}"));
    }
    settle(&mut world);
    let now = counts(&world, 0);
    assert_eq!((now.deltas, now.snapshots), (before.deltas + 1, before.snapshots));
}

#[test]
fn f9_a_second_comparison_waits_for_its_time() {
    const INTERVAL: u64 = 5_000_000;
    let interval = Duration::from_micros(INTERVAL);
    let settings =
        Settings { log_slices: 8, snapshot_interval: interval, snapshot_interval_cap: interval, ..quick() };
    let mut world = world(settings, Delivery::Broadcast, 1, 1);
    let before = counts(&world, 0);
    for key in 0..20 {
        lose(&mut world, &format!("first{key}"));
    }
    settle(&mut world);
    let first = world.now;
    for key in 0..20 {
        lose(&mut world, &format!("second{key}"));
    }
    settle(&mut world);
    let between = world.now - first;
    assert!((INTERVAL - 3 * TRIP..=INTERVAL + 3 * TRIP).contains(&between), "{between} us");
    assert_eq!(counts(&world, 0).deltas, before.deltas + 2);
}

#[test]
fn f10_what_comes_twice_is_applied_once() {
    let mut world = world(quick(), Delivery::Broadcast, 1, 1);
    world.weather.twice = 100;
    let batches = world.subscribers[0].witness.batches;
    for key in 0..10 {
        world.put("a", &format!("twice{key}"));
        world.run_millis(10);
    }
    settle(&mut world);
    assert_eq!(world.subscribers[0].witness.batches, batches + 10);
    assert!(counts(&world, 0).duplicates >= 10);
}

#[test]
fn f11_what_overtakes_within_the_window_costs_nothing() {
    let mut world = world(quick(), Delivery::Broadcast, 1, 1);
    let before = counts(&world, 0);
    world.weather.delay = 40;
    for round in 0..30 {
        if round % 3 == 2 {
            world.delete("same");
        } else {
            world.put("a", "same");
        }
        world.run_millis(3);
    }
    settle(&mut world);
    let now = counts(&world, 0);
    assert!(now.gaps > before.gaps);
    assert_eq!(now.fetches, before.fetches);
    assert!(!world.subscribers[0].witness.view.contains_key(&item("same")), "a deleted item came back");
}

#[test]
fn f12_two_writers_of_one_item_end_the_same_everywhere() {
    let mut world = world(quick(), Delivery::Broadcast, 2, 3);
    world.weather = Weather { delay: 45, ..Weather::default() };
    let (mut read, mut conflicts, mut versions) = (None, 0, Vec::new());
    for _ in 0..20 {
        // Both have read the same: the first one wins, the other one reads again.
        let first = world.put_if("a", "both", read).expect("nobody was faster");
        conflicts += u32::from(world.put_if("a", "both", read).is_none());
        let second = world.put_if("a", "both", Some(first)).expect("it has read again");
        versions.extend([first, second]);
        read = Some(second);
        world.run_millis(2);
    }
    settle(&mut world);
    assert_eq!(conflicts, 20);
    assert!(versions.is_sorted_by(|one, other| one < other), "no two writes have a version in common");
    let last = world.store.life().now(&topic("a"))[&item("both")].clone();
    assert_eq!(Some(last.0), read);
    assert!((0..3).all(|one| world.held(one, &topic("a"))[&item("both")] == last));
}

#[test]
fn f13_what_comes_after_it_was_repaired_is_dropped() {
    let mut world = world(quick(), Delivery::Broadcast, 1, 1);
    world.weather.delay = 400;
    for key in 0..40 {
        world.put("a", &format!("late{}", key % 4));
        world.run_millis(20);
    }
    world.weather.delay = 2;
    settle(&mut world);
    world.run_millis(1000);
    assert!(counts(&world, 0).fetches > 0 && counts(&world, 0).duplicates > 0);
}

#[test]
fn f14_distributors_serve_on_while_the_store_is_away() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.set_store(false);
    world.run_millis(3000);
    let told = world.subscribers[0].told_stale_ms;
    assert!((3000 - HEARTBEAT / 1000 - TRIP / 1000..=3000).contains(&told), "beats say {told} ms");
    let newcomer = world.add_subscriber(&[topic("a")]);
    settle(&mut world);
    assert_eq!(world.held(newcomer, &topic("a")).len(), 20);
    assert_eq!(world.distributors[0].notices.last(), Some(&Notice::SourceLost));
}

#[test]
fn f15_nothing_is_deleted_because_nobody_answers() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.set_store(false);
    world.crash_distributor(0);
    world.run_millis(60_000);
    assert_eq!((world.held(0, &topic("a")).len(), world.subscribers[0].witness.removed), (20, 0));
    assert!(world.subscribers[0].core.as_ref().unwrap().stale_since().is_some());
    // Only the store is back: the subscriber reads it itself.
    world.set_store(true);
    world.put("a", "direct");
    let read = world.run_until(LONG, |world| counts(world, 0).source_reads > 0);
    assert!(read.is_some_and(|took| took <= 4_100_000), "{read:?}");
    assert_eq!(world.held(0, &topic("a")), world.store.life().now(&topic("a")));
}

#[test]
fn f16_a_store_that_lost_writes_is_followed_back_and_told() {
    let mut world = world(quick(), Delivery::Cursors, 2, 1);
    world.put("a", "lost");
    settle(&mut world);
    world.restore_store(1, None);
    world.put("a", "other");
    settle(&mut world);
    let rebased = Report::Rebased { topic: topic("a"), changed: 1 };
    assert!(
        world.subscribers[0]
            .reports
            .iter()
            .any(|(_, report)| *report == rebased || matches!(report, Report::Rebased { changed: 2, .. }))
    );
    assert!(!world.subscribers[0].witness.view.contains_key(&item("lost")));
}

#[test]
fn f17_a_slow_subscriber_delays_nobody_and_loses_nothing() {
    let settings = Settings { lag_slices: 8, ..quick() };
    let mut world = world(settings, Delivery::Cursors, 1, 4);
    world.subscribers[3].slowness = 40;
    let mut slowest = 0;
    for round in 0..300 {
        world.put("a", &format!("hot{}", round % 10));
        let took = world.run_until(Duration::from_millis(50), |world| {
            (0..3).all(|one| world.held(one, &topic("a")) == world.store.life().now(&topic("a")))
        });
        slowest = slowest.max(took.expect("the others are not delayed"));
    }
    assert!(slowest <= TRIP, "{slowest} us");
    assert!(world.held(3, &topic("a")) != world.store.life().now(&topic("a")), "it is behind");
    settle(&mut world);
    assert!(counts(&world, 3).ranges > 0 && counts(&world, 3).snapshots == 1);
    let is_told = |one: usize| world.subscribers[one].heard.contains_key("lagging");
    assert!(is_told(3) && !(0..3).any(is_told), "only who is behind is told so");
}

#[test]
fn f18_whom_the_log_leaves_behind_again_and_again_gets_last_values() {
    // It is slow enough to be left behind, and nobody gives the other one up for that.
    let (log_slices, lag_slices, patience) = (4, 2, Duration::from_secs(30));
    let settings = Settings {
        log_slices,
        lag_slices,
        progress_timeout: patience,
        fetch_timeout: patience,
        peer_timeout: patience,
        ..quick()
    };
    let mut world = world(settings, Delivery::Cursors, 1, 1);
    world.subscribers[0].slowness = 150;
    world.in_flight = 2;
    for round in 0..3000 {
        // Two of them fill the window: what is queued does not hide that the log has gone on.
        world.commit(&[(topic("a"), item(&format!("hot{}", round % 10)), vec![7; 2000])], &[]);
        world.run_millis(10);
    }
    settle(&mut world);
    let now = counts(&world, 0);
    assert!(now.deltas > 3 && now.sessions_lost == 0, "it was left behind: {now:?}");
    // From then on it gets the last value of each item four times a second, and no slice of its own.
    world.subscribers[0].slowness = 0;
    let heard = |world: &World, name| world.subscribers[0].heard.get(name).copied().unwrap_or(0);
    let before = (heard(&world, "txn"), heard(&world, "range"));
    for _ in 0..50 {
        world.put("a", "hot");
        world.run_millis(100);
    }
    let (slices, ranges) = (heard(&world, "txn") - before.0, heard(&world, "range") - before.1);
    assert!(
        slices == 0 && (10..=21).contains(&ranges),
        "{slices} slices, {ranges} stretches in five seconds"
    );
    let took = settle(&mut world);
    assert!(took <= 250_000 + TRIP, "{took} us");
}

#[test]
fn f19_a_subscriber_that_takes_nothing_is_let_go() {
    let mut world = world(quick(), Delivery::Cursors, 1, 2);
    world.set_cut(1, 0, true);
    world.subscribers[1].suspended = true;
    world.run_millis(61_000);
    let publisher = world.distributors[0].core.as_ref().unwrap().published();
    assert_eq!((publisher.sessions(), publisher.counts().stalled), (1, 1));
    assert_eq!(counts(&world, 0).sessions_lost, 0);
}

#[test]
fn f19_a_subscriber_whose_frames_are_not_taken_is_let_go_sooner() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.subscribers[0].suspended = true;
    world.in_flight = 0;
    world.put("a", "stuck");
    let publisher = |world: &World| world.distributors[0].core.as_ref().unwrap().published().counts();
    let took = world.run_until(LONG, |world| publisher(world).stalled == 1);
    assert!(took.is_some_and(|took| took <= 10_000_000 + HEARTBEAT + TRIP), "{took:?}");
}

#[test]
fn f20_a_partition_keeps_everything_and_heals_by_resuming() {
    let settings =
        Settings { stale_action: StaleAction::Fence, fence_after: Duration::from_secs(10), ..quick() };
    let mut world = world(settings, Delivery::Cursors, 2, 1);
    world.subscribers[0].source_reachable = false;
    let before = counts(&world, 0);
    world.set_cut(0, 0, true);
    world.set_cut(0, 1, true);
    world.put("a", "meanwhile");
    let noticed =
        world.run_until(LONG, |world| world.subscribers[0].core.as_ref().unwrap().stale_since().is_some());
    assert!(noticed.is_some_and(|took| took <= DEAD + TRIP), "{noticed:?}");
    world.run_millis(15_000);
    assert_eq!(world.subscribers[0].witness.removed, 0);
    assert_eq!(
        world.subscribers[0].reports.iter().filter(|(_, report)| *report == Report::Fenced).count(),
        1
    );
    world.cut.clear();
    settle(&mut world);
    no_catch_up_since(&world, 0, before);
}

#[test]
fn f21_a_fresher_distributor_is_preferred() {
    let mut world = world(quick(), Delivery::Cursors, 2, 1);
    let stale = at(&world, 0);
    world.set_source(stale, false);
    world.run_millis(10);
    world.put("a", "elsewhere");
    let took = settle(&mut world);
    assert!(took <= 1_000_000 + 2 * HEARTBEAT + 200_000, "{took} us");
    assert_ne!(at(&world, 0), stale);
}

#[test]
fn f21_where_nobody_is_fresher_nobody_is_left() {
    let mut world = world(quick(), Delivery::Cursors, 2, 1);
    let before = counts(&world, 0);
    world.set_store(false);
    world.run_millis(25_000);
    // It has looked at the other one, which is no better, and stays there.
    let lost = counts(&world, 0).sessions_lost - before.sessions_lost;
    assert!(lost <= 2, "{lost} sessions were given up");
    assert_eq!(world.subscribers[0].core.as_ref().unwrap().stale_since(), None);
    world.set_store(true);
    world.put("a", "again");
    settle(&mut world);
    no_catch_up_since(&world, 0, before);
}

#[test]
fn f22_distributors_that_never_met_cannot_disagree() {
    let mut world = world(quick(), Delivery::Broadcast, 3, 3);
    let before: Vec<SubscriberCounts> = (0..3).map(|one| counts(&world, one)).collect();
    // One of them is cut off from the store, and each subscriber from the other two at some time.
    world.subscribers.iter_mut().for_each(|one| one.source_reachable = false);
    world.set_source(1, false);
    for key in 0..12 {
        let reached = key % 3;
        (0..3).for_each(|one| (0..3).for_each(|other| world.set_cut(one, other, other != reached)));
        world.put("a", &format!("split{key}"));
        world.run_millis(1000);
        assert_eq!(world.broken, None);
    }
    world.cut.clear();
    world.set_source(1, true);
    settle(&mut world);
    world.run_millis(1000);
    for (one, before) in before.into_iter().enumerate() {
        assert_eq!(counts(&world, one).mismatches, 0);
        no_catch_up_since(&world, one, before);
    }
    let digest = |one: usize| {
        let publisher = world.distributors[one].core.as_ref().unwrap().published();
        (publisher.log_id(), publisher.head(), publisher.view(&topic("a")).map(|view| view.digest()))
    };
    assert!((1..3).all(|one| digest(one) == digest(0)), "what they serve is the same");
}

#[test]
fn f23_two_stores_are_two_logs_and_never_mix() {
    let mut world = world(quick(), Delivery::Cursors, 2, 1);
    let first = at(&world, 0);
    world.set_source(1 - first, false);
    world.restore_store(5, None);
    world.put("a", "second life");
    world.run_millis(300);
    // To the one that still serves the first life, and back: every step is checked against the right life.
    world.crash_distributor(first);
    world.run_millis(3000);
    world.start_distributor(first);
    world.set_source(1 - first, true);
    settle(&mut world);
    assert!(counts(&world, 0).rebases >= 1);
}

#[test]
fn f24_a_lost_poke_costs_one_poll() {
    let mut world = World::new(quick(), Delivery::Cursors, 3);
    world.tail = Tail::Poll;
    world.add_distributor();
    world.add_subscriber(&[topic("a")]);
    settle(&mut world);
    world.run_millis(50);
    world.put("a", "unpoked");
    let took = settle(&mut world);
    assert!(took <= 100_000 + TRIP, "{took} us");
    world.run_millis(20);
    world.put("a", "poked");
    world.poke(0);
    let took = settle(&mut world);
    assert!(took <= TRIP / 2, "{took} us");
}

fn row(id: &str, beat: u64) -> Row {
    Row { id: id.to_owned(), instance: 1, uri: format!("tcp://{id}"), log: LogId(1), head: 1, beat }
}

/// What a discovery asks for now, without the listing.
fn asked(discovery: &mut Discovery) -> Vec<TableRequest> {
    std::iter::from_fn(|| discovery.request()).filter(|request| *request != TableRequest::List).collect()
}

/// A table of one row, as a store keeps it.
#[derive(Default)]
struct Table {
    row: Option<(Row, u64)>,
    writes: u64,
}

impl Table {
    /// Lets a participant do what is due.
    fn turn(&mut self, discovery: &mut Discovery, now: Moment) {
        discovery.advance(now);
        while let Some(request) = discovery.request() {
            match request {
                TableRequest::List => discovery.listed(self.row.iter().cloned().collect(), now),
                TableRequest::Put { row, expected } => {
                    let is_expected = self.row.as_ref().map(|(_, version)| *version) == expected;
                    if is_expected {
                        self.writes += 1;
                        self.row = Some((row, self.writes));
                    }
                    discovery.written(is_expected.then_some(self.writes));
                }
                TableRequest::Delete { expected, .. } => {
                    self.row.take_if(|(_, version)| *version == expected);
                }
            }
        }
    }

    fn holder(&self) -> Option<u128> {
        self.row.as_ref().map(|(row, _)| row.instance)
    }
}

#[test]
fn f25_of_two_distributors_with_one_name_the_second_is_told_and_takes_nothing() {
    let settings = Settings::default();
    let begin = Moment::from_millis(0);
    let claim = |instance, uri: &str| Some(Row { instance, uri: uri.to_owned(), ..row("host", 0) });
    let mut table = Table::default();
    let mut first = Discovery::new(settings.clone(), claim(1, "tcp://host:1"), begin);
    let mut second = Discovery::new(settings.clone(), claim(2, "tcp://host:2"), begin);
    let mut now = begin;
    for _ in 0..20 {
        table.turn(&mut first, now);
        table.turn(&mut second, now);
        assert_eq!(table.holder(), Some(1));
        now = now.after(settings.lease_renewal);
    }
    assert_eq!(first.neighbour(), None);
    assert_eq!(second.neighbour(), Some(Neighbour::Namesake("tcp://host:1".to_owned())));
    // The first one dies: its name is free after a lease, and not before.
    let died = now;
    while table.holder() == Some(1) && now.since(died) <= settings.lease + 2 * settings.lease_renewal {
        table.turn(&mut second, now);
        now = now.after(settings.lease_renewal);
    }
    assert_eq!(table.holder(), Some(2));
    assert!(now.since(died) >= settings.lease);
}

#[test]
fn f26_clocks_of_others_decide_nothing() {
    // The observer's clock is an hour off and runs a fifth slow; only its own spans count.
    let begin = Moment::from_millis(3_600_000);
    let mut observer = Discovery::new(Settings::default(), Some(row("me", 0)), begin);
    let mut now = begin;
    for beat in 0..100 {
        now = now.after(Duration::from_secs(6));
        observer.advance(now);
        observer.listed(vec![(row("idle", beat), beat)], now);
        let deletes =
            asked(&mut observer).iter().any(|request| matches!(request, TableRequest::Delete { .. }));
        assert!(!deletes, "a live distributor was removed");
    }
    for _ in 0..6 {
        now = now.after(Duration::from_secs(5));
        observer.listed(vec![(row("idle", 99), 99)], now);
    }
    let delete = TableRequest::Delete { id: "idle".to_owned(), expected: 99 };
    assert!(asked(&mut observer).contains(&delete), "a dead one is removed after lease and grace");
}

#[test]
fn f27_a_renewal_that_races_the_removal_survives() {
    let begin = Moment::from_millis(0);
    let mut observer = Discovery::new(Settings::default(), Some(row("me", 0)), begin);
    let late = begin.after(Duration::from_secs(31));
    observer.listed(vec![(row("other", 1), 10)], begin);
    observer.listed(vec![(row("other", 1), 10)], late);
    let Some(TableRequest::Delete { expected, .. }) = asked(&mut observer).pop() else {
        panic!("no removal")
    };
    // Meanwhile it renewed: the version is another one, and the removal finds nothing to remove.
    assert_eq!(expected, 10);
    observer.listed(vec![(row("other", 2), 11)], late);
    assert_eq!(asked(&mut observer), []);
    // A row that is gone is known by its address.
    std::iter::from_fn(|| observer.neighbour()).for_each(drop);
    observer.listed(Vec::new(), late);
    assert_eq!(observer.neighbour(), Some(Neighbour::Disappeared("tcp://other".to_owned())));
}

#[test]
fn f28_a_garbled_message_costs_one_fetch_and_a_second_is_told() {
    let mut world = world(quick(), Delivery::Broadcast, 1, 2);
    let before = counts(&world, 0);
    world.subscribers[0].garble = 1;
    world.put("a", "garbled");
    settle(&mut world);
    no_catch_up_since(&world, 0, before);
    assert_eq!((counts(&world, 0).garbled, counts(&world, 1).gaps), (1, 0));
    // The answer is rubbish, too: the publisher is told, and digests are compared instead.
    lose(&mut world, "garbled again");
    let fetches = counts(&world, 0).fetches;
    let asked = world.run_until(LONG, |world| counts(world, 0).fetches > fetches);
    assert!(asked.is_some());
    world.subscribers[0].garble = 1;
    settle(&mut world);
    assert_eq!((counts(&world, 0).garbled, world.subscribers[0].sent["nack"]), (2, 1));
    let publisher = world.distributors[0].core.as_ref().unwrap().published();
    assert!(publisher.refusals().any(|refusal| refusal.topic == topic("a")));
    assert_eq!(
        (counts(&world, 0).deltas, counts(&world, 0).snapshots),
        (before.deltas + 1, before.snapshots)
    );
    assert_eq!(counts(&world, 1).garbled, 0);
}

#[test]
fn f29_what_a_consumer_cannot_use_blocks_nothing_and_is_shown_again() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.put("a", "bad");
    settle(&mut world);
    world.refuse(0, &topic("a"), &item("bad"));
    world.run_millis(10);
    let publisher = world.distributors[0].core.as_ref().unwrap().published();
    assert_eq!(publisher.refusals().last().unwrap().item, "t/bad");
    world.put("a", "good");
    assert!(settle(&mut world) <= TRIP);
    let repeated = world.subscribers[0].witness.repeated;
    world.run_millis(1100);
    assert_eq!(world.subscribers[0].witness.repeated, repeated + 1);
}

#[test]
fn f30_following_and_unfollowing_in_any_haste_ends_right() {
    for delivery in [Delivery::Cursors, Delivery::Broadcast] {
        let mut world = world(quick(), delivery, 2, 1);
        for round in 0..40 {
            world.put("a", &format!("haste{}", round % 5));
            world.unfollow(0, &topic("a"));
            world.run_millis(round % 4);
            world.follow(0, &topic("a"));
            world.run_millis(round % 3);
        }
        settle(&mut world);
        // What is still on its way when a topic is dropped is seen by nobody.
        world.put("a", "late");
        world.unfollow(0, &topic("a"));
        let batches = world.subscribers[0].witness.batches;
        world.put("a", "later");
        world.run_millis(1000);
        assert_eq!(world.subscribers[0].witness.batches, batches);
    }
}

#[test]
fn f31_an_item_that_changes_its_topic_is_never_lost_or_doubled() {
    let mut world = world(quick(), Delivery::Broadcast, 2, 1);
    world.follow(0, &topic("b"));
    settle(&mut world);
    world.weather = Weather { loss: 20, twice: 10, delay: 40, hostile: 0 };
    for round in 0..40 {
        world.put(if round % 2 == 0 { "b" } else { "a" }, "mover");
        world.run_millis(15);
    }
    world.weather = Weather { delay: 2, ..Weather::default() };
    settle(&mut world);
    assert!(world.subscribers[0].witness.view.contains_key(&item("mover")));
    assert!(!world.held(0, &topic("b")).contains_key(&item("mover")));
}

#[test]
fn f32_a_herd_resumes_from_memory_without_the_store() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    // A snapshot of several frames, which go out one at a time.
    for key in ["large1", "large2", "large3"] {
        world.commit(&[(topic("a"), item(key), vec![7; 70_000])], &[]);
    }
    world.in_flight = 1;
    for _ in 1..60 {
        world.add_subscriber(&[topic("a")]);
    }
    // Looked at only once in a while: a look at sixty subscribers costs something.
    let is_calm = (0..20).any(|_| {
        world.run_millis(500);
        world.is_settled()
    });
    assert!(is_calm && world.broken.is_none(), "{:?} {}", world.broken, world.unsettled());
    let publisher = |world: &World| world.distributors[0].core.as_ref().unwrap().published().counts();
    assert!(publisher(&world).busy > 0, "at most eight snapshots at a time");
    world.crash_distributor(0);
    world.run_millis(100);
    let reads = world.store.reads;
    world.hellos.clear();
    world.start_distributor(0);
    world.run_millis(2500);
    assert!(world.is_settled() && world.broken.is_none(), "{:?} {}", world.broken, world.unsettled());
    assert_eq!((world.store.reads, publisher(&world).snapshots), (reads + 1, 0));
    // They come back one after the other, as the dice say, and not all at once.
    world.hellos.sort_unstable();
    let crowd = world
        .hellos
        .iter()
        .map(|at| world.hellos.iter().filter(|one| (*at..at + 10_000).contains(one)).count());
    let crowd = crowd.max().unwrap_or_default();
    assert!(world.hellos.len() >= 60 && crowd <= 20, "{crowd} of 60 come within 10 ms");
}

#[test]
fn f33_a_watch_event_that_the_store_lost_is_found_by_the_audit() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    world.distributors[0].lost_commits = 1;
    world.put("a", "unheard");
    world.run_millis(10);
    assert!(!world.held(0, &topic("a")).contains_key(&item("unheard")));
    // Audits come every 4 to 6 s here.
    let took = settle(&mut world);
    assert!(took <= 6_000_000 + HEARTBEAT + 3 * TRIP, "{took} us");
    assert!(world.distributors[0].notices.iter().any(|notice| matches!(notice, Notice::Differed { .. })));
    assert_eq!(counts(&world, 0).snapshots, 1);
}

#[test]
fn f34_a_machine_that_slept_resumes() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    let before = counts(&world, 0);
    world.subscribers[0].suspended = true;
    world.run_millis(600_000);
    world.put("a", "while asleep");
    world.subscribers[0].suspended = false;
    let took = settle(&mut world);
    assert!(took <= 5_300_000, "{took} us");
    assert_eq!((counts(&world, 0).snapshots, counts(&world, 0).deltas), (before.snapshots, before.deltas));
}

#[test]
fn f35_numbers_that_start_again_stick_nowhere() {
    let mut world = world(quick(), Delivery::Cursors, 1, 1);
    for _ in 0..10 {
        world.put("a", "counter");
    }
    settle(&mut world);
    // The same name, and lower numbers: only the distributor can tell.
    let same = world.store.log;
    world.restore_store(8, Some(same));
    settle(&mut world);
    assert!(world.distributors[0].notices.iter().any(|notice| matches!(notice, Notice::WentBack { .. })));
    world.put("a", "counter");
    settle(&mut world);
}

/// Of several topics under writes, one is ahead when another is complete: that is no reason to begin again.
#[test]
fn topics_that_come_one_after_the_other_under_writes_cost_no_session() {
    for delivery in [Delivery::Cursors, Delivery::Broadcast] {
        let mut world = World::new(quick(), delivery, 7);
        world.add_distributor();
        let names = ["a", "b", "c", "d", "e"];
        for key in 0..500 {
            world.put(names[key % names.len()], &format!("old{key}"));
        }
        world.run_millis(50);
        for _ in 0..4 {
            world.add_subscriber(&names.map(topic));
        }
        for key in 0..300 {
            world.put(names[key % names.len()], &format!("new{key}"));
            world.run_millis(2);
        }
        settle(&mut world);
        for subscriber in 0..4 {
            let counts = counts(&world, subscriber);
            assert_eq!((counts.spoiled, counts.sessions_lost), (0, 0), "{delivery:?} {counts:?}");
        }
    }
}
