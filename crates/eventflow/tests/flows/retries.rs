//! When what failed is tried again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_eventflow::mirror::Shared;
use kilter_eventflow::object::Resource;
use kilter_eventflow::request::{Api, Rejected, Request, Sent};
use kilter_eventflow::{Controller, Settings, names};
use kilter_southbound::{BoxFuture, Clock as _};
use tokio::time::Instant;

use crate::house::House;
use crate::world::{TestClock, World, broker, flow, flow_content};

/// A cluster that takes nothing.
struct Down;

impl Api for Down {
    fn send(&self, _request: Request) -> BoxFuture<'_, Result<Sent, Rejected>> {
        let rejected = Rejected { code: 503, reason: "ServiceUnavailable".to_owned(), ..Rejected::default() };
        Box::pin(async move { Err(rejected) })
    }
}

/// How long after each failure a write is tried again.
async fn delays(seed: u64) -> Vec<Duration> {
    let (world, clock, mirror) = (World::with(&["shop"]), TestClock::default(), Shared::default());
    world.put(Resource::EventFlow, flow_content("shop", "f1", "crm"));
    world.list(&mirror);
    let settings = Settings { seed, ..Settings::default() };
    let time = Arc::new(clock.clone());
    let mut controller = Controller::new(settings, Arc::new(Down), mirror, time, Arc::default()).unwrap();
    let mut delays = Vec::new();
    // Healing comes between later ones.
    for _ in 0..2 {
        let due = controller.settle().await.unwrap().expect("a retry is planned");
        delays.push(due.since(clock.now()));
        clock.advance_to(due);
    }
    delays
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_down_is_tried_ever_more_slowly_and_by_each_program_at_another_time() {
    let (one, other) = (delays(1).await, delays(2).await);
    for (at, (one, other)) in one.iter().zip(&other).enumerate() {
        let least = Duration::from_secs(1 << at);
        for delay in [one, other] {
            assert!((least..=least + least / 4).contains(delay), "{at}: {delay:?}");
        }
        assert_ne!(one, other, "{at}");
    }
    assert_eq!(one, delays(1).await, "the same seed gives the same times");
}

/// What follows from one rejection.
struct Case {
    name: &'static str,
    rejected: Rejected,
    /// How often it is tried at once, and in ten minutes, at least and at most.
    at_once: usize,
    tries: (usize, usize),
    says: &'static str,
    /// The Event that calls somebody.
    calls: Option<&'static str>,
}

fn rejection(code: u16, reason: &str, cause: Option<&str>, after: Option<u64>) -> Rejected {
    Rejected {
        code,
        reason: reason.to_owned(),
        message: "no".to_owned(),
        causes: cause.into_iter().map(str::to_owned).collect(),
        retry_after: after.map(Duration::from_secs),
    }
}

fn cases() -> Vec<Case> {
    let case =
        |name, rejected, at_once, tries, says, calls| Case { name, rejected, at_once, tries, says, calls };
    let retrying = "False Retrying";
    vec![
        case("transient", rejection(503, "Unavailable", None, None), 1, (8, 40), retrying, None),
        case("no answer", rejection(0, "", None, None), 1, (8, 40), retrying, None),
        case("not installed", rejection(404, "", None, None), 1, (8, 40), retrying, None),
        case("conflict", rejection(409, "Conflict", None, None), 3, (8, 60), retrying, None),
        case("throttled", rejection(429, "TooManyRequests", None, None), 1, (8, 40), retrying, None),
        case(
            "throttled for a moment",
            rejection(429, "TooManyRequests", None, Some(2)),
            2,
            (8, 80),
            retrying,
            None,
        ),
        case(
            "throttled for long",
            rejection(429, "TooManyRequests", None, Some(120)),
            1,
            (3, 6),
            retrying,
            None,
        ),
        case(
            "unauthorised",
            rejection(403, "Forbidden", None, None),
            1,
            (4, 11),
            retrying,
            Some("Unauthorised"),
        ),
        case(
            "contested",
            rejection(409, "Conflict", Some("FieldManagerConflict"), None),
            1,
            (4, 11),
            retrying,
            Some("Contested"),
        ),
        case("invalid", rejection(422, "Invalid", None, None), 1, (1, 2), "False CreateFailed", None),
        case(
            "terminating",
            rejection(403, "Forbidden", Some("NamespaceTerminating"), None),
            1,
            (1, 2),
            "False CreateFailed",
            None,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_class_of_rejection_is_tried_again_at_its_own_pace() {
    let is_policy = |request: &Request| matches!(request, Request::Apply { id, .. } if id.resource == Resource::PeerAuthentication);
    for case in cases() {
        let Case { name, rejected, at_once, tries: (least, most), says, calls } = case;
        let mut house = House::shop();
        house.world.reject(is_policy, rejected.clone());
        house.create_flow("f1", "crm");
        house.play().await;
        let tries = |house: &House| house.world.log().iter().filter(|it| is_policy(it)).count();
        assert_eq!(tries(&house), at_once, "{name}");
        for _ in 0..60 {
            house.pass(Duration::from_secs(10)).await;
        }
        let count = tries(&house);
        assert!((least..=most).contains(&count), "{name} was tried {count} times");
        assert_eq!(house.says("f1", "PolicyReady"), says, "{name}");
        assert_eq!(house.says("f1", "Ready"), "True", "{name} holds up nothing else");
        let told = house.world.announced(&flow("shop", "f1"));
        let called =
            told.iter().filter(|it| calls.is_some_and(|word| it.starts_with(&format!("Warning {word}"))));
        assert_eq!(called.count(), usize::from(calls.is_some()), "{name}: {told:?}");
        house.world.accept();
        house.pass(Duration::from_secs(180)).await;
        let ends = if rejected.class().is_retriable() { "True" } else { says };
        assert_eq!(house.says("f1", "PolicyReady"), ends, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_not_tried_every_few_seconds() {
    for (name, rejected, most) in [
        ("unauthorised", rejection(403, "Forbidden", None, None), 12),
        ("invalid", rejection(422, "Invalid", None, None), 6),
        ("transient", rejection(503, "Unavailable", None, None), 20),
    ] {
        let mut house = House::shop();
        let is_status = |request: &Request| matches!(request, Request::Status { .. });
        house.world.reject(is_status, rejected);
        house.create_flow("f1", "crm");
        house.play().await;
        for _ in 0..600 {
            house.pass(Duration::from_secs(1)).await;
        }
        let count = house.world.log().iter().filter(|it| is_status(it)).count();
        assert!(count <= most, "{name}: {count} in ten minutes");
        house.world.accept();
        house.world.change(&broker("shop"), |it| it["status"]["conditions"][0]["status"] = "False".into());
        house.pass(Duration::from_secs(90)).await;
        assert_eq!(house.says("f1", "SinkReady"), "False NotReady", "{name}: it is written when it may be");
        // Nobody waits for the status of a flow that is gone.
        house.world.reject(is_status, rejection(503, "Unavailable", None, None));
        house.world.delete(&flow("shop", "f1"));
        house.play().await;
        house.pass(Duration::from_secs(90)).await;
        assert!(house.world.get(&flow("shop", "f1")).is_none());
        assert_eq!(house.controller.statuses_due(), None, "{name}");
    }
}

/// A cluster that never answers what is asked about one namespace, and says when it was asked what.
struct Stuck {
    world: World,
    asked: Mutex<Vec<(Instant, Request)>>,
}

impl Api for Stuck {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Sent, Rejected>> {
        self.asked.lock().unwrap().push((Instant::now(), request.clone()));
        if request.id().namespace == "stuck" || request.id().name == "stuck" {
            return Box::pin(std::future::pending());
        }
        self.world.send(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_holds_up_other_namespaces_until_its_deadline_at_most() {
    let (world, clock, mirror) = (World::with(&["stuck", "shop"]), TestClock::default(), Shared::default());
    for namespace in ["stuck", "shop"] {
        world.put(Resource::EventFlow, flow_content(namespace, "f1", "crm"));
    }
    world.list(&mirror);
    let api = Arc::new(Stuck { world: world.clone(), asked: Mutex::default() });
    let time = Arc::new(clock);
    let mut controller =
        Controller::new(Settings::default(), Arc::clone(&api) as _, mirror.clone(), time, Arc::default())
            .unwrap();
    let began = Instant::now();
    let asked_for = |namespace: &str, name: &str| {
        let asked = api.asked.lock().unwrap();
        let is_it = |request: &Request| request.id().namespace == namespace && request.id().name == name;
        asked.iter().find(|(_, request)| is_it(request)).map(|(at, _)| *at - began)
    };
    controller.settle().await.unwrap();
    // In one transaction both namespaces are served side by side.
    assert_eq!(asked_for("stuck", "f1"), Some(Duration::ZERO));
    assert_eq!(asked_for("shop", "f1"), Some(Duration::ZERO));
    assert_eq!(
        asked_for("shop", &names::policy("shop")),
        Some(Duration::ZERO),
        "what follows does not wait either"
    );
    // Whoever comes meanwhile waits for the end of the transaction, which has one.
    world.put(Resource::EventFlow, flow_content("shop", "f2", "crm"));
    world.watch(&mirror);
    controller.settle().await.unwrap();
    let waited = asked_for("shop", "f2").expect("it is served");
    assert!(waited <= Duration::from_secs(30), "{waited:?}");
    assert_eq!(
        asked_for("stuck", &names::policy("stuck")),
        None,
        "nothing is made for a flow that we do not hold"
    );
}
