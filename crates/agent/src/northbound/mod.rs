//! The northbound: how programs and people reach the running agent, over gRPC on a unix socket.
//!
//! Decided here: who may ask what ([`access`]), how internal records become wire types ([`convert`]) and back
//! ([`declared`]), and which question of the wire is which question to the [`Desk`]. Not decided here: what is done about
//! it. Read next: [`grpc`] for the list of questions.

#![allow(clippy::result_large_err, reason = "a problem is rare, and goes straight to the wire as it is")]

mod access;
mod change;
mod confirm;
mod convert;
mod declared;
mod explain;
mod graph;
mod grpc;
mod history;
mod look;
mod past;
pub mod socket;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use kilter_api::client::LARGEST;
use kilter_api::v1::FILES;
use kilter_api::v1::agent_server::AgentServer;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use self::access::Access;
use self::socket::Socket;
use crate::desk::Desk;

/// Why nobody can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be listened to.
    #[error("failed to listen at the agent's socket")]
    Listen(#[source] io::Error),
    /// What the agent speaks cannot be described.
    #[error("failed to describe what the agent speaks")]
    Reflection(#[source] tonic_reflection::server::Error),
}

/// What every question is answered with.
#[derive(Clone)]
pub(crate) struct Northbound {
    desk: Desk,
    access: Arc<Access>,
    /// The name of this run.
    instance: Arc<str>,
    start: prost_types::Timestamp,
}

/// Serves whoever connects, until the returned future is dropped.
///
/// **Assumes** a tokio runtime with I/O.
pub fn serve(socket: &Socket, desk: Desk) -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
    let listener = socket.listener().map_err(ServeError::Listen)?;
    let listener = UnixListener::from_std(listener).map_err(ServeError::Listen)?;
    let start = prost_types::Timestamp::from(SystemTime::now());
    let instance = format!("{:x}-{:x}", start.seconds, start.nanos);
    let access = Arc::new(Access::of_this_process());
    let northbound = Northbound { desk, access, instance: instance.into(), start };
    let service =
        AgentServer::new(northbound).max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILES)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(ServeError::Reflection)?;
    let (reporter, health) = tonic_health::server::health_reporter();
    Ok(async move {
        reporter.set_serving::<AgentServer<Northbound>>().await;
        let server = Server::builder().add_service(health).add_service(reflection).add_service(service);
        // Whoever cannot be accepted any more is told by the silence of the socket.
        let _ = server.serve_with_incoming(UnixListenerStream::new(listener)).await;
    })
}
