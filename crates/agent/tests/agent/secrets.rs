//! A secret is told to the process that needs it, and kept where it is declared; whatever else the agent writes or answers
//! holds none.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use kilter_agent::telemetry::logs::{self, Form};
use kilter_agent::telemetry::{Metrics, Watched};
use kilter_api::v1;
use kilter_scheduler::State;
use serde_json::{Value, json};
use tonic::Status;

use crate::house::House;
use crate::http::request;
use crate::remote::{Carpenter, Room};
use crate::served::{ADMIN, OPERATOR};
use crate::watch::Watcher;

const KEY: &str = "shop/shelf/safe";

/// When the next agent is asked, which has only what was kept.
const AFTER: &str = "after a restart";

/// What the log holds.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that was written or answered, each with where it was.
#[derive(Default)]
struct Told(Vec<(String, String)>);

impl Told {
    fn add(&mut self, place: &str, text: impl Into<String>) {
        self.0.push((place.to_owned(), text.into()));
    }

    /// **Guarantees** that there is something in every place, and no secret, nor a token, in any.
    fn holds_no_secret(&self) {
        for (place, text) in &self.0 {
            assert!(!text.is_empty(), "{place}");
            for secret in
                ["hunter", ADMIN, OPERATOR].map(|it| it.trim_start_matches("authorization: Bearer "))
            {
                assert!(!text.contains(secret), "`{secret}` in {place}: {text}");
            }
        }
    }

    /// Asks for everything that there is to read, over REST.
    async fn read(&mut self, room: &Room, when: &str) {
        let paths = "items?derived=true items/shop/shelf/safe statuses graph graph.svg graph.dot export \
            export?declared=true transactions transactions/2 transactions/3 transactions/4 transactions/5 events \
            timeline?key=shop/shelf/safe diff?from=1&to=3 explain?key=shop/shelf/safe audit health sources kinds schema";
        let paths = paths.split_whitespace().map(|path| format!("/api/v1/{path}"));
        let others = [
            "/scheduler/dump?key-prefix=shop&view=NB",
            "/scheduler/dump?key-prefix=shop&view=SB",
            "/scheduler/dump?key-prefix=shop&view=internal",
            "/scheduler/dump?key-prefix=shop&view=cached",
            "/scheduler/txn-history?format=text",
            "/scheduler/txn-history",
            "/scheduler/key-timeline?key=shop/shelf/safe",
            "/scheduler/graph-snapshot",
            "/scheduler/graph?format=dot",
            "/scheduler/status",
            "/scheduler/stats",
            "/scheduler/flag-stats?flag=error",
            "/controller/event-history",
        ];
        for path in paths.chain(others.map(str::to_owned)) {
            let answer = room.served.say(&request("GET", &path, &[ADMIN], "")).await;
            // Without its process, nothing of a kind is there.
            let is_gone = when == AFTER && path.contains("/dump") && answer.status == 404;
            assert!(answer.status == 200 || is_gone, "{path}: {}", answer.text());
            self.add(&format!("{path}, {when}"), format!("{}{}", answer.head, answer.text()));
        }
    }

    /// Asks for everything that there is to read, over the service.
    async fn ask(&mut self, room: &Room, when: &str) {
        let mut client = room.client.clone();
        macro_rules! ask {
            ($($question:ident($request:expr)),* $(,)?) => {$(
                let answer = client.$question($request).await.unwrap().into_inner();
                self.add(&format!("{}, {when}", stringify!($question)), format!("{answer:?}"));
            )*};
        }
        let (key, prefix) = (KEY.to_owned(), "shop".to_owned());
        let items = v1::ListItemsRequest { derived: true, observed: true, ..v1::ListItemsRequest::default() };
        ask! {
            list_items(items),
            list_statuses(v1::ListStatusesRequest { observed: true, ..v1::ListStatusesRequest::default() }),
            explain(v1::ExplainRequest { key: key.clone() }),
            list_transactions(v1::ListTransactionsRequest::default()),
            get_transaction(v1::GetTransactionRequest { seq: 3 }),
            timeline(v1::TimelineRequest { key, ..v1::TimelineRequest::default() }),
            list_events(v1::ListEventsRequest::default()),
            get_graph(v1::GetGraphRequest::default()),
            get_graph(v1::GetGraphRequest { at: Some(3), prefix: prefix.clone() }),
            export(v1::ExportRequest { prefix: prefix.clone(), declared: true }),
            diff(v1::DiffRequest { from: 1, to: Some(3), prefix }),
            list_sources(v1::ListSourcesRequest {}),
            get_health(v1::GetHealthRequest {}),
        }
        let mut watch =
            client.watch_statuses(v1::WatchStatusesRequest::default()).await.unwrap().into_inner();
        let snapshot = watch.message().await.unwrap().unwrap();
        self.add(&format!("watch_statuses, {when}"), format!("{snapshot:?}"));
    }
}

fn shelf(secret: &str) -> Value {
    json!({ "name": "safe", "wide": 1, "wall": { "secret": secret }, "codes": [{ "secret": secret }] })
}

fn refused(status: &Status) -> String {
    format!("{}{}", status.message(), String::from_utf8_lossy(status.details()))
}

/// Declares and changes an item with a secret, well and badly, and watches what is told meanwhile.
async fn declare(room: &Room, carpenter: &Carpenter, told: &mut Told) {
    let mut watcher = Watcher::start(&room.served, &[]).await;
    let told_of = |ended: v1::Ended| format!("{ended:?}");
    for secret in ["hunter2", "hunter3"] {
        told.add("the end of an apply", told_of(room.declare(&[shelf(secret)]).await.unwrap()));
    }
    let there = carpenter.shelves().there[KEY].clone();
    assert_eq!(there["wall"], json!({ "secret": "hunter3" }), "its process is told");
    told.add("a watch", watcher.until(KEY).await);

    // What does not fit the schema, and what its process does not want, which says it all.
    let unfit = json!({ "name": "safe", "wide": { "secret": "hunter4" } });
    told.add("an invalid item", told_of(room.declare(&[unfit]).await.unwrap()));
    assert_eq!(room.house().state(KEY).await, State::Invalid);
    carpenter.shelves().blabs = true;
    let mut crooked = shelf("hunter5");
    crooked["look"] = "crooked".into();
    let wrong = refused(&room.declare(&[crooked]).await.unwrap_err());
    assert!(wrong.contains("must be straight"), "{wrong}");
    told.add("a refusal", wrong);
    // A failure in the words of its process.
    carpenter.shelves().fails.insert("shop/shelf/other".to_owned(), 1);
    let mut other = shelf("hunter6");
    other["name"] = "other".into();
    let failed = told_of(room.declare(&[shelf("hunter3"), other]).await.unwrap());
    assert!(failed.contains("the wall is wet"), "{failed}");
    told.add("a failure", failed);
    let item = json!({ "kind": "shop.shelf", "value": shelf("hunter7") });
    let body = json!({ "items": [item], "source": "room" }).to_string();
    let broken = json!({ "documents": [{ "name": "a.yaml", "text": "kind: shop.shelf\nwall: {secret: hunter8\nwide: [" }] });
    let unknown =
        json!({ "documents": [{ "name": "a.yaml", "text": "kind: shop.shelf\nnam: {secret: hunter8}\n" }] });
    for path in ["/api/v1/plan", "/api/v1/apply"] {
        let answer =
            room.served.say(&request("POST", path, &[ADMIN, "accept: text/event-stream"], &body)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(answer.text().contains("(hidden)"), "{path}: {}", answer.text());
        told.add(path, answer.text());
        for wrong in [&broken, &unknown] {
            let answer = room.served.say(&request("POST", path, &[ADMIN], &wrong.to_string())).await;
            assert_eq!(answer.status, 400, "{path}: {}", answer.text());
            // Whoever sent the document is shown their own lines; nobody else sees them.
            told.add(path, answer.json()["detail"].to_string());
        }
    }
    // Another source that says another secret.
    let item = json!({ "kind": "shop.shelf", "value": shelf("hunter9") });
    let body = json!({ "items": [item], "source": "another" });
    let answer = room.served.send("POST", "/api/v1/apply", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    told.add("what is not heard", answer.text());
    told.add("a watch", watcher.until("event: statuses").await);
}

async fn hide_everywhere(form: Form) {
    let (log, folder, metrics) = (Log::default(), tempfile::tempdir().unwrap(), Metrics::default());
    let (lines, level) = (log.clone(), "debug".to_owned());
    let subscriber = logs::lines(&logs::Settings { level, form }, move || lines.clone()).unwrap();
    let listening = tracing::subscriber::set_default(subscriber);
    let mut told = Told::default();

    let room = Room::over(House::recorded(folder.path(), Watched::new((), metrics.clone(), None))).await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    declare(&room, &carpenter, &mut told).await;
    told.add("an explanation", room.reason(KEY).await);
    told.read(&room, "now").await;
    told.ask(&room, "now").await;
    let audit = std::fs::read_to_string(room.served.folder.path().join("audit.log")).unwrap();
    assert!(audit.contains("Apply"), "{audit}");
    told.add("the audit records", audit);
    told.add("the numbers", metrics.text());
    room.declare(&[shelf("(hidden)")]).await.unwrap();
    assert!(room.reason(KEY).await.contains("say what it is"), "an export is no declaration");
    let keep = room.house().keep.clone().unwrap();
    room.close().await;
    keep.close().await;
    let recording = std::fs::read_to_string(folder.path().join("run")).unwrap();
    assert!(recording.contains(KEY) && recording.contains("the wall is wet"), "{recording}");
    told.add("the recording", recording);

    // The next agent tells the same out of the state directory.
    let room = Room::over(House::recorded(folder.path(), ())).await;
    room.until(KEY, State::Unimplemented).await;
    told.read(&room, AFTER).await;
    told.ask(&room, AFTER).await;
    let keep = room.house().keep.clone().unwrap();
    room.close().await;
    keep.close().await;

    drop(listening);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    assert_eq!(log.lines().all(is_json), form == Form::Json, "{log}");
    for line in ["operation failed: the wall is wet", "operation done", "transaction ended"] {
        assert!(log.contains(line), "`{line}` is not in the log: {log}");
    }
    told.add("the log", log);
    told.holds_no_secret();
    assert!(told.0.iter().any(|(_, text)| text.contains("(hidden)")));
}

#[tokio::test]
async fn no_secret_is_written_or_answered_and_the_log_for_people_holds_none() {
    hide_everywhere(Form::Text).await;
}

#[tokio::test]
async fn no_secret_is_written_or_answered_and_the_log_for_programs_holds_none() {
    hide_everywhere(Form::Json).await;
}
