//! `txn`: transactions that are remembered.

use std::path::Path;

use clap::{Args, Subcommand};
use kilter_api::v1::{GetTransactionRequest, ListTransactionsRequest};
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `txn` takes.
#[derive(Clone, Debug, Args)]
pub struct Txn {
    #[command(subcommand)]
    what: What,
}

/// Which transactions.
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
    /// One with its plan, what was carried out, and how it ended.
    Show {
        /// Its number.
        seq: u64,
        #[command(flatten)]
        listing: Listing,
    },
}

pub(super) fn run(arguments: &Txn, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let width = output.width();
    match arguments.what {
        What::List { last, listing } => {
            let request = ListTransactionsRequest { last, ..ListTransactionsRequest::default() };
            let reply = session::ask(socket, |mut client| async move {
                Ok(client.list_transactions(request).await.map_err(CallError::from)?.into_inner())
            })?;
            output.show(listing.output, &reply, || render::transaction::list(&reply.transactions, width))?;
        }
        What::Show { seq, listing } => {
            let request = GetTransactionRequest { seq };
            let transaction = session::ask(socket, |mut client| async move {
                Ok(client.get_transaction(request).await.map_err(CallError::from)?.into_inner())
            })?;
            output.show(listing.output, &transaction, || render::transaction::show(&transaction))?;
        }
    }
    Ok(Exit::Applied)
}
