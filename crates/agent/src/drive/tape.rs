//! Writing the run down, between two steps of the loop.
//!
//! Decided here: a recording of an agent that runs begins with a loop that starts over, since a replay begins with an empty
//! graph: everything is read anew and held against what is declared, as an agent that hands over does, without a write.

use std::path::{Path, PathBuf};

use kilter_southbound::Clock as _;
use tokio::sync::oneshot;

use super::Agent;
use super::audience::Audience;
use super::ordered::{Ordered, Work};
use crate::recording::{RecordError, Recorded, Recording, Standing, Trace};
use crate::replay::program;

/// What is asked about the recording of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tape {
    /// Begin one in a file that is not there yet, of about so many bytes; of as many as the settings say if nothing is said.
    Begin(PathBuf, Option<u64>),
    /// End it.
    End,
    /// Say how it stands.
    Show,
}

/// Where the answer goes.
pub(crate) type TapeReply = oneshot::Sender<Result<Option<Recorded>, RecordError>>;

impl Agent {
    /// Writes down what the loop was told since; ends a recording that is full or cannot be written.
    pub(super) fn write_down(&mut self, audience: &mut dyn Audience) {
        let Some(recording) = &self.recording else { return };
        match recording.standing() {
            Standing::Going | Standing::Ended => return recording.add(self.events.take_recording()),
            Standing::Full => audience.unrecorded("the recording is as long as it may be and ends here"),
            Standing::Failed => audience.unrecorded("warning: the recording cannot be written and ends here"),
        }
        // Whatever is left is written without anybody waiting for it.
        recording.add(self.events.end_recording());
        self.recording = None;
    }

    /// Ends the recording with the graph as it is, and waits until it is written.
    pub(super) fn end_recording(&mut self) {
        let lines = self.events.end_recording();
        if let Some(recording) = self.recording.take() {
            recording.add(lines);
            recording.end();
        }
    }

    /// Takes up what is asked about the recording; what has to wait for the loop is [kept](Self::see_to_tape).
    pub(super) fn tape(&mut self, asked: Tape, reply: TapeReply) {
        let answer = match asked {
            Tape::Begin(file, most) => match self.may_record(&file) {
                Ok(()) => return self.to_record.push_back((file, most, reply)),
                Err(error) => Err(error),
            },
            Tape::End => match self.recording.take() {
                None => self.told().map(Some).ok_or(RecordError::Nothing),
                Some(recording) => {
                    recording.add(self.events.end_recording());
                    // A slow disk holds up nobody. Whoever does not wait any more needs no answer; here and below.
                    tokio::task::spawn_blocking(move || {
                        reply.send(Ok(Some(recording.end()))).unwrap_or_default()
                    });
                    return;
                }
            },
            Tape::Show => Ok(self.told()),
        };
        let _ = reply.send(answer);
    }

    /// The recording that is written, or the last one that was.
    fn told(&self) -> Option<Recorded> {
        self.recorded.as_ref().map(Trace::told)
    }

    /// Between two events: begins the recording that is asked for, if nothing follows from what was.
    pub(super) fn see_to_tape(&mut self) {
        if self.to_record.is_empty() || !self.events.may_start_over() {
            return;
        }
        while let Some((file, most, reply)) = self.to_record.pop_front() {
            let begun = self.may_record(&file).and_then(|()| self.begin_recording(&file, most));
            let _ = reply.send(begun.map(Some));
        }
    }

    fn may_record(&self, file: &Path) -> Result<(), RecordError> {
        match &self.recording {
            Some(recording) => Err(RecordError::Recorded { path: recording.file().to_owned() }),
            None if !file.is_absolute() => Err(RecordError::Partial { path: file.to_owned() }),
            None => Ok(()),
        }
    }

    fn begin_recording(&mut self, file: &Path, most: Option<u64>) -> Result<Recorded, RecordError> {
        let mut recording = Recording::make(file, most.unwrap_or(self.record_most))?;
        let now = self.clock.now();
        let trace = self.recorded.insert(recording.begin(now));
        let told = trace.told();
        let resync = self.events.start_over(now);
        self.ordered.push(Ordered::new(resync, Work::Begin(Vec::new(), None)));
        self.events.record(&program(), now);
        self.kinds.iter().for_each(|kind| self.events.note_kind(kind));
        self.recording = Some(recording);
        Ok(told)
    }
}
