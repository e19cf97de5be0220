//! `explain`: why an item stands where it stands.

use std::path::Path;

use clap::Args;
use kilter_api::v1::ExplainRequest;
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `explain` takes.
#[derive(Clone, Debug, Args)]
pub struct Explain {
    /// The key of the item.
    key: String,
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Explain, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let request = ExplainRequest { key: arguments.key.clone() };
    let explanation = session::ask(socket, |mut client| async move {
        Ok(client.explain(request).await.map_err(CallError::from)?.into_inner())
    })?;
    output.show(arguments.listing.output, &explanation, || render::explain::text(&explanation))?;
    Ok(Exit::Applied)
}
