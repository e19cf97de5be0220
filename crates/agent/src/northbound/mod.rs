//! The northbound: how programs and people reach the running agent, over gRPC and REST, on a unix socket and over TCP.
//!
//! Decided here: who is let in ([`door`]), how internal records become wire types (`convert`) and back (`declared`), which
//! question of the wire is which question to the [`Desk`], and what is recorded about whoever changes something
//! ([`audit`]). Not decided here: what is done about it. Read next: `grpc` for the list of questions, `rest` for the same
//! as JSON.

#![allow(clippy::result_large_err, reason = "a problem is rare, and goes straight to the wire as it is")]

mod access;
mod actuators;
pub(crate) mod assets;
pub mod audit;
mod change;
pub mod closing;
pub(crate) mod confirm;
mod convert;
mod declared;
pub mod door;
mod explain;
mod graph;
mod grpc;
mod history;
pub mod listen;
mod look;
mod pages;
mod past;
mod record;
pub mod rest;
pub mod socket;
pub mod tls;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use kilter_api::client::LARGEST;
use kilter_api::v1::actuators_server::ActuatorsServer;
use kilter_api::v1::agent_server::AgentServer;
use kilter_api::v1::{FILES, Problem, Reason};
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use tonic::service::Routes;

use self::audit::Audit;
use self::closing::Closing;
use self::door::{AccessSettings, Door, Peer, Role};
use self::listen::{Limits, Recognised, serve_tcp, serve_unix};
use self::socket::Socket;
use self::tls::{TlsError, TlsSettings};
use crate::desk::Desk;
use crate::remote::Remotes;

/// Where and how the agent is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The address over TCP; without it nobody is served there.
    pub address: Option<SocketAddr>,
    /// The certificates over TCP. Without them only addresses of this machine may be listened at.
    pub tls: Option<TlsSettings>,
    /// Who is recognised, besides those who reach the socket.
    pub access: AccessSettings,
    /// How much there may be, and for how long.
    pub limits: Limits,
}

/// Why nobody can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be listened to.
    #[error("failed to listen at the agent's socket")]
    Listen(#[source] io::Error),
    /// What the agent speaks cannot be described.
    #[error("failed to describe what the agent speaks")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The address cannot be listened at.
    #[error("failed to listen at `{address}`")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than this machine would be served without encryption.
    #[error(
        "`{address}` is reached by others than this machine, hint: give certificates in `tls`, or listen at `127.0.0.1`"
    )]
    Bare {
        /// The address.
        address: SocketAddr,
    },
    /// The certificates cannot be used.
    #[error("failed to encrypt")]
    Tls(#[from] TlsError),
    /// A token is not given by its hash.
    #[error("token `{name}` is not given by its hash, hint: 64 hexadecimal digits, as `b3sum` prints them")]
    Token {
        /// The token.
        name: String,
    },
}

/// What is listened to.
#[derive(Debug, Default)]
pub struct Listeners {
    socket: Option<std::os::unix::net::UnixListener>,
    tcp: Vec<(TcpListener, Option<Arc<rustls::ServerConfig>>)>,
    closing: Closing,
}

impl Listeners {
    /// Nothing is listened to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens at the address of the settings, if there is one; with what was held for this agent, if that listens there.
    pub fn of(settings: &Settings, held: Vec<TcpListener>) -> Result<Self, ServeError> {
        let mut listeners = Self::new();
        let Some(address) = settings.address else { return Ok(listeners) };
        if settings.tls.is_none() && !address.ip().is_loopback() {
            return Err(ServeError::Bare { address });
        }
        let config = settings.tls.as_ref().map(tls::config).transpose()?;
        let is_meant = |listener: &TcpListener| listener.local_addr().is_ok_and(|at| fits(address, at));
        let held = held.into_iter().find(is_meant);
        let opened = held.map_or_else(|| TcpListener::bind(address), Ok).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listeners.tcp.push((opened.map_err(|source| ServeError::Address { address, source })?, config));
        Ok(listeners)
    }

    /// Also at a socket.
    pub fn at_socket(mut self, socket: &Socket) -> Result<Self, ServeError> {
        self.socket = Some(socket.listener().map_err(ServeError::Listen)?);
        Ok(self)
    }

    /// Also at a listener of this machine that was opened before.
    #[must_use]
    pub fn at(mut self, listener: TcpListener) -> Self {
        self.tcp.push((listener, None));
        self
    }

    /// Until whoever holds the other end says so: then nobody is let in any more, and whoever was is answered.
    #[must_use]
    pub fn until(mut self, closing: Closing) -> Self {
        self.closing = closing;
        self
    }

    /// Other handles of what listens over TCP, so that it stays open when nobody is served any more.
    pub(crate) fn held(&self) -> io::Result<Vec<TcpListener>> {
        self.tcp.iter().map(|(listener, _)| listener.try_clone()).collect()
    }

    /// The addresses over TCP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }
}

/// Whether an address is one that was asked for; any port is, if none was named.
fn fits(asked: SocketAddr, at: SocketAddr) -> bool {
    asked.ip() == at.ip() && (asked.port() == 0 || asked.port() == at.port())
}

/// What every question is answered with.
#[derive(Clone)]
pub(crate) struct Northbound {
    desk: Desk,
    /// The kinds that other processes make real.
    remotes: Remotes,
    audit: Option<Arc<Audit>>,
    /// The name of this run.
    instance: Arc<str>,
    start: prost_types::Timestamp,
    closing: Closing,
}

impl Northbound {
    /// A run that begins with this moment.
    fn new(desk: Desk, audit: Option<Arc<Audit>>, closing: Closing) -> Self {
        let start = prost_types::Timestamp::from(SystemTime::now());
        let instance = format!("{:x}-{:x}", start.seconds, start.nanos).into();
        Self { desk, remotes: Remotes::default(), audit, instance, start, closing }
    }

    /// Ends when the agent hands over; never, if it does not.
    pub(crate) async fn closing(&self) {
        self.closing.clone().said().await;
    }
}

/// The door of the settings.
pub fn door(settings: &Settings) -> Result<Arc<Door>, ServeError> {
    Door::new(settings.access.clone()).map(Arc::new).map_err(|name| ServeError::Token { name })
}

/// Serves whoever connects, until the returned future is dropped.
///
/// **Assumes** a tokio runtime with I/O; one of its own, so that whatever clients ask does not hold up the loop.
pub fn serve(
    listeners: Listeners,
    door: Arc<Door>,
    audit: Option<Arc<Audit>>,
    limits: Limits,
    desk: Desk,
) -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
    let described = described()?;
    Ok(async move {
        let northbound = Northbound::new(desk, audit, listeners.closing.clone());
        let router = assembled(described, northbound, door, limits.clone()).await;
        listen_all(listeners, router, limits).await;
    })
}

/// Everything that is served, for somebody who brings the requests by other means.
///
/// **Assumes** that each request names its [`Peer`] as an extension, and a tokio runtime.
pub async fn router(
    door: Arc<Door>,
    audit: Option<Arc<Audit>>,
    limits: Limits,
    desk: Desk,
) -> Result<Router, ServeError> {
    Ok(assembled(described()?, Northbound::new(desk, audit, Closing::default()), door, limits).await)
}

/// What tells clients what the agent speaks.
fn described() -> Result<Routes, ServeError> {
    let reflected = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILES)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reflection = reflected().build_v1().map_err(ServeError::Reflection)?;
    // The clients of several languages only know the older name of the same service.
    let older = reflected().build_v1alpha().map_err(ServeError::Reflection)?;
    Ok(Routes::new(reflection).add_service(older))
}

/// Every service and every route, behind the door.
async fn assembled(described: Routes, northbound: Northbound, door: Arc<Door>, limits: Limits) -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<AgentServer<Northbound>>().await;
    let service = AgentServer::new(northbound.clone())
        .max_decoding_message_size(limits.body_bytes)
        .max_encoding_message_size(LARGEST);
    let actuators = ActuatorsServer::new(northbound.clone()).max_decoding_message_size(limits.body_bytes);
    let services = described.add_service(health).add_service(service).add_service(actuators);
    let grpc = services.into_axum_router().reset_fallback();
    let patience = Duration::from_secs(limits.body_seconds);
    let grpc = grpc.route_layer(from_fn_with_state((Arc::clone(&door), patience), admit));
    grpc.merge(rest::router(northbound, door, limits))
}

async fn listen_all(listeners: Listeners, router: Router, limits: Limits) {
    let mut serving = tokio::task::JoinSet::new();
    let closing = listeners.closing;
    if let Some(listener) =
        listeners.socket.and_then(|socket| tokio::net::UnixListener::from_std(socket).ok())
    {
        serving.spawn(serve_unix(listener, router.clone(), limits.clone(), closing.clone()));
    }
    for (listener, config) in listeners.tcp {
        if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
            serving.spawn(serve_tcp(listener, config, router.clone(), limits.clone(), closing.clone()));
        }
    }
    while serving.join_next().await.is_some() {}
}

/// What the methods begin with whose request is one message.
const SINGLE: &str = "/kilter.v1.Agent/";

/// Recognises whoever asks over gRPC; what a question needs is checked where it is answered.
async fn admit(
    axum::extract::State((door, patience)): axum::extract::State<(Arc<Door>, Duration)>,
    mut request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let peer = request.extensions().get::<Peer>().cloned();
    let passed = peer.ok_or(door::Refusal::Unknown);
    // It is always a POST, of a media type that no page of another origin may send.
    let passed = passed
        .and_then(|peer| door.pass(&peer, &Method::GET, request.uri(), request.headers(), Role::Reader));
    match passed {
        Ok(caller) => {
            Recognised::note(request.extensions());
            request.extensions_mut().insert(caller);
            if request.uri().path().starts_with(SINGLE) {
                request = request.map(|body| hurried(body, patience));
            }
            next.run(request).await
        }
        Err(refusal) => {
            let code = match refusal {
                door::Refusal::Often { .. } => tonic::Code::ResourceExhausted,
                door::Refusal::Unknown | door::Refusal::Role { .. } | door::Refusal::Foreign => {
                    tonic::Code::PermissionDenied
                }
            };
            Problem::of(Reason::Forbidden, &refusal).into_status_with(code).into_http()
        }
    }
}

/// The body of a request that must have arrived in time.
fn hurried(body: Body, patience: Duration) -> Body {
    let deadline = tokio::time::Instant::now() + patience;
    let late = move || {
        let message = format!("the request took longer than {patience:?}");
        let status = Problem::new(Reason::Invalid, message).into_status_with(tonic::Code::DeadlineExceeded);
        axum::Error::new(status)
    };
    let begun = Some(body.into_data_stream());
    Body::from_stream(futures::stream::unfold(begun, move |rest| async move {
        let mut rest = rest?;
        match tokio::time::timeout_at(deadline, rest.next()).await {
            Ok(part) => part.map(|part| (part, Some(rest))),
            Err(_) => Some((Err(late()), None)),
        }
    }))
}

/// Runs what serves on a thread of its own, which ends with the process; says when it has ended before.
pub fn on_own_thread(
    serving: impl Future<Output = ()> + Send + 'static,
) -> io::Result<oneshot::Receiver<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ends, ended) = oneshot::channel();
    let serve = move || {
        runtime.block_on(serving);
        // Whoever does not wait for the end needs not be told.
        let _ = ends.send(());
    };
    std::thread::Builder::new().name("northbound".to_owned()).spawn(serve)?;
    Ok(ended)
}
