//! A world with a controller in it, and what a test wants to know about both.

use std::sync::Arc;
use std::time::Duration;

use kilter_eventflow::condition::FlowStatus;
use kilter_eventflow::mirror::Shared;
use kilter_eventflow::object::Resource;
use kilter_eventflow::{Controller, Settings, names};
use kilter_southbound::Clock as _;

use crate::world::{TestClock, World, flow, flow_content};

/// A world with a controller in it.
pub(crate) struct House {
    pub(crate) world: World,
    pub(crate) mirror: Shared,
    pub(crate) clock: TestClock,
    pub(crate) controller: Controller,
    settings: Settings,
}

impl House {
    pub(crate) fn new(world: World) -> Self {
        Self::with(world, Settings::default())
    }

    pub(crate) fn with(world: World, settings: Settings) -> Self {
        let clock = TestClock::default();
        let (mirror, controller) = start(&world, &clock, &settings);
        Self { world, mirror, clock, controller, settings }
    }

    /// A house over `shop` with Knative, Istio and the source `crm`.
    pub(crate) fn shop() -> Self {
        let world = World::with(&["shop"]);
        world.source("crm");
        Self::new(world)
    }

    pub(crate) fn create_flow(&self, name: &str, source: &str) {
        self.world.put(Resource::EventFlow, flow_content("shop", name, source));
    }

    /// A new controller takes over: it knows nothing but what is there.
    pub(crate) fn restart(&mut self) {
        self.world.die_after(None);
        (self.mirror, self.controller) = start(&self.world, &self.clock, &self.settings);
    }

    /// A new controller takes over, with other settings.
    pub(crate) fn restart_with(&mut self, settings: Settings) {
        self.settings = settings;
        self.restart();
    }

    /// Lets everybody act until nothing moves any more, or the controller is dead.
    pub(crate) async fn play(&mut self) {
        for _ in 0..100 {
            if !self.step().await {
                return;
            }
            let acted = self.world.knative();
            if !self.world.watch(&self.mirror) && !acted && !self.mirror.lock().has_changed() {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Lets only the controller act; whether it lives.
    pub(crate) async fn step(&mut self) -> bool {
        self.world.watch(&self.mirror);
        let settled = tokio::time::timeout(Duration::from_secs(5), async {
            self.controller.settle().await.expect("the loop goes on");
            self.controller.write_statuses().await;
        });
        let lives = settled.await.is_ok();
        assert!(lives || self.world.is_dead(), "the controller hangs");
        lives
    }

    /// Lets time pass: everything that is due is done.
    pub(crate) async fn pass(&mut self, span: Duration) {
        let end = self.clock.now().after(span);
        for _ in 0..1000 {
            match self.controller.settle().await.expect("the loop goes on") {
                Some(deadline) if deadline <= end => self.clock.advance_to(deadline),
                _ => break,
            }
        }
        self.clock.advance_to(end);
        self.play().await;
    }

    pub(crate) fn status(&self, name: &str) -> FlowStatus {
        let flow = self.world.get(&flow("shop", name)).expect("the flow exists");
        serde_json::from_value(flow.json()["status"].clone()).expect("the flow has a status")
    }

    /// Status and reason of a condition, in one text.
    pub(crate) fn says(&self, name: &str, condition: &str) -> String {
        let status = self.status(name);
        let found = status.condition(condition).expect("the condition is there");
        format!("{:?} {}", found.status, found.reason).trim().to_owned()
    }

    pub(crate) fn is_finalized(&self, name: &str) -> bool {
        let flow = self.world.get(&flow("shop", name));
        flow.is_some_and(|flow| flow.finalizers().contains(names::FINALIZER))
    }
}

fn start(world: &World, clock: &TestClock, settings: &Settings) -> (Shared, Controller) {
    let mirror = Shared::default();
    world.list(&mirror);
    let (api, time) = (Arc::new(world.clone()), Arc::new(clock.clone()));
    let counts = Arc::default();
    let controller =
        Controller::new(settings.clone(), api, mirror.clone(), time, counts).expect("it is made");
    (mirror, controller)
}
