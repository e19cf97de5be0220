//! `events`: events that are remembered.

use std::path::Path;

use clap::{Args, Subcommand};
use kilter_api::v1::ListEventsRequest;
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `events` takes.
#[derive(Clone, Debug, Args)]
pub struct Events {
    #[command(subcommand)]
    what: What,
}

/// Which events.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// The newest ones.
    List {
        /// How many; 0 for all.
        #[arg(long, default_value_t = 20, value_name = "COUNT")]
        last: u32,
        #[command(flatten)]
        listing: Listing,
    },
    /// One with what handlers did about it.
    Show {
        /// Its number.
        seq: u64,
        #[command(flatten)]
        listing: Listing,
    },
}

pub(super) fn run(arguments: &Events, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let width = output.width();
    let (request, listing) = match arguments.what {
        What::List { last, listing } => (ListEventsRequest { last, ..ListEventsRequest::default() }, listing),
        What::Show { seq, listing } => {
            (ListEventsRequest { seq: Some(seq), ..ListEventsRequest::default() }, listing)
        }
    };
    let is_one = request.seq.is_some();
    let reply = session::ask(socket, |mut client| async move {
        Ok(client.list_events(request).await.map_err(CallError::from)?.into_inner())
    })?;
    output.show(listing.output, &reply, || match (is_one, reply.events.as_slice()) {
        (true, [event]) => render::event::show(event),
        (_, events) => render::event::list(events, width),
    })?;
    Ok(Exit::Applied)
}
