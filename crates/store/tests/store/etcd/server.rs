//! etcd servers for tests: on free ports of the loopback, in directories of their own, ended with the test.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use kilter_store::Store;
use kilter_store::etcd::{Etcd, Settings};
use tempfile::TempDir;

/// How long a server may take to be ready.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server that is ended when it is dropped.
pub(crate) struct Server {
    child: Option<Child>,
    program: String,
    arguments: Vec<String>,
    pub(crate) endpoint: String,
    directory: TempDir,
}

/// The program of the package.
const PACKAGED: &str = "etcd";

/// A port that was free a moment ago, and is not among those that the system gives to whoever asks for any.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + std::process::id().wrapping_mul(61);
        let port = 12_000 + u16::try_from(number % 20_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn url(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

impl Server {
    /// A cluster of one, with more arguments.
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::start_as("http", more)
    }

    /// A cluster of one that speaks `http` or `https` to its clients.
    pub(crate) fn start_as(scheme: &str, more: &[&str]) -> Self {
        Self::start_program(PACKAGED, scheme, more)
    }

    /// The same, of another program. Where somebody else takes a port meanwhile, others are tried.
    pub(crate) fn start_program(program: &str, scheme: &str, more: &[&str]) -> Self {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (client, peer) = (free_port(), url("http", free_port()));
            let mut server = Self::member("one", scheme, client, &peer, &format!("one={peer}"));
            program.clone_into(&mut server.program);
            server.arguments.extend(["--heartbeat-interval=50", "--election-timeout=500"].map(str::to_owned));
            server.arguments.extend(more.iter().map(|&argument| argument.to_owned()));
            server.run();
            if server.is_up(deadline) {
                return server;
            }
        }
    }

    /// A cluster of three.
    pub(crate) fn cluster() -> [Self; 3] {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let members = ["one", "two", "three"].map(|name| (name, free_port(), url("http", free_port())));
            let initial = members.each_ref().map(|(name, _, peer)| format!("{name}={peer}")).join(",");
            let mut servers = members.map(|(name, client, peer)| {
                let mut server = Self::member(name, "http", client, &peer, &initial);
                server.run();
                server
            });
            if servers.iter_mut().all(|server| server.is_up(deadline)) {
                return servers;
            }
        }
    }

    /// Waits until it listens; not if it ended before, because somebody else has its port.
    fn is_up(&mut self, deadline: Instant) -> bool {
        let (_, address) = self.endpoint.split_once("://").unwrap();
        let child = self.child.as_mut().expect("it was started");
        loop {
            let is_listening = TcpStream::connect(address).is_ok();
            let has_ended = child.try_wait().unwrap().is_some();
            if is_listening && !has_ended {
                return true;
            }
            if has_ended || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                assert!(
                    Instant::now() < deadline && log.contains("address already in use"),
                    "no etcd: {log}"
                );
                return false;
            }
            std::thread::sleep(Duration::from_millis(20)); // until the deadline
        }
    }

    fn member(name: &str, scheme: &str, client: u16, peer: &str, initial: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = url(scheme, client);
        let path = directory.path().join("member").display().to_string();
        let arguments = [
            format!("--name={name}"),
            format!("--data-dir={path}"),
            format!("--listen-client-urls={endpoint}"),
            format!("--advertise-client-urls={endpoint}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={initial}"),
            "--experimental-watch-progress-notify-interval=1s".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        Self { child: None, program: PACKAGED.to_owned(), arguments: arguments.into(), endpoint, directory }
    }

    /// Starts it, again if it was ended, with what it had.
    pub(crate) fn run(&mut self) {
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        // Whatever becomes of the test, the server does not outlive it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", &self.program])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings::of([&self.endpoint])
    }

    /// A store in it, when it answers.
    pub(crate) async fn ready(&self, settings: Settings) -> Etcd {
        ready(settings, self.directory.path()).await
    }

    /// Asks its gateway for something that the driver has no use for.
    pub(crate) fn gateway(&self, path: &str, body: &str) {
        let address = self.endpoint.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.lines().next().unwrap().contains(" 200 "), "{path}: {answer}");
    }
}

/// A store in a cluster, when it answers.
pub(crate) async fn ready_all(servers: &[Server]) -> Etcd {
    let endpoints = servers.iter().map(|server| server.endpoint.clone());
    ready(Settings::of(endpoints), servers[0].directory.path()).await
}

async fn ready(settings: Settings, directory: &Path) -> Etcd {
    let deadline = Instant::now() + DEADLINE;
    let store = Etcd::new(settings).unwrap();
    loop {
        match store.get("ready").await {
            Ok(_) => return store,
            Err(error) if Instant::now() > deadline => {
                let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
                panic!("etcd is not ready: {error:?}\n{log}");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await, // until the deadline
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
