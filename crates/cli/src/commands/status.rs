//! `status`: where items stand.

use std::path::Path;

use clap::Args;
use kilter_api::v1::{GetHealthRequest, ListStatusesRequest, State, Status as WireStatus};
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `status` takes.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// A key, or the beginning of keys; every declared item if left out.
    #[arg(default_value = "", hide_default_value = true, value_name = "KEY|PREFIX")]
    prefix: String,
    /// Also items that exist without having been asked for.
    #[arg(long)]
    observed: bool,
    /// How the agent itself is.
    #[arg(long, conflicts_with_all = ["prefix", "observed"])]
    agent: bool,
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Status, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let form = arguments.listing.output;
    if arguments.agent {
        let health = session::ask(socket, |mut client| async move {
            Ok(client.get_health(GetHealthRequest {}).await.map_err(CallError::from)?.into_inner())
        })?;
        output.show(form, &health, || render::item::health(&health))?;
        return Ok(Exit::Applied);
    }
    let request = ListStatusesRequest {
        prefix: arguments.prefix.clone(),
        observed: arguments.observed,
        ..ListStatusesRequest::default()
    };
    let reply = session::ask(socket, |mut client| async move {
        Ok(client.list_statuses(request).await.map_err(CallError::from)?.into_inner())
    })?;
    let width = output.width();
    output.show(form, &reply, || match reply.statuses.as_slice() {
        [one] if one.key == arguments.prefix => render::status::one(one),
        statuses => render::status::table(statuses, width),
    })?;
    Ok(exit(&reply.statuses))
}

/// The code of the worst item.
pub(super) fn exit(statuses: &[WireStatus]) -> Exit {
    let rows = render::status::rows(statuses);
    let one = |state: State| match state {
        State::Pending | State::Applying | State::Removing => Exit::Pending,
        State::Missing | State::Unimplemented | State::Invalid | State::Failed | State::Retrying => {
            Exit::Incomplete
        }
        State::Configured
        | State::Obtained
        | State::Discovered
        | State::Removed
        | State::Nonexistent
        | State::Unspecified => Exit::Applied,
    };
    rows.into_iter().map(|(status, _)| one(status.state())).max().unwrap_or(Exit::Applied)
}
