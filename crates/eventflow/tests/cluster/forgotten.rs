//! A server that does not remember: every watch is told so, and only lists show what has gone meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use kilter_eventflow::client::Server;
use kilter_eventflow::names;
use kilter_eventflow::object::Resource;
use tokio::sync::watch;

use crate::between::Between;
use crate::kills::Serving;
use crate::server::{client, until};
use crate::shop::{Running, Shop, door};

/// Stands between a controller and the cluster.
struct Relay {
    cluster: kube::Client,
    forgets: AtomicBool,
    /// How often a watch was told that too much has happened.
    told: AtomicU32,
    /// Counts how often every watch was cut.
    cuts: watch::Sender<u32>,
}

impl Relay {
    /// Ends every watch, and from here on remembers nothing.
    fn forget(&self) {
        self.forgets.store(true, Ordering::SeqCst);
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

const FORGOTTEN: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}}\n";

async fn carry(State(relay): State<Arc<Relay>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("it can be read");
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let is_watch = path.contains("watch=1");
    let mut cuts = relay.cuts.subscribe();
    if is_watch && relay.forgets.load(Ordering::SeqCst) {
        relay.told.fetch_add(1, Ordering::SeqCst);
        return FORGOTTEN.into_response();
    }
    let mut asked = axum::http::Request::builder().method(parts.method).uri(path);
    for name in ["content-type", "accept"] {
        asked = asked.header(name, parts.headers.get(name).map_or(&b""[..], |value| value.as_bytes()));
    }
    let asked = asked.body(kube::client::Body::from(bytes)).expect("it is a request");
    let Ok(answer) = relay.cluster.send(asked).await else { return StatusCode::BAD_GATEWAY.into_response() };
    let (head, body) = answer.into_parts();
    let body = Body::new(body);
    let body = if is_watch {
        let cut = async move {
            // Whoever dropped it cuts it too.
            let _ = cuts.changed().await;
        };
        Body::from_stream(body.into_data_stream().take_until(Box::pin(cut)))
    } else {
        body
    };
    let mut told = (head.status, body).into_response();
    head.headers.get("content-type").map(|kind| told.headers_mut().insert("content-type", kind.clone()));
    told
}

#[tokio::test]
async fn what_goes_while_the_server_forgets_is_found_by_a_list_and_made_again() {
    let shop = Shop::open("forgets").await;
    let relay = Arc::new(Relay {
        cluster: client(shop.cluster.port),
        forgets: AtomicBool::new(false),
        told: AtomicU32::new(0),
        cuts: watch::Sender::new(0),
    });
    let (listener, way) = door();
    let routes = Router::new().fallback(carry).with_state(Arc::clone(&relay));
    let _serving = Serving(tokio::spawn(async {
        // Whoever cannot be accepted asks again.
        let _ = axum::serve(listener, routes).await;
    }));
    let server = Server::new(way);
    let running = Running::start(Between::open(shop.cluster.again()), server, &shop.integration, None);
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let old = shop.subscription().await.expect("it exists").uid().to_owned();
    relay.forget();
    until("every watch was told", || async {
        relay.told.load(Ordering::SeqCst) >= Resource::ALL.len() as u32
    })
    .await;
    let name = names::subscription(&shop.namespace, "crm");
    shop.delete(Resource::Subscription, &shop.integration, &name).await;
    until("the Subscription is made again", || async {
        shop.subscription().await.is_some_and(|it| it.uid() != old)
    })
    .await;
    assert!(relay.forgets.load(Ordering::SeqCst), "no watch has told of it");
    // What comes is found in the same way, and watches go on when the server remembers.
    shop.create_flow("f2", "crm").await;
    shop.until_says("f2", "Ready", "True").await;
    relay.forgets.store(false, Ordering::SeqCst);
    shop.close("after the server forgot").await;
    running.stop().await;
}
