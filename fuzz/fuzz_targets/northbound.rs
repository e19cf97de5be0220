//! Any request to a running agent, over REST or to the service: it is carried out or refused as is promised, and the
//! agent goes on.
#![no_main]

#[path = "northbound/ask.rs"]
mod ask;
#[path = "../../crates/agent/tests/agent/house.rs"]
#[allow(dead_code, reason = "the tests of the agent use more of it")]
mod house;

use std::cell::RefCell;
use std::time::Duration;

use axum::Router;
use house::House;
use kilter_agent::northbound::door::{AccessSettings, Role, TokenRule};
use kilter_agent::northbound::{self, Settings};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

/// An agent is asked this often before another one takes its place: what it was told would fill it.
const ROUNDS: u32 = 2000;

/// How long an answer may take before it counts as one that waits for something.
const PATIENCE: Duration = Duration::from_millis(200);

const TOKEN: &str = "token";

struct Lab {
    runtime: Runtime,
    house: House,
    router: Router,
    asked: u32,
}

impl Lab {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        let blake3 = blake3::hash(TOKEN.as_bytes()).to_string();
        // An admin may run commands of this machine, which is not for a fuzzer.
        let tokens = vec![TokenRule { name: "fuzzer".to_owned(), role: Role::Operator, blake3 }];
        let access = AccessSettings { tokens, ..AccessSettings::default() };
        let settings = Settings { access, ..Settings::default() };
        let door = northbound::door(&settings).expect("the token is given by its hash");
        let (house, router) = runtime.block_on(async {
            let house = House::start();
            house.apply("site", &["a/1 v=1", "b/1 on=a/1"]).await.expect("it can be applied");
            let router = northbound::router(door, None, settings.limits, house.desk.clone()).await;
            (house, router.expect("the service can be described"))
        });
        Self { runtime, house, router, asked: 0 }
    }

    fn ask(&mut self, bytes: &[u8]) {
        self.asked += 1;
        self.runtime.block_on(ask::ask(&self.router, TOKEN, bytes, PATIENCE));
        let ping = self.runtime.block_on(self.house.desk.inquire(|_| ()));
        assert!(ping.is_ok(), "the agent has ended");
    }
}

thread_local! {
    static LAB: RefCell<Option<Lab>> = const { RefCell::new(None) };
}

fuzz_target!(|bytes: &[u8]| {
    LAB.with_borrow_mut(|lab| {
        if lab.as_ref().is_some_and(|lab| lab.asked >= ROUNDS) {
            *lab = None;
        }
        lab.get_or_insert_with(Lab::start).ask(bytes);
    });
});
