//! `record`: writes the run of the agent down from now on, ends that, or shows how it stands.

use std::path::{Path, PathBuf};

use clap::Args;
use kilter_api::v1::{BeginRecordingRequest, EndRecordingRequest, GetRecordingRequest};
use kilter_api::{CallError, render};

use crate::arguments::Listing;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `record` takes.
#[derive(Clone, Debug, Args)]
pub struct Record {
    /// The file, which must not be there yet. The agent writes it, on its machine.
    #[arg(value_name = "FILE", required_unless_present_any = ["stop", "show"])]
    file: Option<PathBuf>,
    /// End the recording when it has about this many bytes; as many as the settings say if left out.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..), requires = "file")]
    bytes: Option<u64>,
    /// End the recording.
    #[arg(long, conflicts_with_all = ["file", "show"])]
    stop: bool,
    /// Only show how the recording stands, or the last one.
    #[arg(long, conflicts_with = "file")]
    show: bool,
    #[command(flatten)]
    listing: Listing,
}

pub(super) fn run(arguments: &Record, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let Record { file, bytes, stop, .. } = arguments.clone();
    // What is named from here is somewhere else for the agent.
    let whole = |file: PathBuf| std::path::absolute(&file).unwrap_or(file).to_string_lossy().into_owned();
    let reply = session::ask(socket, |mut client| async move {
        let reply = match file {
            Some(file) => {
                let request = BeginRecordingRequest { file: whole(file), most: bytes.unwrap_or_default() };
                client.begin_recording(request).await
            }
            None if stop => client.end_recording(EndRecordingRequest {}).await,
            None => client.get_recording(GetRecordingRequest {}).await,
        };
        Ok(reply.map_err(CallError::from)?.into_inner())
    })?;
    output.show(arguments.listing.output, &reply, || render::item::recording(reply.recording.as_ref()))?;
    Ok(Exit::Applied)
}
