//! The two flows in which a northbound creates an interface, with a link of the kernel: through the store, which nobody
//! waits for, and over gRPC, where the client is told how it ended. Each as it goes well, as it goes back, and as a resync.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kilter_agent::desk::{Declaration, Options, Put};
use kilter_api::client::{Client, connect};
use kilter_api::v1::progress::What as Told;
use kilter_api::v1::{self, OnFailure, plan_request};
use kilter_events::{AskedResync, Scope};
use kilter_linux::sandbox;
use kilter_model::document::{Declared, Source, read};
use kilter_scheduler::{Outcome, State};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::house::House;
use crate::served::Served;

const TAP: &str = "linux/link/host/my-tap";
const PATIENCE: Duration = Duration::from_secs(120);

fn tap() -> Value {
    let (mac, addresses) = ("02:00:00:00:00:07", ["10.0.0.1/24"]);
    json!({ "kind": "tap", "name": "my-tap", "mac": mac, "addresses": addresses, "addr-gen-mode": "none" })
}

/// Something that the kernel refuses, after everything else.
fn wrong() -> Value {
    json!({ "kind": "nftables", "name": "broken", "text": "chain c { nonsense }" })
}

fn declaration(items: &[Value]) -> Declaration {
    let text: Vec<String> = items.iter().map(Value::to_string).collect();
    let declared = read(&[Source::new("test.yaml", text.join("\n---\n"))]).unwrap();
    let put = |one: Declared| Put { key: one.key, value: one.value, place: None };
    Declaration::patch("client", declared.into_iter().map(put).collect())
}

/// A command in the namespace of the test.
fn sh(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "`{line}`: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Links, addresses and tables, as the kernel shows them; a link that is made again has another number, and what its
/// carrier is settles after a while.
fn seen() -> String {
    let link = |line: &str| line.split_whitespace().step_by(2).take(2).collect::<Vec<_>>().join(" ");
    let address = |line: &str| line.split_once(": ").map_or(line, |(_, rest)| rest).to_owned();
    let mut lines: Vec<String> = sh("ip -br link").lines().map(link).collect();
    lines.extend(sh("ip -4 -o addr").lines().map(address));
    lines.extend(sh("nft list ruleset").lines().map(str::to_owned));
    lines.sort();
    lines.join("\n")
}

fn is_there() -> bool {
    sh("ip -4 -o addr").contains("my-tap    inet 10.0.0.1/24")
}

/// A network namespace of the test's thread, and folders for what is kept.
struct Ground {
    state: TempDir,
    names: TempDir,
}

impl Ground {
    /// For the test of this name. Who may not have a network runs the test once more where it may: then there is none here.
    fn fresh(test: &str) -> Option<Self> {
        if !sandbox::may_act() {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--net", "--mount"]);
            command.arg(std::env::current_exe().unwrap()).args(["--exact", &format!("kernel::{test}")]);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return None;
        }
        sandbox::enter_fresh_namespace().unwrap();
        Some(Self { state: tempdir().unwrap(), names: tempdir().unwrap() })
    }

    fn names(&self) -> &Path {
        self.names.path()
    }

    /// An agent that keeps what is declared.
    async fn agent(&self) -> House {
        let house = House::real(self.names(), Some(self.state.path()));
        house.desk.settled(PATIENCE).await.unwrap();
        house
    }
}

#[tokio::test]
async fn create_a_link_through_the_store() {
    let Some(ground) = Ground::fresh("create_a_link_through_the_store") else { return };
    let house = ground.agent().await;
    let before = seen();
    let applied = house.desk.apply(declaration(&[tap()]), Options::default()).await.ended().await.unwrap();
    assert_eq!(applied.record.unwrap().outcome, Outcome::Applied);
    assert!(is_there(), "{}", seen());
    // Nobody is there when it is lost; what the store holds is declared and made again.
    house.crash().await;
    sh("ip link del my-tap");
    assert_eq!(seen(), before);
    let house = ground.agent().await;
    assert_eq!(house.state(TAP).await, State::Configured);
    assert!(is_there(), "{}", seen());
    house.end().await;
}

#[tokio::test]
async fn what_the_store_refused_leaves_nothing_and_is_not_made_later() {
    let Some(ground) = Ground::fresh("what_the_store_refused_leaves_nothing_and_is_not_made_later") else {
        return;
    };
    let house = ground.agent().await;
    let before = seen();
    let applied = house.desk.apply(declaration(&[tap(), wrong()]), Options::default()).await;
    let record = applied.ended().await.unwrap().record.unwrap();
    let Outcome::Reverted(cause) = &record.outcome else { panic!("{record:?}") };
    assert_eq!(cause.key.as_str(), "linux/nftables/host/inet/broken");
    assert_eq!(seen(), before, "what was made goes back");
    house.crash().await;
    let house = ground.agent().await;
    assert_eq!(house.state(TAP).await, State::Nonexistent);
    assert_eq!(seen(), before);
    house.end().await;
}

#[tokio::test]
async fn a_resync_makes_what_the_store_holds_again_and_a_second_one_nothing() {
    let Some(ground) = Ground::fresh("a_resync_makes_what_the_store_holds_again_and_a_second_one_nothing")
    else {
        return;
    };
    let house = ground.agent().await;
    house.desk.apply(declaration(&[tap()]), Options::default()).await.ended().await.unwrap();
    let made = seen();
    for harm in ["ip link del my-tap", "ip addr del 10.0.0.1/24 dev my-tap"] {
        sh(harm);
        assert!(!is_there());
        let asked =
            AskedResync { scope: Scope::Full, prune: false, retry: false, description: String::new() };
        let record = house.desk.resync(asked.clone()).await.ended().await.unwrap().record.unwrap();
        assert_eq!(record.outcome, Outcome::Applied, "{record:?}");
        assert_eq!(seen(), made, "{harm}");
        let record = house.desk.resync(asked).await.ended().await.unwrap().record.unwrap();
        assert!(record.steps().iter().all(|step| step.is_quiet()), "{record:?}");
    }
    house.end().await;
}

/// An agent over the kernel that is reached over its socket.
struct Reached {
    served: Served,
    client: Client,
}

impl Reached {
    async fn over(ground: &Ground) -> Self {
        let served = Served::over(ground.agent().await);
        let client = connect(&served.folder.path().join("kilter.sock")).await.unwrap();
        Self { served, client }
    }

    /// Applies items: how it ended.
    async fn apply(&self, items: &[Value], on_failure: OnFailure) -> v1::Ended {
        let items = items.iter().map(|item| v1::DeclaredItem {
            kind: item["kind"].as_str().unwrap().to_owned(),
            value: item.to_string(),
            ..v1::DeclaredItem::default()
        });
        let declaration = v1::Declaration {
            source: "client".to_owned(),
            items: items.collect(),
            everything: true,
            ..v1::Declaration::default()
        };
        let what = Some(plan_request::What::Declaration(declaration));
        let request = Some(v1::PlanRequest { what, on_failure: on_failure.into() });
        let request = v1::ApplyRequest { request, ..v1::ApplyRequest::default() };
        let mut telling = self.client.clone().apply(request).await.unwrap().into_inner();
        let mut last = None;
        while let Some(progress) = telling.message().await.unwrap() {
            last = progress.what.or(last);
        }
        let Some(Told::Ended(ended)) = last else { panic!("the end comes last: {last:?}") };
        ended
    }
}

#[tokio::test]
async fn create_a_link_over_grpc_and_be_told_how_it_ended() {
    let Some(ground) = Ground::fresh("create_a_link_over_grpc_and_be_told_how_it_ended") else { return };
    let reached = Reached::over(&ground).await;
    let before = seen();
    let ended = reached.apply(&[tap()], OnFailure::Revert).await;
    assert_eq!(ended.transaction.unwrap().outcome(), v1::Outcome::Applied);
    assert!(
        ended.statuses.iter().all(|status| status.state() == v1::State::Configured),
        "{:?}",
        ended.statuses
    );
    assert!(is_there(), "{}", seen());
    let ended = reached.apply(&[], OnFailure::Revert).await;
    assert_eq!(ended.transaction.unwrap().outcome(), v1::Outcome::Applied);
    assert_eq!(seen(), before);
    reached.served.end().await;
}

#[tokio::test]
async fn the_error_of_a_link_over_grpc_is_the_clients_and_nothing_stays() {
    let Some(ground) = Ground::fresh("the_error_of_a_link_over_grpc_is_the_clients_and_nothing_stays") else {
        return;
    };
    let reached = Reached::over(&ground).await;
    let before = seen();
    let ended = reached.apply(&[tap(), wrong()], OnFailure::Revert).await;
    let transaction = ended.transaction.unwrap();
    assert_eq!(transaction.outcome(), v1::Outcome::Reverted);
    let cause = transaction.cause.unwrap();
    assert_eq!(cause.key, "linux/nftables/host/inet/broken");
    assert!(cause.error.contains("syntax error"), "{}", cause.error);
    assert_eq!(seen(), before);
    // Best effort, what went well stays.
    let ended = reached.apply(&[tap(), wrong()], OnFailure::Continue).await;
    assert_eq!(ended.transaction.unwrap().outcome(), v1::Outcome::Incomplete);
    assert!(is_there(), "{}", seen());
    reached.served.end().await;
}

#[tokio::test]
async fn a_resync_over_grpc_brings_a_link_back() {
    let Some(ground) = Ground::fresh("a_resync_over_grpc_brings_a_link_back") else { return };
    let reached = Reached::over(&ground).await;
    reached.apply(&[tap()], OnFailure::Revert).await;
    let made = seen();
    sh("ip link del my-tap");
    let request = v1::ResyncRequest { scope: v1::Scope::Full.into(), ..v1::ResyncRequest::default() };
    let mut telling = reached.client.clone().resync(request).await.unwrap().into_inner();
    while telling.message().await.unwrap().is_some() {}
    assert_eq!(seen(), made);
    reached.served.end().await;
}
