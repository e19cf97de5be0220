//! The addresses that the published designs name, with their arguments, over a running agent.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kilter_agent::desk::Options;
use kilter_scheduler::{Action, Failure, Key, OnFailure};
use kilter_testkit::hand::Hand;
use kilter_testkit::world::{Effect, Fault, Mishap};
use serde_json::{Value, json};

use crate::house::House;
use crate::http::request;
use crate::served::{OPERATOR, Served};

/// A site with items that are there, one of which was changed, and one that waits.
async fn site() -> Served {
    let served = Served::start().await;
    served.house.apply("cli", &["a/1 v=1", "b/1 on=none/1", "c/1"]).await.unwrap();
    served.house.apply("cli", &["a/1 v=2"]).await.unwrap();
    served
}

fn texts(list: &Value, name: &str) -> Vec<String> {
    let text = |one: &Value| one[name].as_str().map_or_else(|| one[name].to_string(), str::to_owned);
    list.as_array().unwrap().iter().map(text).collect()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[tokio::test]
async fn transactions_and_the_revisions_of_a_key_are_told_by_time() {
    let served = site().await;
    let all = served.get("/scheduler/txn-history").await.json();
    let seq = all.as_array().unwrap().last().unwrap()["summary"]["seq"].as_u64().unwrap();
    let text = served.get(&format!("/scheduler/txn-history?format=text&seq-num={seq}")).await;
    assert!(text.text().contains("a/1"), "{}", text.text());
    assert_eq!(served.get("/scheduler/txn-history?seq-num=999").await.status, 404);
    assert_eq!(served.get("/scheduler/txn-history?format=xml").await.status, 400);
    assert_eq!(served.get("/scheduler/txn-history?until=1").await.json(), json!([]));
    let count = all.as_array().unwrap().len();
    let since = served.get("/scheduler/txn-history?since=1").await.json();
    assert_eq!(since.as_array().unwrap().len(), count);
    let future = now() + 1000.0;
    assert_eq!(served.get(&format!("/scheduler/txn-history?since={future}")).await.json(), json!([]));

    let timeline = served.get("/scheduler/key-timeline?key=a/1").await.json();
    assert_eq!(texts(&timeline, "action"), ["create", "update"]);
    assert_eq!(served.get("/scheduler/key-timeline?key=a/1&time=1").await.json(), json!([]));
    let last = served.get(&format!("/scheduler/key-timeline?key=a/1&time={future}")).await.json();
    assert_eq!(texts(&last, "action"), ["update"], "the one that was so at that moment");
    assert_eq!(last[0]["value"]["v"], "2", "{last}");
    assert_eq!(served.get("/scheduler/key-timeline?key=x/1").await.status, 404);
    let now = served.get("/scheduler/graph-snapshot").await.json();
    assert_eq!(texts(&now["vertices"], "key"), ["a/1", "b/1", "c/1"]);
    let then = served.get(&format!("/scheduler/graph-snapshot?time={future}")).await.json();
    assert_eq!(texts(&then["vertices"], "key"), ["a/1", "b/1", "c/1"]);
    served.end().await;
}

#[tokio::test]
async fn each_view_of_a_dump_shows_what_the_design_says() {
    let served = site().await;
    let index = served.get("/scheduler/dump").await.json();
    assert_eq!(index["Views"], json!(["NB", "SB", "internal", "cached"]));
    let prefixes = index["KeyPrefixes"].as_array().unwrap();
    assert!(!prefixes.is_empty() && prefixes.iter().all(Value::is_string), "{index}");
    let kind = index["Descriptors"][0].as_str().unwrap().to_owned();
    for (view, keys) in [
        ("NB", &["a/1", "b/1", "c/1"][..]),
        ("SB", &["a/1", "c/1"]),
        ("internal", &["a/1", "b/1", "c/1"]),
        ("cached", &["a/1", "c/1"]),
    ] {
        let dumped = served.get(&format!("/scheduler/dump?key-prefix=&view={view}")).await.json();
        assert_eq!(texts(&dumped, "key"), keys, "{view}");
    }
    assert_eq!(texts(&served.get("/scheduler/dump?key-prefix=c/").await.json(), "key"), ["c/1"]);
    assert_eq!(served.get(&format!("/scheduler/dump?descriptor={kind}")).await.status, 200);
    assert_eq!(served.get("/scheduler/dump?descriptor=nobody").await.status, 404);
    assert_eq!(served.get("/scheduler/dump?key-prefix=/no/such").await.status, 404);
    assert_eq!(served.get("/scheduler/dump?key-prefix=a/&view=raw").await.status, 400);
    served.end().await;
}

#[tokio::test]
async fn statuses_are_told_by_key_by_kind_and_by_prefix() {
    let served = site().await;
    assert_eq!(served.get("/scheduler/status?key=b/1").await.json()["state"], "PENDING");
    assert_eq!(served.get("/scheduler/status?key=x/1").await.status, 404);
    assert_eq!(texts(&served.get("/scheduler/status").await.json(), "key"), ["a/1", "b/1", "c/1"]);
    assert_eq!(texts(&served.get("/scheduler/status?key-prefix=b/").await.json(), "key"), ["b/1"]);
    let items = served.get("/api/v1/items/a/1").await.json();
    let kind = items["kind"].as_str().unwrap();
    let of_kind = texts(&served.get(&format!("/scheduler/status?descriptor={kind}")).await.json(), "key");
    assert!(of_kind.contains(&"a/1".to_owned()), "{of_kind:?}");
    assert_eq!(served.get("/scheduler/status?descriptor=nobody").await.json(), json!([]));
    served.end().await;
}

#[tokio::test]
async fn flags_and_operations_are_counted() {
    let served = site().await;
    let mishap = Mishap::Fail { failure: Failure::lasting("no room"), effect: Effect::Before };
    let fault = Fault { action: Action::Create, key: Key::new("d/1"), mishap, times: u32::MAX };
    served.house.hand.world().plan_fault(fault);
    let options = Options { on_failure: OnFailure::Continue, ..Options::default() };
    served.house.apply_with("cli", &["d/1"], options).await.unwrap();
    let mut counted = Vec::new();
    for flag in ["last-update", "error", "value-state", "unavailable", "descriptor", "derived"] {
        let all = served.get(&format!("/scheduler/flag-stats?flag={flag}")).await.json();
        let counts = all["PerValueCount"].as_object().unwrap();
        let total: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(all["TotalCount"], total, "{flag}");
        counted.push((flag, all));
    }
    let of = |flag: &str, word: &str| {
        let (_, all) = counted.iter().find(|(known, _)| *known == flag).unwrap();
        all["PerValueCount"][word].as_u64().unwrap_or_default()
    };
    assert!(of("last-update", "create") >= 2 && of("last-update", "update") == 1, "{counted:?}");
    assert!(of("error", "no room") >= 1 && of("value-state", "PENDING") >= 1, "{counted:?}");
    let some = served.get("/scheduler/flag-stats?flag=value-state&prefix=a/&prefix=b/").await.json();
    assert_eq!((&some["TotalCount"], &some["PerValueCount"]["PENDING"]), (&json!(3), &json!(1)));
    assert_eq!(served.get("/scheduler/flag-stats?flag=colour").await.status, 400);

    let stats = served.get("/scheduler/stats").await.json();
    assert!(stats["vertices"].as_u64().unwrap() >= 3, "{stats}");
    let txns = &stats["TxnStats"];
    assert_eq!(txns["TotalProcessed"], stats["transactions"]["remembered"]);
    assert_eq!(txns["OperationCount"]["UPDATE"], 1, "{stats}");
    assert!(txns["OperationCount"]["CREATE"].as_u64().unwrap() >= 2, "{stats}");
    assert!(txns["ErrorCount"].as_u64().unwrap() >= 1, "{stats}");
    assert!(txns["ValueStateCount"]["CONFIGURED"].as_u64().unwrap() >= 3, "{stats}");

    // How long things took: the parts of transactions, operations by kind, and all of them together.
    let counted = |methods: &Value| -> BTreeMap<String, u64> {
        let times = methods.as_array().unwrap().iter().inspect(|method| {
            let seconds = |name: &str| method[name].as_f64().unwrap();
            let (total, count) = (seconds("total"), method["count"].as_f64().unwrap());
            assert!(seconds("min") <= seconds("avg") && seconds("avg") <= seconds("max"), "{method}");
            assert!(seconds("max") <= total && (seconds("avg") * count - total).abs() < 1e-6, "{method}");
        });
        times
            .map(|method| (method["name"].as_str().unwrap().to_owned(), method["count"].as_u64().unwrap()))
            .collect()
    };
    let parts = counted(&txns["Methods"]);
    assert_eq!(parts.keys().collect::<Vec<_>>(), ["commit", "execute", "keep", "plan"]);
    assert_eq!(parts["commit"], txns["TotalProcessed"].as_u64().unwrap(), "{stats}");
    let all = counted(&stats["AllDescriptors"]);
    assert!(all["create"] >= 3 && all["update"] == 1, "{stats}");
    let mut by_kind = BTreeMap::new();
    for methods in stats["Descriptors"].as_object().unwrap().values() {
        counted(methods).into_iter().for_each(|(name, count)| *by_kind.entry(name).or_default() += count);
    }
    assert_eq!(by_kind, all);
    served.end().await;
}

#[tokio::test]
async fn the_graph_is_drawn_with_what_a_transaction_touched() {
    let served = site().await;
    let picture = served.get("/scheduler/graph").await;
    assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
    assert!(!picture.text().contains("stroke=\"gold\""), "{}", picture.text());
    assert!(picture.text().contains("/scheduler/key-timeline?key=a/1"), "{}", picture.text());
    let newest = served.get("/api/v1/graph").await.json()["after_txn"].as_u64().unwrap();
    let touched = served.get(&format!("/scheduler/graph?txn={newest}")).await;
    assert_eq!(touched.text().matches("stroke=\"gold\"").count(), 1, "{}", touched.text());
    let dot = served.get(&format!("/scheduler/graph?txn={newest}&format=dot")).await;
    assert_eq!(dot.header("content-type"), Some("text/vnd.graphviz"));
    assert_eq!(dot.text().matches("color=gold").count(), 1, "{}", dot.text());
    assert_eq!(served.get("/scheduler/graph?txn=999").await.status, 404);
    assert_eq!(served.get("/scheduler/graph?format=png").await.status, 400);
    served.end().await;
}

#[tokio::test]
async fn everything_is_read_again_when_it_is_asked_for() {
    let served = site().await;
    let post = async |path: &str| served.say(&request("POST", path, &[OPERATOR], "")).await;
    let resync = post("/scheduler/downstream-resync?retry=1&verbose=true").await;
    assert_eq!(resync.status, 200, "{}", resync.text());
    assert!(resync.json()["graph"]["vertices"].is_array());
    assert!(post("/scheduler/downstream-resync").await.json()["transaction"].is_object());
    assert_eq!(post("/scheduler/downstream-resync?retry=maybe").await.status, 400);
    assert_eq!(post("/controller/resync").await.status, 200);
    served.end().await;
}

#[tokio::test]
async fn the_events_of_earlier_runs_are_told_with_every_argument() {
    let state = tempfile::tempdir().unwrap();
    let house = House::over(Hand::default(), Some(state.path()));
    house.apply("cli", &["a/1"]).await.unwrap();
    house.apply("cli", &["a/2"]).await.unwrap();
    let began = now();
    let hand = house.crash().await;
    let house = House::over(hand, Some(state.path()));
    house.apply("cli", &["a/3"]).await.unwrap();
    let served = Served::over(house);
    let told = async |arguments: &str| {
        let answer = served.get(&format!("/controller/event-history{arguments}")).await;
        assert_eq!(answer.status, 200, "{arguments}: {}", answer.text());
        texts(&answer.json(), "seq")
    };
    let all = told("").await;
    let same = served.get("/api/v1/events").await.json();
    assert_eq!(all, texts(&same["events"], "seq"), "both addresses tell the same");
    let described = served.get("/controller/event-history").await.text().to_owned();
    assert!(all.len() >= 4 && described.contains("a/1") && described.contains("a/3"), "{described}");
    assert_eq!(told("?first=2").await, all[..2]);
    assert_eq!(told("?last=1").await, all[all.len() - 1..]);
    assert_eq!(told(&format!("?last={}", all.len())).await, all);
    assert_eq!(told(&format!("?from={}&to={}", all[1], all[2])).await, all[1..=2]);
    assert_eq!(told(&format!("?from={}&to=999999", all[1])).await, all[1..]);
    assert_eq!(told("?from=3&to=2").await, Vec::<String>::new());
    let (before, after) = (told(&format!("?until={began}")).await, told(&format!("?since={began}")).await);
    assert!(!before.is_empty() && !after.is_empty(), "{before:?} {after:?}");
    assert_eq!([before, after].concat(), all, "before and after the second run began");
    assert_eq!(told("?since=1&until=2").await, Vec::<String>::new());
    let one = served.get(&format!("/controller/event-history?seq-num={}", all[0])).await.json();
    assert_eq!(one["seq"].to_string(), all[0]);
    assert_eq!(served.get("/controller/event-history?seq-num=999999").await.status, 404);
    assert_eq!(served.get("/controller/event-history?from=1").await.status, 400);
    served.end().await;
}
