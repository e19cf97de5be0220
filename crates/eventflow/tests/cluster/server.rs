//! A real kube-apiserver with its etcd, one for all tests of this program, which take turns.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kilter_eventflow::client::{Server, collection};
use kilter_eventflow::object::{Object, Resource};
use kilter_eventflow::{manifest, names};
use serde_json::{Value as Json, json};

pub(crate) const TOKEN: &str = "a-token-for-tests";
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// How long both programs may take to start on a machine that has a lot to do.
const COLD: Duration = Duration::from_secs(300);

/// How often both programs are started: somebody else may take a port that was free a moment ago.
const STARTS: usize = 5;

/// Waits for a condition.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(POLL).await; // polled until the deadline
    }
}

/// Waits until something has been the same for a second, and tells what it is.
pub(crate) async fn settled<T: PartialEq, F: Future<Output = T>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    let (mut seen, mut since) = (look().await, Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        assert!(Instant::now() < deadline, "waited in vain until {what} comes to rest");
        tokio::time::sleep(POLL).await; // polled until the deadline
        let next = look().await;
        if next != seen {
            (seen, since) = (next, Instant::now());
        }
    }
    seen
}

/// Looks for a while whether something stays as it is.
pub(crate) async fn stays<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        assert!(holds().await, "it does not stay so: {what}");
        tokio::time::sleep(POLL).await; // polled until the deadline
    }
}

/// A program that ends with this process, however that ends: it hangs on our end of a pipe.
struct Program {
    pid: u32,
    supervisor: Child,
}

impl Program {
    /// Whether it runs. One that has ended is there until its supervisor ends.
    fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // It may have been ended already.
        let _ = self.supervisor.wait();
    }
}

/// etcd and the API server.
pub(crate) struct Programs {
    port: u16,
    etcd: Program,
    api: Program,
}

static SHARED: tokio::sync::OnceCell<Programs> = tokio::sync::OnceCell::const_new();
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A cluster that this test has for itself until it drops it.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) port: u16,
    _turn: tokio::sync::MutexGuard<'static, ()>,
    /// Both programs, if no other test uses them.
    _own: Option<Programs>,
}

impl Cluster {
    /// A cluster with every definition and no flow.
    pub(crate) async fn open() -> Self {
        let turn = TURN.lock().await;
        let port = SHARED.get_or_init(|| start("AlwaysAllow")).await.port;
        let cluster = Self { server: Server::new(client(port)), port, _turn: turn, _own: None };
        for resource in Resource::ALL {
            cluster.install(resource).await;
        }
        cluster.clear().await;
        cluster
    }

    /// A cluster of its own in which everybody may do only what roles say.
    pub(crate) async fn guarded() -> Self {
        let turn = TURN.lock().await;
        let own = start("RBAC").await;
        let port = own.port;
        let cluster = Self { server: Server::new(client(port)), port, _turn: turn, _own: Some(own) };
        for resource in Resource::ALL {
            cluster.install(resource).await;
        }
        cluster
    }

    /// The cluster as somebody else reaches it.
    pub(crate) fn with_token(&self, token: &str) -> Server {
        Server::new(client_with(&format!("https://127.0.0.1:{}", self.port), Some(token)))
    }

    /// A second client, as another controller would have.
    pub(crate) fn again(&self) -> Server {
        Self::behind(self.port)
    }

    /// A client of whatever leads to a cluster from this port.
    pub(crate) fn behind(port: u16) -> Server {
        Server::new(client(port))
    }

    pub(crate) async fn install(&self, resource: Resource) {
        let Some(name) = resource.definition() else { return };
        let body =
            if resource == Resource::EventFlow { manifest::definition() } else { definition(resource) };
        let path = format!("{DEFINITIONS}/{name}");
        let applied = format!("{path}?fieldManager=test&force=true");
        self.call("PATCH", &applied, APPLY, Some(&body)).await;
        until("the definition is served", || async {
            let list = collection(resource, "");
            self.server.call("GET", &list, JSON, None).await.is_ok()
        })
        .await;
    }

    pub(crate) async fn uninstall(&self, resource: Resource) {
        let path = format!("{DEFINITIONS}/{}", resource.definition().unwrap());
        self.call("DELETE", &path, JSON, None).await;
        until("the definition is gone", || async {
            let list = collection(resource, "");
            self.server.call("GET", &list, JSON, None).await.is_err()
        })
        .await;
    }

    /// Removes what earlier tests left, without asking anybody: a controller would begin with it.
    async fn clear(&self) {
        for namespace in self.items(Resource::Namespace).await {
            let labels: Json =
                names::INJECTION_LABELS.iter().map(|it| ((*it).to_owned(), Json::Null)).collect();
            let bare = json!({"metadata": {"labels": labels}});
            if namespace.label(names::INJECTION_LABELS[0]).is_some() {
                self.call("PATCH", &place(&namespace), MERGE, Some(&bare)).await;
            }
        }
        let records = self.items(Resource::ConfigMap).await;
        let records = records.into_iter().filter(|it| it.label(names::RECORD_LABEL).is_some());
        for record in records {
            self.call("DELETE", &place(&record), JSON, None).await;
        }
        for resource in LEFT {
            for object in self.items(resource).await {
                if !object.finalizers().is_empty() {
                    let bare = json!({"metadata": {"finalizers": []}});
                    self.call("PATCH", &place(&object), MERGE, Some(&bare)).await;
                }
                // It may be gone with its last finalizer.
                let _ = self.server.call("DELETE", &place(&object), JSON, None).await;
            }
        }
    }

    pub(crate) async fn items(&self, resource: Resource) -> Vec<Object> {
        let listed = self.call("GET", &collection(resource, ""), JSON, None).await;
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(|item| Object::new(resource, item)).collect()
    }

    /// A call that must go well.
    pub(crate) async fn call(&self, method: &str, path: &str, kind: &str, body: Option<&Json>) -> Json {
        let answer = self.server.call(method, path, kind, body).await;
        answer.unwrap_or_else(|rejected| panic!("{method} {path}: {rejected}"))
    }
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What tests leave behind.
const LEFT: [Resource; 9] = [
    Resource::ServiceInstance,
    Resource::Application,
    Resource::EventFlow,
    Resource::EventActivation,
    Resource::Trigger,
    Resource::Broker,
    Resource::Subscription,
    Resource::Policy,
    Resource::PeerAuthentication,
];

/// The path of an object.
fn place(object: &Object) -> String {
    let id = object.id();
    format!("{}/{}", collection(id.resource, &id.namespace), id.name)
}

/// A definition that takes anything.
fn definition(resource: Resource) -> Json {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    // Groups below `k8s.io` are protected.
    let approval = json!({"api-approved.kubernetes.io": "unapproved, for tests only"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.definition(), "annotations": approval},
        "spec": {
            "group": resource.group(),
            "scope": if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": resource.kind(),
                "plural": resource.plural(),
                "singular": resource.kind().to_lowercase(),
            },
            "versions": [{
                "name": resource.version(),
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    })
}

/// Where both programs are: the same places as those of `cargo xtask test`, which builds them where they are nowhere.
fn folder() -> PathBuf {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/kube");
    let folders = given.into_iter().chain(std::env::split_paths(&path)).chain([built]);
    let has_both =
        |folder: &PathBuf| ["etcd", "kube-apiserver"].iter().all(|name| folder.join(name).is_file());
    let found = folders.into_iter().find(has_both);
    found.expect(
        "kube-apiserver and etcd are there, hint: cargo xtask test builds them, or set KUBEBUILDER_ASSETS",
    )
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// Ends a program when nobody holds the other end of its input any more, and takes its folder with it.
const SUPERVISOR: &str = r#"trap '' INT
folder=$1; shift
"$@" </dev/null >"$folder.log" 2>&1 &
echo $!
read -r line
kill -9 $!; wait; rm -rf "$folder" "$folder.log"; rmdir "${folder%/*}""#;

fn spawn(name: &str, work: &Path, arguments: &[String]) -> Program {
    let mut supervised = Command::new("sh");
    supervised.args(["-c", SUPERVISOR, "sh"]).arg(work.join(name)).arg(folder().join(name)).args(arguments);
    supervised.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut supervisor = supervised.spawn().expect("it starts");
    let mut told = String::new();
    let output = supervisor.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut told).expect("it can be read");
    Program { pid: told.trim().parse().expect("it is a number"), supervisor }
}

/// Starts both programs, and waits until they serve.
pub(crate) async fn start(authorization: &str) -> Programs {
    for _ in 0..STARTS {
        let work = tempfile::tempdir().expect("a folder can be made").keep();
        let programs = launch(authorization, &work);
        let server = Server::new(client(programs.port));
        let deadline = Instant::now() + COLD;
        while programs.etcd.is_running() && programs.api.is_running() {
            if server.call("GET", "/api/v1/namespaces/default", JSON, None).await.is_ok() {
                return programs;
            }
            assert!(Instant::now() < deadline, "waited in vain until the API server is ready");
            tokio::time::sleep(POLL).await; // polled until the deadline
        }
    }
    panic!("one of both programs ended {STARTS} times while it started");
}

fn launch(authorization: &str, work: &Path) -> Programs {
    fs::create_dir(work.join("kube-apiserver")).expect("a folder can be made");
    let path = |name: &str| work.join(name).display().to_string();
    let (clients, peers, port) = (free_port(), free_port(), free_port());
    let etcd = spawn(
        "etcd",
        work,
        &[
            format!("--data-dir={}", path("etcd")),
            format!("--listen-client-urls=http://127.0.0.1:{clients}"),
            format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
            "--unsafe-no-fsync".to_owned(),
        ],
    );
    let key = rcgen::KeyPair::generate().expect("a key can be made");
    fs::write(path("kube-apiserver/accounts.key"), key.serialize_pem()).expect("the key can be written");
    fs::write(path("kube-apiserver/accounts.pub"), key.public_key_pem()).expect("the key can be written");
    fs::write(path("kube-apiserver/tokens.csv"), format!("{TOKEN},tester,1,system:masters\n"))
        .expect("it can be written");
    let api = spawn(
        "kube-apiserver",
        work,
        &[
            format!("--etcd-servers=http://127.0.0.1:{clients}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", path("kube-apiserver/certificates")),
            format!("--token-auth-file={}", path("kube-apiserver/tokens.csv")),
            format!("--authorization-mode={authorization}"),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--service-account-issuer=https://localhost".to_owned(),
            format!("--service-account-key-file={}", path("kube-apiserver/accounts.pub")),
            format!("--service-account-signing-key-file={}", path("kube-apiserver/accounts.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ],
    );
    Programs { port, etcd, api }
}

pub(crate) fn client(port: u16) -> kube::Client {
    client_with(&format!("https://127.0.0.1:{port}"), Some(TOKEN))
}

/// A client of an address, as whoever has the token.
pub(crate) fn client_with(address: &str, token: Option<&str>) -> kube::Client {
    let mut config = kube::Config::new(address.parse().expect("it is an address"));
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    kube::Client::try_from(config).expect("the client can be made")
}
