//! `get`: lists of items, kinds and sources.

use std::path::Path;

use clap::{Args, Subcommand};
use kilter_api::v1::{ListItemsRequest, ListKindsRequest, ListSourcesRequest, State};
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `get` takes.
#[derive(Clone, Debug, Args)]
pub struct Get {
    #[command(subcommand)]
    what: What,
}

/// What is listed.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Items.
    Items(Items),
    /// What may be declared.
    Kinds {
        #[command(flatten)]
        listing: Listing,
    },
    /// Who declares, in the order in which they are heard.
    Sources {
        #[command(flatten)]
        listing: Listing,
    },
}

/// Which items.
#[derive(Clone, Debug, Args)]
struct Items {
    /// Those whose keys start with this.
    #[arg(default_value = "", hide_default_value = true, value_name = "PREFIX")]
    prefix: String,
    /// Those of this kind, as `linux.route`.
    #[arg(long, default_value = "", hide_default_value = true)]
    kind: String,
    /// Those in this state, as `PENDING`.
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// Those of this source.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    source: String,
    /// Also those that another item derives.
    #[arg(long)]
    derived: bool,
    /// Also those that exist without having been asked for.
    #[arg(long)]
    observed: bool,
    #[command(flatten)]
    listing: Listing,
}

fn state(text: &str) -> Result<State, String> {
    State::from_str_name(&format!("STATE_{}", text.to_uppercase()))
        .ok_or_else(|| "the states are in docs/reference/states.md, as `PENDING`".to_owned())
}

pub(super) fn run(arguments: &Get, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let width = output.width();
    match arguments.what.clone() {
        What::Items(items) => {
            let Items { prefix, kind, state, source, derived, observed, listing } = items;
            let state = state.unwrap_or_default().into();
            let request = ListItemsRequest {
                prefix,
                kind,
                state,
                source,
                derived,
                observed,
                ..ListItemsRequest::default()
            };
            let reply = session::ask(socket, |mut client| async move {
                Ok(client.list_items(request).await.map_err(CallError::from)?.into_inner())
            })?;
            output.show(listing.output, &reply, || render::item::list(&reply.items, width))?;
        }
        What::Kinds { listing } => {
            let reply = session::ask(socket, |mut client| async move {
                Ok(client.list_kinds(ListKindsRequest {}).await.map_err(CallError::from)?.into_inner())
            })?;
            output.show(listing.output, &reply, || render::item::kinds(&reply.kinds, width))?;
        }
        What::Sources { listing } => {
            let reply = session::ask(socket, |mut client| async move {
                Ok(client.list_sources(ListSourcesRequest {}).await.map_err(CallError::from)?.into_inner())
            })?;
            output.show(listing.output, &reply, || render::item::sources(&reply.sources, width))?;
        }
    }
    Ok(Exit::Applied)
}
