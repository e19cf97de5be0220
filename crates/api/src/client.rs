//! Reaching an agent: a channel over its unix socket, and what can go wrong on the way.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::service_fn;

use crate::v1::agent_client::AgentClient;
use crate::v1::{Problem, Reason};

/// Where an agent listens unless it is told otherwise.
pub const SOCKET: &str = "/run/kilter/kilter.sock";

/// As large as a message may be: the plan of a large network is a long one.
pub const LARGEST: usize = 1 << 30;

/// What an agent is asked through.
pub type Client = AgentClient<Channel>;

/// Why an agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens.
    #[error("no agent answers at `{}`, hint: start one with `kilter agent` or `kilter up DIR`, or name its socket with `--socket`", .socket.display())]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The socket is not for this user.
    #[error("this user may not talk to the agent at `{}`, hint: become root, or a member of the group of the socket", .socket.display())]
    Closed {
        /// Where.
        socket: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The agent went away while it was asked.
    #[error("the agent went away")]
    Gone(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The agent says why not.
    #[error("{0}")]
    Answered(Box<Problem>),
}

/// A client of the agent that listens at a socket.
pub async fn connect(socket: &Path) -> Result<Client, CallError> {
    let client = AgentClient::new(channel(socket).await?);
    Ok(client.max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST))
}

/// A channel to the agent that listens at a socket, for any of its services.
pub async fn channel(socket: &Path) -> Result<Channel, CallError> {
    let path = socket.to_owned();
    let connector = service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The address is only for the protocol's headers: the connector knows where to go.
    let endpoint = Endpoint::from_static("http://kilter.invalid");
    match endpoint.connect_with_connector(connector).await {
        Ok(channel) => Ok(channel),
        Err(error) => {
            let (socket, source) = (socket.to_owned(), root(&error));
            let kind = source.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            Err(match kind == Some(std::io::ErrorKind::PermissionDenied) {
                true => CallError::Closed { socket, source },
                false => CallError::Unreachable { socket, source },
            })
        }
    }
}

/// The deepest cause: the layers above it only say that a connection could not be made.
fn root(error: &(dyn std::error::Error + 'static)) -> Box<dyn std::error::Error + Send + Sync> {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    match deepest.downcast_ref::<std::io::Error>() {
        Some(io) => Box::new(std::io::Error::new(io.kind(), io.to_string())),
        None => deepest.to_string().into(),
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        if let Some(problem) = Problem::from_status(&status) {
            return Self::Answered(Box::new(problem));
        }
        if matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown) {
            let said = || status.message().into();
            return Self::Gone(std::error::Error::source(&status).map_or_else(said, root));
        }
        if status.code() == Code::Unimplemented {
            let message = "the agent does not know this request";
            let hint = "the agent and this program are of different versions";
            return Self::Answered(Box::new(Problem::new(Reason::Invalid, message).with_hint(hint)));
        }
        Self::Answered(Box::new(Problem::new(Reason::Broken, status.message())))
    }
}
