//! `kinds`: what may be declared, without an agent.

use clap::Args;
use kilter_api::render::item;
use kilter_api::v1::{Kind, ListKindsReply};
use kilter_model::KINDS;

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// What `kinds` takes.
#[derive(Clone, Debug, Args)]
pub struct Kinds {
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Kinds, output: &mut Output) -> Result<Exit, CommandError> {
    let kinds = KINDS.iter().map(|kind| Kind {
        word: kind.word.to_owned(),
        about: kind.about.to_owned(),
        schema: kind.schema().to_string(),
    });
    let reply = ListKindsReply { kinds: kinds.collect() };
    let width = output.width();
    output.show(arguments.listing.output, &reply, || item::kinds(&reply.kinds, width))?;
    Ok(Exit::Applied)
}
