//! The commands `kilter eventflow status` and `broker`, as they are typed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use kilter_eventflow::request::{Rejected, Request};
use serde_json::{Value as Json, json};

use crate::between::Between;
use crate::kills::program;
use crate::platform::{HEADERS, Office, offer, order};
use crate::server::{Cluster, TOKEN, free_port, until};
use crate::shop::Shop;

/// A file with which the program finds the cluster.
fn kubeconfig(folder: &Path, cluster: &Cluster) -> PathBuf {
    let address = format!("https://127.0.0.1:{}", cluster.port);
    let file = folder.join("kubeconfig");
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": address, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(&file, text.to_string()).expect("it can be written");
    file
}

/// The program with these words, in this cluster.
fn kilter(kubeconfig: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("eventflow").args(words).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    command
}

async fn ended(mut command: Command) -> Output {
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    output.expect("it ends").expect("it starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_tells_how_instances_and_flows_stand_together() {
    let shop = Shop::open("status").await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let kubeconfig = kubeconfig(folder.path(), &shop.cluster);
    offer(&shop).await;
    shop.leave_instance("alone").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let told = ended(kilter(&kubeconfig, &["status", "-o", "json"])).await;
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let lines: Json = serde_json::from_slice(&told.stdout).expect("it is JSON");
    let of = |field: &str, name: &str| {
        let all = lines.as_array().expect("it is a list");
        all.iter().find(|line| line[field] == name).expect("it is told").clone()
    };
    assert_eq!(
        (&of("flow", "f1")["status"], &of("flow", "f1")["source"]),
        (&json!("Running"), &json!("crm"))
    );
    assert_eq!(of("instance", "alone")["flow"], Json::Null);
    let told = ended(kilter(&kubeconfig, &["status", "--namespace", &shop.namespace])).await;
    let text = String::from_utf8(told.stdout).expect("it is text");
    assert!(text.contains("STATUS") && text.contains("Running") && text.contains("alone"), "{text}");
    // An order that waits is told with why, also if the platform shows no instance.
    let down = Rejected { code: 503, message: "a webhook is down".to_owned(), ..Rejected::default() };
    let applies = |it: &Request| matches!(it, Request::Apply { .. });
    let office = Office::open(&shop, |server| Between::rejects(server, applies, down)).await;
    assert_eq!(office.put("i", &order(&shop.namespace, "waits")).await.code, 202);
    until("it says why", || async {
        let told = ended(kilter(&kubeconfig, &["status", "-o", "json"])).await;
        let lines: Json = serde_json::from_slice(&told.stdout).expect("it is JSON");
        let mut all = lines.as_array().expect("it is a list").iter();
        let line = all.find(|line| line["instance"] == "waits").cloned().unwrap_or_default();
        let why = line["order"].as_str().unwrap_or_default();
        line["status"] == "Provisioning" && why.contains("a webhook is down")
    })
    .await;
    let told = ended(kilter(&kubeconfig, &["status"])).await;
    let text = String::from_utf8(told.stdout).expect("it is text");
    assert!(text.contains("order: it is tried again"), "{text}");
    drop(office);
    let told = ended(kilter(&kubeconfig, &["status", "--namespace", "elsewhere"])).await;
    assert!(!String::from_utf8_lossy(&told.stdout).contains("f1"));
    let told = ended(kilter(&folder.path().join("nowhere"), &["status"])).await;
    assert!(!told.status.success() && !told.stderr.is_empty(), "a cluster that is not there is no empty one");
    running.stop().await;
}

/// Ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user called `ann`, with something that nobody is to read: `{"username":"ann","extra":{"token":["hush"]}}`.
const ANN: &str = "kubernetes eyJ1c2VybmFtZSI6ImFubiIsImV4dHJhIjp7InRva2VuIjpbImh1c2giXX19";

/// A service broker, at a port that nobody else took meanwhile.
async fn start(shop: &Shop, kubeconfig: &Path, credentials: &Path, log: &Path) -> (Started, Office) {
    let credentials = credentials.display().to_string();
    for _ in 0..5 {
        let address = format!("127.0.0.1:{}", free_port());
        let words = [
            "broker",
            "--listen",
            &address,
            "--credentials",
            &credentials,
            "--namespace",
            &shop.integration,
            "--lease-namespace",
            &shop.integration,
        ];
        let mut command = kilter(kubeconfig, &words);
        let told = std::fs::File::create(log).expect("it can be written");
        let mut started = Started(command.stdout(Stdio::null()).stderr(told).spawn().expect("it starts"));
        let between = Arc::new(Between::open(shop.cluster.again()));
        let office = Office::at(&format!("http://{address}"), between, tokio::spawn(async {}));
        let child = std::sync::Mutex::new(&mut started.0);
        let has_ended = || child.lock().unwrap().try_wait().expect("it can be asked").is_some();
        until("it offers, or has ended", || async { has_ended() || office.offers_orders().await }).await;
        if !has_ended() {
            return (started, office);
        }
    }
    panic!("it does not start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_broker_is_started_asked_and_stopped() {
    let shop = Shop::open("command").await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let kubeconfig = kubeconfig(folder.path(), &shop.cluster);
    offer(&shop).await;
    let credentials = folder.path().join("credentials");
    let missing = credentials.display().to_string();
    let told = ended(kilter(&kubeconfig, &["broker", "--credentials", &missing])).await;
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(!told.status.success() && text.contains("NAME:PASSWORD"), "{text}");
    std::fs::write(&credentials, "platform:secret\n").expect("it can be written");
    let log = folder.path().join("log");
    let (mut started, office) = start(&shop, &kubeconfig, &credentials, &log).await;
    assert_eq!(office.ask_with(&HEADERS[1..], "GET", "/v2/catalog", None).await.code, 401);
    let text = order(&shop.namespace, "o").to_string();
    let headers = [&HEADERS[..], &[("x-broker-api-originating-identity", ANN)]].concat();
    let place = "/v2/service_instances/i?accepts_incomplete=true";
    assert_eq!(office.ask_with(&headers, "PUT", place, Some(&text)).await.code, 202);
    assert_eq!(office.until_ended("i").await, "succeeded");
    assert!(shop.flow("event-flow-o").await.is_some());
    let told = || std::fs::read_to_string(&log).unwrap_or_default();
    let line = r#"kubernetes user {"username":"ann"} asks PUT /v2/service_instances/i: 202"#;
    until("the log says who asked", || async { told().contains(line) }).await;
    // Neither what else the platform told about her, nor how the platform is known.
    for secret in ["hush", "secret", "cGxhdGZvcm06c2VjcmV0", TOKEN, "eyJ1c2VybmFtZSI6"] {
        assert!(!told().contains(secret), "{secret} in\n{}", told());
    }
    assert!(
        office.text("/metrics").await.contains("kilter_eventflow_broker_instances{stage=\"provisioned\"} 1")
    );
    let pid = started.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("it starts").success());
    let child = std::sync::Mutex::new(&mut started.0);
    let ended = || child.lock().unwrap().try_wait().expect("it can be asked");
    until("it has ended", || async { ended().is_some() }).await;
    assert!(ended().is_some_and(|status| status.success()));
}
