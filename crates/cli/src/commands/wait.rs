//! `wait`: returns when nothing is left to do, or when the time is up.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use kilter_api::v1::{Reason, WaitReply, WaitRequest};
use kilter_api::{CallError, Client, render};

use super::status;
use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::{session, span};

/// How many agents are asked, one after the other.
const ATTEMPTS: u32 = 5;

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

/// Asks until the time is up, and once more of the next agent if one hands over meanwhile.
async fn ask(client: &mut Client, timeout: Duration) -> Result<WaitReply, CallError> {
    let began = Instant::now();
    let mut attempts = 0;
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        attempts += 1;
        match client.wait(WaitRequest { timeout: Some(span::wire(left)) }).await.map_err(CallError::from) {
            Ok(reply) => return Ok(reply.into_inner()),
            Err(CallError::Answered(problem))
                if problem.reason() == Reason::Unavailable && attempts < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits, and tells what is not where it should be.
pub(super) async fn settle(
    client: &mut Client,
    timeout: Duration,
    form: Form,
    output: &mut Output,
) -> Result<Exit, CommandError> {
    let reply = ask(client, timeout).await?;
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
