//! `pause` and `resume`: leaves items alone when they drift, and heals them again.

use std::path::Path;

use clap::Args;
use kilter_api::v1::SetPausedRequest;
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `pause` takes.
#[derive(Clone, Debug, Args)]
pub struct Pause {
    /// A key, or the beginning of keys.
    #[arg(value_name = "KEY|PREFIX")]
    pub(super) prefix: String,
    #[command(flatten)]
    pub(super) listing: Listing,
}

/// What `resume` takes.
#[derive(Clone, Debug, Args)]
pub struct Resume {
    /// What was paused.
    #[arg(value_name = "KEY|PREFIX")]
    pub(super) prefix: String,
    #[command(flatten)]
    pub(super) listing: Listing,
}

pub(super) fn run(
    prefix: &str,
    paused: bool,
    listing: Listing,
    socket: &Path,
    output: &mut Output,
) -> Result<Exit, CommandError> {
    let request = SetPausedRequest { prefix: prefix.to_owned(), paused };
    let reply = session::ask(socket, |mut client| async move {
        Ok(client.set_paused(request).await.map_err(CallError::from)?.into_inner())
    })?;
    output.show(listing.output, &reply, || match reply.paused.as_slice() {
        [] => "nothing is paused\n".to_owned(),
        paused => paused.iter().map(|prefix| format!("paused: {}\n", render::one_line(prefix))).collect(),
    })?;
    Ok(Exit::Applied)
}
