//! How a cluster is watched that does not behave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Json as Body, Router};
use kilter_eventflow::client::Server;
use kilter_eventflow::mirror::Shared;
use kilter_eventflow::object::Resource;
use kilter_eventflow::watch::{Wake, follow};
use serde_json::json;
use tokio::net::TcpListener;

/// Ends every watch at once; what it says before that is the first.
async fn answer(
    State((watches, line)): State<(Arc<AtomicU32>, &'static str)>,
    RawQuery(query): RawQuery,
) -> Response {
    if query.is_some_and(|query| query.contains("watch=1")) {
        watches.fetch_add(1, Ordering::Relaxed);
        return line.into_response();
    }
    Body(json!({"items": [], "metadata": {"resourceVersion": "1"}})).into_response()
}

#[tokio::test]
async fn a_watch_that_ends_at_once_is_opened_ever_more_slowly() {
    let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n";
    let forgotten = "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n";
    for line in ["", bookmark, forgotten] {
        let watches = Arc::new(AtomicU32::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = format!("http://{}", listener.local_addr().expect("it has an address"));
        let routes = Router::new().fallback(answer).with_state((Arc::clone(&watches), line));
        let serving = tokio::spawn(async { axum::serve(listener, routes).await });
        let config = kube::Config::new(address.parse().expect("it is an address"));
        let server = Server::new(kube::Client::try_from(config).expect("the client can be made"));
        let begun = Instant::now();
        let following = tokio::spawn(follow(server, Resource::Broker, Shared::default(), Wake::default()));
        while watches.load(Ordering::Relaxed) < 5 {
            assert!(begun.elapsed() < Duration::from_secs(120), "it is opened again");
            tokio::time::sleep(Duration::from_millis(5)).await; // polled until the deadline
        }
        assert!(
            begun.elapsed() >= Duration::from_millis(1500),
            "four pauses: {:?} `{line}`",
            begun.elapsed()
        );
        following.abort();
        serving.abort();
    }
}
