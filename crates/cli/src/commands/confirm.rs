//! `confirm`: keeps a change that waits for its confirmation, gives it more time, or takes it back.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use kilter_api::v1::{
    CancelConfirmationRequest, ConfirmRequest, ExtendConfirmationRequest, GetConfirmationRequest,
};
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::{follow, session, span};

/// What `confirm` takes.
#[derive(Clone, Debug, Args)]
pub struct Confirm {
    /// The name of the confirmation; the only one if left out.
    #[arg(default_value = "", hide_default_value = true)]
    id: String,
    /// Only show what waits.
    #[arg(long, conflicts_with_all = ["extend", "cancel"])]
    show: bool,
    /// Wait this long from now on.
    #[arg(long, value_name = "SPAN", value_parser = span::parse, conflicts_with = "cancel")]
    extend: Option<Duration>,
    /// Take it back at once.
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Confirm, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let Confirm { id, show, extend, cancel, listing } = arguments.clone();
    let form = listing.output;
    session::ask(socket, |mut client| async move {
        if cancel {
            let request = CancelConfirmationRequest { id };
            let ended = client.cancel_confirmation(request).await.map_err(CallError::from)?.into_inner();
            return follow::tell(&ended, output, form);
        }
        let reply = match extend {
            _ if show => client.get_confirmation(GetConfirmationRequest {}).await,
            Some(within) => {
                let within = Some(span::wire(within));
                client.extend_confirmation(ExtendConfirmationRequest { id, within }).await
            }
            None => client.confirm(ConfirmRequest { id }).await,
        };
        let reply = reply.map_err(CallError::from)?.into_inner();
        let waits = reply.confirmation.as_ref();
        output.show(form, &reply, || match waits {
            Some(kept) if !show && extend.is_none() => format!("txn #{} is confirmed\n", kept.txn),
            waits => render::item::confirmation(waits),
        })?;
        Ok(Exit::Applied)
    })
}
