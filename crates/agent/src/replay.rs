//! `kilter replay`: a recorded run once more, against the answers that were recorded.
//!
//! Decided here: how a recording is read from its file, and how the replay is told. Nothing is touched: the loop has
//! every kind and handler, and no actuator. Not decided here: what is held against what; see [`kilter_events::replay`].

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use kilter_cli::daemon::Replay;
use kilter_cli::{CommandError, Exit, Output, chain};
use kilter_events::{EventKinds, EventLoop, Line, ReplayError, Replayed, Settings, Step};
use kilter_model::remote::RemoteItem;
use kilter_model::typed::read_value;
use kilter_scheduler::render::one_line;
use kilter_scheduler::{Key, Timestamp, ValueRef, render};
use serde_json::Value as Json;

use crate::assemble::{AssembleError, event_loop};
use crate::remote::written::replayed;

/// Why a file is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("failed to read `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is no line of a recording.
    #[error("{}:{line}: this is no line of a recording", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The first line does not begin a run.
    #[error("{}: a recording begins with `started`", .path.display())]
    Beginning {
        /// The file.
        path: PathBuf,
    },
    /// A line cannot have been written by a run of this program.
    #[error("{}:{line}: this cannot be replayed here, hint: it was recorded by {by}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The program that recorded it.
        by: String,
        /// Why.
        #[source]
        source: ReplayError,
    },
    /// The run was set as it cannot be.
    #[error("{}:1: the loop cannot be made as it was", .path.display())]
    Loop {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: AssembleError,
    },
}

/// What this program calls itself in a recording.
pub(crate) fn program() -> String {
    format!("kilter {}", env!("CARGO_PKG_VERSION"))
}

/// Replays a recording and tells the first difference.
pub fn replay(arguments: &Replay, output: &mut Output) -> Result<Exit, CommandError> {
    let recording = |error| CommandError::Recording(Box::new(error));
    let path = arguments.file.as_path();
    let mut lines = Lines::open(path).map_err(recording)?;
    let (started, mut events) = begin(path, &mut lines).map_err(recording)?;
    let mut told = Told { output, full: arguments.full, event: None, unsaid: None };
    let all = std::iter::once(started.line).chain(&mut lines);
    let replayed =
        kilter_events::replay(&mut events, all, &EventKinds::default(), &recorded, &replayed, |step| {
            told.step(step);
        });
    let (event, unsaid) = (told.event, told.unsaid);
    if let Some(error) = unsaid {
        return Err(error.into());
    }
    if let Some(error) = lines.wrong.take() {
        return Err(recording(error));
    }
    match replayed {
        Ok(replayed) => {
            output.print(&summary(&replayed, &lines, &started.by))?;
            Ok(Exit::Applied)
        }
        Err(ReplayError::Differs { line, recorded, replayed }) => {
            let meanwhile = event.map(|event| format!("  while it looked at {event}\n")).unwrap_or_default();
            let place = path.display();
            output.print(&format!(
                "{place}:{line}: the run has {recorded}, the replay has {replayed}\n{meanwhile}\
                 the run was recorded by {}, and replayed by {}\n",
                started.by,
                program()
            ))?;
            Ok(Exit::Differs)
        }
        Err(source) => {
            let (path, by) = (path.to_owned(), started.by);
            Err(recording(RecordingError::Foreign { path, line: source.line(), by, source }))
        }
    }
}

/// The line that begins a run, and who wrote it.
struct Started {
    line: Line,
    by: String,
}

/// The loop as it was when the run began.
fn begin(path: &Path, lines: &mut Lines) -> Result<(Started, EventLoop), RecordingError> {
    let line = match lines.next() {
        Some(line) => line,
        None => {
            return Err(lines.wrong.take().unwrap_or(RecordingError::Beginning { path: path.to_owned() }));
        }
    };
    let Line::Started { now, settings, by, .. } = &line else {
        return Err(RecordingError::Beginning { path: path.to_owned() });
    };
    let (now, settings, by): (Timestamp, Settings, String) = (*now, settings.clone(), one_line(by));
    let events = event_loop(settings, now);
    let events = events.map_err(|source| RecordingError::Loop { path: path.to_owned(), source })?;
    Ok((Started { line, by }, events))
}

/// The value of an item out of a recording; one of a remote kind was written down without its kind and its secrets.
pub fn recorded(key: &Key, json: &Json) -> Result<ValueRef, String> {
    let of_a_remote_kind = || {
        let kind =
            key.as_str().strip_suffix(json.get("name")?.as_str()?)?.strip_suffix('/')?.replace('/', ".");
        RemoteItem::recorded(&kind, json).filter(|item| item.key() == *key).map(ValueRef::new)
    };
    read_value(key, json).or_else(|error| of_a_remote_kind().ok_or_else(|| chain(&error)))
}

fn summary(replayed: &Replayed, lines: &Lines, by: &str) -> String {
    let (events, plans, read) = (replayed.events, replayed.plans.len(), lines.read);
    let graph = match (lines.ended, lines.cut) {
        (true, _) => "every plan and the graph at the end are the same",
        (false, false) => "every plan is the same; the run was killed, so its end is not recorded",
        (false, true) => "every plan is the same; the last line was cut off when the run was killed",
    };
    format!("{read} lines of {by}: {events} events, {plans} plans\n{graph}\n")
}

/// The lines of a file. **Guarantees** that a last line that was cut off is left out, and noted.
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    read: usize,
    ended: bool,
    cut: bool,
    wrong: Option<RecordingError>,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        let path = path.to_owned();
        match File::open(&path) {
            Ok(file) => {
                let file = BufReader::new(file);
                Ok(Self { path, file, read: 0, ended: false, cut: false, wrong: None })
            }
            Err(source) => Err(RecordingError::Unreadable { path, source }),
        }
    }
}

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        let mut text = Vec::new();
        if let Err(source) = self.file.read_until(b'\n', &mut text) {
            self.wrong = Some(RecordingError::Unreadable { path: self.path.clone(), source });
            return None;
        }
        if text.is_empty() {
            return None;
        }
        match serde_json::from_slice::<Line>(&text) {
            Ok(line) => {
                self.read += 1;
                self.ended = matches!(line, Line::Ended { .. });
                Some(line)
            }
            Err(_) if self.read > 0 && !text.ends_with(b"\n") => {
                self.cut = true;
                None
            }
            Err(source) => {
                let (path, line) = (self.path.clone(), self.read + 1);
                self.wrong = Some(RecordingError::Line { path, line, source });
                None
            }
        }
    }
}

/// Tells how the replay goes.
struct Told<'a> {
    output: &'a mut Output,
    full: bool,
    /// The event under way, as people call it.
    event: Option<String>,
    /// Why nothing can be told any more.
    unsaid: Option<std::io::Error>,
}

impl Told<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Opened(opening) => {
                let name = opening.description.lines().next().unwrap_or_default();
                self.event = Some(format!("event #{} {}", opening.seq, one_line(name)));
            }
            Step::Closed(record) => {
                let event = self.event.take().unwrap_or_default();
                let txn = record.txn.as_deref();
                let mut text = match txn {
                    Some(txn) => {
                        let operations = txn.steps().iter().filter(|step| step.is_operation()).count();
                        format!("{event}: txn #{}, {operations} operations\n", txn.seq)
                    }
                    None => format!("{event}\n"),
                };
                for failure in &record.failures {
                    text.push_str(&format!("  {}\n", one_line(failure)));
                }
                if let Some(txn) = txn.filter(|_| self.full) {
                    text.push_str(&render::opening(&txn.opening()));
                    text.push_str(&render::closing(txn));
                }
                if let Err(error) = self.output.print(&text) {
                    self.unsaid.get_or_insert(error);
                }
            }
            Step::Commit(_) | Step::Plan(_) | Step::Perform(_) | Step::Wait(_) | Step::Stopped => {}
            Step::Fatal(fatal) => self.event = Some(one_line(fatal)),
        }
    }
}
