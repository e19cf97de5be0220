//! `wait`: returns when nothing is left to do, or when the time is up.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kilter_api::v1::WaitRequest;
use kilter_api::{CallError, Client, render};

use super::status;
use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::{session, span};

/// What `wait` takes.
#[derive(Clone, Debug, Args)]
pub struct Wait {
    /// What to wait for.
    #[arg(long = "for", value_enum, default_value_t = Condition::Settled, value_name = "WORD")]
    condition: Condition,
    /// At most this long.
    #[arg(long, value_parser = span::parse, default_value = "1m", value_name = "SPAN")]
    timeout: Duration,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORM")]
    output: Form,
}

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Condition {
    /// Nothing is left to do and nothing is planned for later.
    Settled,
}

pub(super) fn run(arguments: &Wait, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let Wait { condition: Condition::Settled, timeout, output: form } = *arguments;
    session::ask(socket, |mut client| async move { settle(&mut client, timeout, form, output).await })
}

/// Waits, and tells what is not where it should be.
pub(super) async fn settle(
    client: &mut Client,
    timeout: Duration,
    form: Form,
    output: &mut Output,
) -> Result<Exit, CommandError> {
    let request = WaitRequest { timeout: Some(span::wire(timeout)) };
    let reply = client.wait(request).await.map_err(CallError::from)?.into_inner();
    let width = output.width();
    output.show(form, &reply, || {
        let word = if reply.settled { "settled" } else { "not settled in time" };
        let rest = match reply.unsettled.is_empty() {
            true => String::new(),
            false => render::status::table(&reply.unsettled, width),
        };
        format!("{word}\n{rest}")
    })?;
    let worst = status::exit(&reply.unsettled);
    Ok(if reply.settled { worst } else { worst.max(Exit::Pending) })
}
