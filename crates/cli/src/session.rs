//! Talking to an agent: where it is, and how long that takes.

use std::future::Future;
use std::path::{Path, PathBuf};

use kilter_api::client::{SOCKET, connect};
use kilter_api::{CallError, Client};

use crate::error::CommandError;

/// The socket of the agent: what was said, or where agents listen.
pub(crate) fn socket(said: Option<&Path>) -> PathBuf {
    said.map_or_else(|| PathBuf::from(SOCKET), Path::to_owned)
}

/// Asks the agent something: connects, and waits for the answer.
pub(crate) fn ask<T, F: Future<Output = Result<T, CommandError>>>(
    socket: &Path,
    question: impl FnOnce(Client) -> F,
) -> Result<T, CommandError> {
    runtime()?.block_on(async { question(connect(socket).await?).await })
}

/// Like [`ask`], but `None` if nobody listens.
pub(crate) fn ask_if_there<T, F: Future<Output = Result<T, CommandError>>>(
    socket: &Path,
    question: impl FnOnce(Client) -> F,
) -> Result<Option<T>, CommandError> {
    runtime()?.block_on(async {
        match connect(socket).await {
            Ok(client) => question(client).await.map(Some),
            Err(CallError::Unreachable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| CommandError::Broken {
        attempt: "failed to start".to_owned(),
        source: Some(Box::new(error)),
    })
}
