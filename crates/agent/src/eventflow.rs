//! `kilter eventflow`: EventFlow on Kubernetes.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kilter_api::render::table::{Cell, table};
use kilter_cli::eventflow::{
    Broker, Eventflow, EventflowVerb, Manifests, PolicyChoice, Run as Chosen, SinkChoice, Status,
};
use kilter_cli::{CommandError, Exit, Output};
use kilter_eventflow::client::Server;
use kilter_eventflow::combined::{Line, ask};
use kilter_eventflow::kinds::declared::{PolicyForm, Sink};
use kilter_eventflow::lease::Lease;
use kilter_eventflow::manifest::{Installation, manifests, to_yaml};
use kilter_eventflow::osb::keeper::Keeper;
use kilter_eventflow::osb::{Access, serve};
use kilter_eventflow::run::Run;
use kilter_eventflow::{Counts, Settings, names};
use tokio::net::TcpListener;

use crate::ending::{broken, refused};
use crate::northbound::assets;
use crate::signals;
use crate::telemetry::logs;

/// Does what a verb of `kilter eventflow` says.
pub fn eventflow(arguments: &Eventflow, output: Output) -> Result<Exit, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("failed to start", error))?;
    match &arguments.verb {
        EventflowVerb::Manifests(chosen) => print(chosen, output),
        EventflowVerb::Run(chosen) => runtime.block_on(run(chosen)),
        EventflowVerb::Status(chosen) => runtime.block_on(status(chosen, output)),
        EventflowVerb::Broker(chosen) => runtime.block_on(broker(chosen)),
    }
}

fn print(chosen: &Manifests, mut output: Output) -> Result<Exit, CommandError> {
    let installation = Installation {
        namespace: chosen.namespace.clone(),
        image: chosen.image.clone(),
        replicas: chosen.replicas,
    };
    let text =
        to_yaml(&manifests(&installation)).map_err(|error| broken("failed to print the manifests", error))?;
    output.print(&text)?;
    Ok(Exit::Applied)
}

/// Why there is nobody to ask.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    /// The address cannot be listened at.
    #[error("failed to listen at `{address}`")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The credentials cannot be read.
    #[error("failed to read the credentials in `{}`, hint: one line, NAME:PASSWORD", path.display())]
    Credentials {
        path: PathBuf,
        #[source]
        source: Option<io::Error>,
    },
}

async fn listen(address: SocketAddr) -> Result<TcpListener, OpenError> {
    TcpListener::bind(address).await.map_err(|source| OpenError::Listen { address, source })
}

/// Listens, and says where the page is.
async fn show(address: SocketAddr) -> Result<TcpListener, OpenError> {
    let listener = listen(address).await?;
    let at = listener.local_addr().map_err(|source| OpenError::Listen { address, source })?;
    tracing::info!("flows are shown at http://{at}/");
    Ok(listener)
}

/// Begins to tell what happens, and finds the cluster.
async fn connect(attempt: &str) -> Result<Server, CommandError> {
    let told = logs::Settings { level: "info".to_owned(), ..logs::Settings::default() };
    logs::begin(&told).map_err(|error| refused(attempt, error))?;
    Server::connect().await.map_err(|error| refused(attempt, error))
}

fn lease(server: &Server, namespace: Option<&String>, name: &str, seconds: u64) -> Option<Lease> {
    let lasts = Duration::from_secs(seconds);
    namespace.map(|namespace| Lease::new(server.clone(), namespace, name, &identity()).lasting(lasts))
}

/// Ends with the first signal, and says which.
fn stop() -> Result<impl Future<Output = ()>, CommandError> {
    let stop = signals::first().map_err(|error| broken("failed to listen for signals", error))?;
    Ok(async { tracing::info!("{}", stop.await) })
}

/// Keeps the flows of a cluster until it is stopped.
async fn run(chosen: &Chosen) -> Result<Exit, CommandError> {
    let attempt = "the controller cannot be started";
    let counts = Arc::<Counts>::default();
    let server = connect(attempt).await?.counted(&counts);
    let listener = match chosen.listen {
        Some(address) => Some(show(address).await.map_err(|error| refused(attempt, error))?),
        None => None,
    };
    let run = Run {
        api: Arc::new(server.clone()),
        settings: settings(chosen),
        lease: lease(&server, chosen.lease_namespace.as_ref(), names::OURS, chosen.lease_seconds),
        counts,
        listener,
        page: assets::flows(),
        server,
    };
    run.until(stop()?).await.map_err(|error| broken("the controller ended", error))?;
    Ok(Exit::Applied)
}

/// Answers platforms until it is stopped.
async fn broker(chosen: &Broker) -> Result<Exit, CommandError> {
    let attempt = "the service broker cannot be started";
    let access = access(chosen).map_err(|error| refused(attempt, error))?;
    let counts = Arc::<Counts>::default();
    let server = connect(attempt).await?.counted(&counts);
    let listener = listen(chosen.listen).await.map_err(|error| refused(attempt, error))?;
    let api = Arc::new(server.clone());
    let keeper = Keeper::new(&server, api, counts, &chosen.namespace);
    let share = chosen.lease_namespace.as_ref();
    let lease = lease(&server, share, names::SERVICE_BROKER, chosen.lease_seconds);
    let ended = serve(listener, keeper, access, lease, stop()?).await;
    ended.map_err(|error| broken("the service broker ended", error))?;
    Ok(Exit::Applied)
}

fn access(chosen: &Broker) -> Result<Access, OpenError> {
    let path = &chosen.credentials;
    let wrong = |source| OpenError::Credentials { path: path.clone(), source };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(Some(error)))?;
    let (user, password) = text.trim().split_once(':').ok_or_else(|| wrong(None))?;
    Ok(Access { user: user.to_owned(), password: password.to_owned(), versionless: chosen.versionless })
}

/// Shows how service instances and flows stand together.
async fn status(chosen: &Status, mut output: Output) -> Result<Exit, CommandError> {
    let attempt = "the cluster cannot be asked";
    let server = Server::connect().await.map_err(|error| refused(attempt, error))?;
    let mut lines = ask(&server).await.map_err(|error| refused(attempt, error))?;
    lines.retain(|line| chosen.namespace.as_ref().is_none_or(|namespace| line.namespace == *namespace));
    let width = output.width();
    output.show(chosen.listing.output, &lines, || shown(&lines, width))?;
    Ok(Exit::Applied)
}

fn shown(lines: &[Line], width: Option<usize>) -> String {
    let row = |line: &Line| {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "–".to_owned());
        let order = line.order.as_ref().map(|why| format!("order: {why}"));
        let why = format!("{} {} {}", line.reason, line.message, order.unwrap_or_default());
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let (instance, flow) = (name(&line.instance), name(&line.flow));
        [line.namespace.clone(), instance, flow, line.status.word().to_owned(), why].map(Cell::from).to_vec()
    };
    table(&["NAMESPACE", "INSTANCE", "FLOW", "STATUS", "WHY"], lines.iter().map(row).collect(), width)
}

fn settings(chosen: &Chosen) -> Settings {
    Settings {
        integration: chosen.integration.clone(),
        sink: match chosen.sink {
            SinkChoice::Injection => Sink::Injection,
            SinkChoice::Direct => Sink::Direct,
        },
        policy: match chosen.policy {
            PolicyChoice::PeerAuthentication => Some(PolicyForm::PeerAuthentication),
            PolicyChoice::Policy => Some(PolicyForm::Policy),
            PolicyChoice::None => None,
        },
        seed: RandomState::new().build_hasher().finish(),
    }
}

/// Who we are among several copies: a pod has its name as the name of its host.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "kilter".to_owned());
    format!("{host}-{}", std::process::id())
}
