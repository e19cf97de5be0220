//! A distributor: tails the store of a cluster and serves whoever follows it; a program of its own, or inside an agent.
//!
//! Numbered steps of `kilter distributor`: 1. the settings are read and the store is opened; 2. the hub is started, the
//! place is listened at, the door is opened and the row is written; 3. what it notices is told until somebody ends it; 4. its
//! subscribers are sent to others, and its row is taken out.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kilter_cli::daemon::Distributor as Arguments;
use kilter_cli::{CommandError, Exit, Output};
use kilter_pubsub::transport::{BindError, Hub, NatsServer, TcpServer, ZmqServer};
use kilter_pubsub::{Neighbour, Notice, Row, Transport};
use kilter_store::Store;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::door;
use super::layout::Layout;
use super::remarks;
use super::settings::{OpenError, Settings};
use super::source::Source;
use super::table::Table;
use crate::ending::{broken, refused};
use crate::northbound::socket::SocketError;
use crate::notify::ServiceManager;
use crate::settings::Settings as AllSettings;
use crate::signals;

/// How long subscribers have to go elsewhere.
const PARTING: Duration = Duration::from_secs(2);

/// Why a distributor cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum DistributeError {
    /// The store or the certificates cannot be used.
    #[error("failed to open what it distributes")]
    Open(#[source] OpenError),
    /// Nobody could reach it.
    #[error("failed to listen for subscribers")]
    Bind(#[source] BindError),
    /// There is no server to publish through.
    #[error("failed to find the NATS server, hint: `advertise = \"nats://HOST:PORT/NAME\"` names it")]
    NoServer,
    /// Certificates are set, and the transport has none.
    #[error("failed to keep delivery secret, hint: `[cluster.tls]` is for `publisher_transport = \"tcp\"`")]
    InTheClear,
    /// Writers could not reach it.
    #[error("failed to listen for writers")]
    Door(#[source] SocketError),
}

/// A running distributor. It ends without a word when it is dropped.
pub struct Distributor {
    hub: Arc<Hub>,
    address: String,
    tasks: Vec<JoinHandle<()>>,
    leave: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Distributor {
    /// Starts to distribute a store; who comes and goes beside it is told.
    ///
    /// **Assumes** a tokio runtime.
    pub async fn start(
        settings: &Settings,
        store: Arc<dyn Store>,
        told: mpsc::UnboundedSender<Neighbour>,
    ) -> Result<Self, DistributeError> {
        let pubsub = &settings.pubsub;
        let (instance, layout) = (fresh(), Layout::new(&settings.prefix));
        let seed = u64::try_from(instance >> 64).unwrap_or_default();
        let hub = Hub::start(pubsub.clone(), pubsub.carrier().delivery(), pubsub.tail, instance, seed);
        let address = bind(settings, &hub).await?;
        let mut tasks = Vec::new();
        if pubsub.poke {
            let door = door::open(pubsub.poke_socket.as_ref(), Arc::clone(&hub), Arc::clone(&store));
            tasks.push(tokio::spawn(door.map_err(DistributeError::Door)?));
        }
        let source = Source::new(Arc::clone(&store), layout.clone());
        tasks.push(tokio::spawn(source.serve(Arc::clone(&hub))));
        let table = Table::new(store, layout, pubsub, Some(row(settings, instance, &address)));
        let (leaves, leaving) = oneshot::channel();
        let keeping = tokio::spawn(keep(table, Arc::clone(&hub), told, leaving));
        Ok(Self { hub, address, tasks, leave: Some((leaves, keeping)) })
    }

    /// What serves subscribers.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Where it can be reached.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends subscribers to others, takes the own row out, and ends.
    pub async fn end(mut self) {
        self.hub.shut_down();
        let parting = async {
            while self.hub.with(|core, _| core.published().sessions()) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(PARTING, parting).await;
        if let Some((leaves, keeping)) = self.leave.take() {
            let _ = leaves.send(());
            let _ = tokio::time::timeout(PARTING, keeping).await;
        }
    }
}

impl Drop for Distributor {
    fn drop(&mut self) {
        self.hub.abort();
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some((_, keeping)) = &self.leave {
            keeping.abort();
        }
    }
}

/// A number that no other start has.
pub(crate) fn fresh() -> u128 {
    let number = || u128::from(RandomState::new().build_hasher().finish());
    (number() << 64) | number()
}

/// Lets subscribers in; the answer is where they reach it.
async fn bind(settings: &Settings, hub: &Arc<Hub>) -> Result<String, DistributeError> {
    let pubsub = &settings.pubsub;
    let advertised = settings.distributor.as_ref().and_then(|own| own.advertise.clone());
    let place = format!("{}://{}:{}", pubsub.carrier().scheme(), pubsub.bind, pubsub.port);
    let tls = settings.read_tls().map_err(DistributeError::Open)?;
    let usual = |port: u16| format!("{}://{}:{port}", pubsub.carrier().scheme(), settings.node_name());
    match (pubsub.carrier(), tls) {
        (Transport::Tcp, tls) => {
            let server = match tls {
                Some(tls) => TcpServer::bind_tls(hub, &place, &tls).await,
                None => TcpServer::bind(hub, &place).await,
            };
            let port = server.map_err(DistributeError::Bind)?.address().port();
            Ok(advertised.unwrap_or_else(|| usual(port)))
        }
        (Transport::Zmq | Transport::Nats, Some(_)) => Err(DistributeError::InTheClear),
        (Transport::Zmq, None) => {
            ZmqServer::bind(hub, &place).await.map_err(DistributeError::Bind)?;
            Ok(advertised.unwrap_or_else(|| usual(pubsub.port)))
        }
        (Transport::Nats, None) => {
            let server = advertised.ok_or(DistributeError::NoServer)?;
            NatsServer::bind(hub, &server).await.map_err(DistributeError::Bind)?;
            Ok(server)
        }
    }
}

fn row(settings: &Settings, instance: u128, address: &str) -> Row {
    let own = settings.distributor.clone().unwrap_or_default();
    let id = own.name.unwrap_or_else(|| settings.node_name());
    let uri = address.to_owned();
    Row { id, instance, uri, log: kilter_pubsub::LogId::default(), head: 0, beat: 0 }
}

/// Keeps the row of a distributor, and tells its subscribers where else they may go.
async fn keep(
    mut table: Table,
    hub: Arc<Hub>,
    told: mpsc::UnboundedSender<Neighbour>,
    mut leaving: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            () = table.due() => {}
            _ = &mut leaving => return table.leave().await,
        }
        let (log, head) = hub.with(|core, _| (core.published().log_id(), core.published().head()));
        table.set_position(log, head);
        for neighbour in table.look().await {
            // Whoever does not listen any more is told nothing.
            let _ = told.send(neighbour);
        }
        let peers = table.peers();
        hub.with(|core, _| core.publisher().set_peers(peers));
    }
}

/// `kilter distributor`: serves until it is stopped.
pub fn distribute(arguments: &Arguments, output: Output) -> Result<Exit, CommandError> {
    const CANNOT: &str = "the distributor cannot be started";
    let settings = AllSettings::read(&arguments.settings).map_err(|error| refused(CANNOT, error))?; // 1
    let settings = settings.cluster.ok_or(OpenError::NoStore).map_err(|error| refused(CANNOT, error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| broken("failed to start", error))?;
    runtime.block_on(async {
        let store = settings.store.as_ref().ok_or(OpenError::NoStore).and_then(|store| store.open());
        let store = store.map_err(|error| refused(CANNOT, error))?;
        let (told, mut neighbours) = mpsc::unbounded_channel();
        let (remark, mut remarks) = mpsc::channel(1);
        tokio::spawn(remarks::attend(Arc::clone(&store), remark));
        let distributor = Distributor::start(&settings, store, told).await; // 2
        let distributor = distributor.map_err(|error| refused(CANNOT, error))?;
        let mut journal = Journal { output, manager: ServiceManager::of_this_process(), ready: false };
        journal.print(&format!("can be reached at {}\n", distributor.address()));
        let stopped = signals::first().map_err(|error| broken("failed to listen for signals", error))?;
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                notice = distributor.hub().notice() => journal.notice(&notice), // 3
                Some(neighbour) = neighbours.recv() => journal.neighbour(&neighbour),
                Some(lines) = remarks.recv() => lines.iter().for_each(|line| journal.warn(line)),
                _ = &mut stopped => break,
            }
        }
        journal.manager.say("STOPPING=1");
        distributor.end().await; // 4
        journal.print("stopped: its subscribers are elsewhere\n");
        Ok(Exit::Applied)
    })
}

/// Tells what the distributor notices, a line for each thing.
struct Journal {
    output: Output,
    manager: ServiceManager,
    ready: bool,
}

impl Journal {
    fn print(&mut self, text: &str) {
        // Whoever does not read what is told is no reason to end.
        let _ = self.output.print(text);
    }

    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Loaded { rev, .. } if !self.ready => {
                self.ready = true;
                self.manager.say("READY=1\nSTATUS=distributes");
                self.print(&format!("ready: the store is at revision {rev}\n"));
            }
            Notice::Loaded { rev, .. } => self.print(&format!("the store was read at revision {rev}\n")),
            Notice::SourceLost
            | Notice::Differed { .. }
            | Notice::Oversize { .. }
            | Notice::WentBack { .. } => remarks::wrong(notice).iter().for_each(|line| self.warn(line)),
        }
    }

    fn warn(&mut self, line: &str) {
        self.print(&format!("warning: {line}\n"));
    }

    fn neighbour(&mut self, neighbour: &Neighbour) {
        self.print(&match neighbour {
            Neighbour::Appeared(uri) => format!("another distributor is at {uri}\n"),
            Neighbour::Disappeared(uri) => format!("the distributor at {uri} is gone\n"),
            Neighbour::Namesake(uri) => {
                format!("warning: the distributor at {uri} has the same name, and keeps the row\n")
            }
        });
    }
}
