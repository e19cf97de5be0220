//! What a watch over server-sent events promises.

use std::time::Duration;

use kilter_agent::desk::{Confirm, Options};
use kilter_api::v1;
use kilter_scheduler::{Key, State};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::{PATIENCE, request, unchunk};
use crate::served::{OPERATOR, Served};

/// Somebody who watches over a connection of their own.
pub(crate) struct Watcher {
    stream: TcpStream,
    /// What came and is no whole chunk yet.
    unread: Vec<u8>,
    in_body: bool,
}

impl Watcher {
    pub(crate) async fn start(served: &Served, headers: &[&str]) -> Self {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let headers = [&[OPERATOR][..], headers].concat();
        stream.write_all(&request("GET", "/api/v1/watch", &headers, "")).await.unwrap();
        Self { stream, unread: Vec::new(), in_body: false }
    }

    /// Reads server-sent events until a text has been told; what was told from here on.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        let told = tokio::time::timeout(PATIENCE, self.read(wanted)).await;
        told.unwrap_or_else(|_| panic!("`{wanted}` is not told"))
    }

    async fn read(&mut self, wanted: &str) -> String {
        let mut text = Vec::new();
        loop {
            let count = self.stream.read_buf(&mut self.unread).await.unwrap();
            assert_ne!(count, 0, "the watch has ended: {}", String::from_utf8_lossy(&text));
            if !self.in_body {
                let Some(head) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                self.unread.drain(..head + 4);
                self.in_body = true;
            }
            let from = text.len().saturating_sub(wanted.len());
            let whole = unchunk(&self.unread, &mut text);
            self.unread.drain(..whole);
            if text[from..].windows(wanted.len()).any(|part| part == wanted.as_bytes()) {
                return String::from_utf8(text).unwrap();
            }
        }
    }
}

fn last_cursor(text: &str) -> String {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap().to_owned()
}

#[tokio::test]
async fn a_watch_begins_with_a_snapshot_and_goes_on_from_its_cursor() {
    let served = Served::start().await;
    served.house.apply("cli", &["a/1"]).await.unwrap();
    let mut watcher = Watcher::start(&served, &[]).await;
    let text = watcher.until("\"key\":\"a/1\"").await;
    assert!(text.contains("\"snapshot\":true"), "{text}");
    let cursor = last_cursor(&text);
    drop(watcher);

    served.house.apply("cli", &["b/1"]).await.unwrap();
    served.house.apply("cli", &["c/1"]).await.unwrap();
    let mut watcher = Watcher::start(&served, &[&format!("last-event-id: {cursor}")]).await;
    let text = watcher.until("event: statuses").await;
    assert!(text.contains("\"snapshot\":false") && !text.contains("\"key\":\"a/1\""), "{text}");
    assert!(text.contains("\"key\":\"b/1\"") && text.contains("\"key\":\"c/1\""), "{text}");
    assert_eq!(text.matches("event: transaction\n").count(), 2, "{text}");
    assert_eq!(text.matches("event: event\n").count(), 2, "{text}");
    served.end().await;
}

#[tokio::test]
async fn whoever_goes_on_hears_that_a_confirmation_has_ended() {
    let served = Served::start().await;
    let confirm = Some(Confirm { within: PATIENCE * 100, probes: Vec::new(), joint: None });
    served.house.apply_with("cli", &["a/1"], Options { confirm, ..Options::default() }).await.unwrap();
    let mut watcher = Watcher::start(&served, &[]).await;
    let text = watcher.until("\"key\":\"a/1\"").await;
    assert!(text.contains("event: confirmation\ndata: {\"confirmation\":{"), "{text}");
    drop(watcher);
    served.house.desk.confirm(None).await.unwrap();
    let cursor = format!("last-event-id: {}", last_cursor(&text));
    let mut watcher = Watcher::start(&served, &[&cursor]).await;
    watcher.until("event: confirmation\ndata: {\"confirmation\":null}").await;
    served.end().await;
}

#[tokio::test]
async fn a_watcher_that_stopped_reading_catches_up_without_loss() {
    let served = Served::start().await;
    let mut watcher = Watcher::start(&served, &[]).await;
    watcher.until("\"snapshot\":true").await;
    // It reads nothing while far more happens than the board holds.
    let many = 600;
    for number in 0..many {
        served.house.apply("cli", &[&format!("a/{number} v={}", "x".repeat(2000))]).await.unwrap();
    }
    let text = watcher.until(&format!("\"key\":\"a/{}\"", many - 1)).await;
    let snapshot = text.contains("\"snapshot\":true");
    for number in 0..many {
        let told = text.contains(&format!("\"key\":\"a/{number}\""));
        assert!(told, "a/{number} is not told, snapshot: {snapshot}");
    }
    served.end().await;
}

#[tokio::test]
async fn what_a_client_saw_go_is_told_over_the_service() {
    let served = Served::start().await;
    let eth1 = Key::new("host/eth1");
    let seen = served.house.hand.world().observe(&eth1, Default::default());
    served.house.desk.notify(vec![seen]).await.unwrap();
    served.house.apply("cli", &["b/1 on=host/eth1"]).await.unwrap();
    assert_eq!(served.house.state("b/1").await, State::Configured);
    served.house.hand.world().unobserve(&eth1);
    let client = kilter_api::client::connect(&served.folder.path().join("kilter.sock")).await.unwrap();
    let gone = v1::Observation { key: eth1.to_string(), value: String::new() };
    client.clone().notify(v1::NotifyRequest { observations: vec![gone] }).await.unwrap();
    let reached = async {
        while served.house.state("b/1").await != State::Pending {
            tokio::time::sleep(Duration::from_millis(5)).await; // poll, until the deadline
        }
    };
    assert!(tokio::time::timeout(PATIENCE, reached).await.is_ok(), "`b/1` still stands on what is gone");
    served.end().await;
}
