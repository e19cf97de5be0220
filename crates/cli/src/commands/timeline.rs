//! `timeline`: what happened to an item.

use std::path::Path;

use clap::Args;
use kilter_api::v1::TimelineRequest;
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `timeline` takes.
#[derive(Clone, Debug, Args)]
pub struct Timeline {
    /// The key of the item.
    key: String,
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Timeline, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let request = TimelineRequest { key: arguments.key.clone(), ..TimelineRequest::default() };
    let reply = session::ask(socket, |mut client| async move {
        Ok(client.timeline(request).await.map_err(CallError::from)?.into_inner())
    })?;
    let width = output.width();
    output.show(arguments.listing.output, &reply, || render::timeline::list(&reply.moments, width))?;
    Ok(Exit::Applied)
}
