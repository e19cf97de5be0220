//! The recording of the run on the wire.

use std::path::PathBuf;

use kilter_api::v1::{self, Problem, Reason, RecordingStage};
use kilter_cli::wire;

use super::{Northbound, change};
use crate::recording::{RecordError, Recorded, Standing};

fn reply(recorded: Option<Recorded>) -> v1::GetRecordingReply {
    let recording = recorded.map(|Recorded { file, since, bytes, most, standing }| v1::Recording {
        file: file.to_string_lossy().into_owned(),
        start: Some(wire::moment(since)),
        stage: stage(standing).into(),
        bytes,
        most,
    });
    v1::GetRecordingReply { recording }
}

fn stage(standing: Standing) -> RecordingStage {
    match standing {
        Standing::Going => RecordingStage::Going,
        Standing::Full => RecordingStage::Full,
        Standing::Failed => RecordingStage::Failed,
        Standing::Ended => RecordingStage::Ended,
    }
}

fn refusal(error: &RecordError) -> Problem {
    let reason = match error {
        RecordError::Partial { .. } => Reason::Invalid,
        RecordError::Nothing => Reason::Unknown,
        RecordError::Recorded { .. } | RecordError::Aside { .. } | RecordError::Make { .. } => {
            Reason::Refused
        }
        RecordError::Gone => Reason::Unavailable,
    };
    Problem::of(reason, error)
}

impl Northbound {
    /// How the recording stands.
    pub(super) async fn recording(&self) -> Result<v1::GetRecordingReply, Problem> {
        self.desk.recording().await.map(reply).map_err(|error| refusal(&error))
    }

    /// Begins a recording, and answers when everything is read anew.
    pub(super) async fn record(
        &self,
        request: v1::BeginRecordingRequest,
    ) -> Result<v1::GetRecordingReply, Problem> {
        let most = (request.most > 0).then_some(request.most);
        let begun = self.desk.record(PathBuf::from(request.file), most).await;
        begun.map_err(|error| refusal(&error))?;
        self.desk.at_rest().await.map_err(|gone| change::ended(&gone))?;
        self.recording().await
    }

    /// Ends the recording.
    pub(super) async fn end_recording_of_run(&self) -> Result<v1::GetRecordingReply, Problem> {
        self.desk.end_recording().await.map(|ended| reply(Some(ended))).map_err(|error| refusal(&error))
    }
}
