//! The program itself, killed behind every one of its writes in turn.
//!
//! It reaches the cluster through a relay that counts what it writes: behind the chosen write it is killed, and never
//! learns the answer. The next one starts at once, as a cluster does it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::server::client;
use crate::shop::Shop;

/// More writes than this are no provision and teardown any more.
const MOST: usize = 60;

/// The program, as the build that made this test made it. A test of this package alone does not build it: one that is
/// missing, or older than what it is made of, is built first.
pub(crate) fn program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let found = BUILT.get_or_init(|| {
        let own = std::env::current_exe().expect("this program has a path");
        let folder = own.parent().and_then(Path::parent).expect("it is among the dependencies of a build");
        let program = folder.join("kilter");
        if is_stale(&program) {
            build(folder);
        }
        program
    });
    found.clone()
}

/// Whether a part of the program was changed after it was built.
fn is_stale(program: &Path) -> bool {
    let Ok(built) = std::fs::metadata(program).and_then(|it| it.modified()) else { return true };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let parts = ["eventflow", "agent", "cli", "kilter", "events", "scheduler", "southbound"];
    parts.iter().any(|part| newest(&crates.join(part).join("src")) > Some(built))
}

/// When the latest change in a folder was made.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).expect("it can be read").map(|it| it.expect("it can be read"));
    let changed = |path: PathBuf| {
        if path.is_dir() { newest(&path) } else { std::fs::metadata(path).and_then(|it| it.modified()).ok() }
    };
    entries.filter_map(|entry| changed(entry.path())).max()
}

fn build(folder: &Path) {
    let cargo = std::env::var_os("CARGO").expect("cargo runs this test, hint: cargo build -p kilter");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--locked", "-p", "kilter", "--profile"]);
    command.arg(profile).stdin(Stdio::null());
    assert!(command.status().expect("it starts").success(), "the program can be built");
}

/// Who runs, and how long yet.
struct Running {
    child: Option<Child>,
    /// How many writes it has left; nobody is killed without.
    left: Option<usize>,
    kills: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }
}

/// Stands between the program and the cluster.
struct Relay {
    cluster: kube::Client,
    kubeconfig: PathBuf,
    integration: String,
    running: Mutex<Running>,
}

impl Relay {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, running: &mut Running) {
        let started = Command::new(program())
            .args(["eventflow", "run", "--integration", &self.integration])
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        running.child = Some(started.expect("it starts"));
    }

    /// Takes note of a write that was carried out; whether it was the last one of the program.
    fn is_last(&self) -> bool {
        let mut running = self.running();
        let Some(left) = running.left.as_mut() else { return false };
        *left -= 1;
        if *left > 0 {
            return false;
        }
        running.left = None;
        running.kills += 1;
        running.kill();
        self.start(&mut running);
        true
    }
}

async fn carry(State(relay): State<Arc<Relay>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("it can be read");
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    // Nothing follows from what is announced.
    let is_write = parts.method != Method::GET && !parts.uri.path().ends_with("/events");
    let mut asked = axum::http::Request::builder().method(parts.method).uri(path);
    for name in ["content-type", "accept"] {
        asked = asked.header(name, parts.headers.get(name).map_or(&b""[..], |value| value.as_bytes()));
    }
    let asked = asked.body(kube::client::Body::from(bytes)).expect("it is a request");
    let Ok(answer) = relay.cluster.send(asked).await else { return StatusCode::BAD_GATEWAY.into_response() };
    if is_write && relay.is_last() {
        std::future::pending::<()>().await;
    }
    let (head, body) = answer.into_parts();
    let kind = head.headers.get("content-type").cloned();
    let mut told = (head.status, Body::new(body)).into_response();
    kind.map(|kind| told.headers_mut().insert("content-type", kind));
    told
}

/// Ends with the test.
pub(crate) struct Serving(pub(crate) JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_is_killed_behind_every_write_of_a_life_and_nothing_is_orphaned() {
    let shop = Shop::open("kills").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = format!("http://{}", listener.local_addr().expect("it has an address"));
    let folder = tempfile::tempdir().expect("a folder can be made");
    let kubeconfig = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "relay",
        "clusters": [{"name": "relay", "cluster": {"server": address}}],
        "users": [{"name": "relay", "user": {}}],
        "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "relay"}}],
    });
    std::fs::write(&kubeconfig, text.to_string()).expect("it can be written");
    let relay = Arc::new(Relay {
        cluster: client(shop.cluster.port),
        kubeconfig,
        integration: shop.integration.clone(),
        running: Mutex::new(Running { child: None, left: None, kills: 0 }),
    });
    let routes = Router::new().fallback(carry).with_state(Arc::clone(&relay));
    let _serving = Serving(tokio::spawn(async {
        // Whoever cannot be accepted asks again.
        let _ = axum::serve(listener, routes).await;
    }));
    relay.start(&mut relay.running());
    for writes in 1.. {
        assert!(writes < MOST, "a life has an end");
        relay.running().left = Some(writes);
        shop.create_flow("f1", "crm").await;
        shop.until_says("f1", "Ready", "True").await;
        shop.delete_flow("f1").await;
        shop.until_gone("f1").await;
        shop.close(&format!("killed behind write {writes}")).await;
        // A life in which nobody was killed is shorter than that.
        if relay.running().left.take().is_some() {
            break;
        }
    }
    let kills = relay.running().kills;
    assert!(kills > 8, "a set-up and a teardown are more than {kills} writes");
    relay.running().kill();
}
