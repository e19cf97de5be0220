//! The file that outlives the agent: a line for each place, the last one of a place counts.
//!
//! Decided here: how little is written for one change, and how the file stays small. What a line means is not known here.
//! It holds for one start of the machine, so nothing has to reach the disk: a process that is killed loses nothing that it
//! has written.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::Place;
use crate::netlink::Refusal;
use crate::parameters::boot;

/// How many lines there may be besides twice those that count.
const SPARE: usize = 64;

/// What is known, by place and field.
pub(super) type Known = HashMap<Place, Map<String, Json>>;

/// The file, if there is one.
#[derive(Debug, Default)]
pub(super) struct Lines {
    path: Option<PathBuf>,
    /// The file as it is added to; nothing while it has to be written whole first.
    open: Option<File>,
    count: usize,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Heading {
    boot: String,
}

/// Any other line: all that is known of a place, which may be nothing.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    place: Place,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Json>,
}

impl Lines {
    /// What an earlier run has written; nothing if that was before the machine was started, or without a file.
    pub(super) fn open(path: Option<PathBuf>) -> Result<(Self, Known), Refusal> {
        let known = match &path {
            Some(path) => read(path)?,
            None => Known::new(),
        };
        Ok((Self { path, open: None, count: 0 }, known))
    }

    /// Writes what is known of these places.
    pub(super) fn write(&mut self, known: &Known, places: &[Place]) -> Result<(), Refusal> {
        let Some(path) = &self.path else { return Ok(()) };
        let written = match &mut self.open {
            Some(file) if self.count + places.len() <= 2 * known.len() + SPARE => {
                let line = |place: &Place| line(*place, known.get(place));
                let text = places.iter().map(line).collect::<Result<String, Refusal>>()?;
                self.count += places.len();
                file.write_all(text.as_bytes()).map_err(Refusal::from)
            }
            _ => whole(path, known).map(|file| {
                self.count = known.len();
                self.open = Some(file);
            }),
        };
        if written.is_err() {
            // What is there may end in the middle of a line.
            self.open = None;
        }
        written
    }
}

fn line(place: Place, fields: Option<&Map<String, Json>>) -> Result<String, Refusal> {
    let line = Line { place, fields: fields.cloned().unwrap_or_default() };
    let text = serde_json::to_string(&line).map_err(std::io::Error::other)?;
    Ok(text + "\n")
}

/// Replaces the file by one with what is known, at once.
fn whole(path: &Path, known: &Known) -> Result<File, Refusal> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string(&Heading { boot: boot()? }).map_err(std::io::Error::other)? + "\n";
    for (place, fields) in known {
        text.push_str(&line(*place, Some(fields))?);
    }
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, path)?;
    Ok(file)
}

fn read(path: &Path) -> Result<Known, Refusal> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Known::new()),
        Err(error) => return Err(error.into()),
    };
    let mut known = Known::new();
    let mut lines = text.split_inclusive('\n');
    let heading: Heading = match lines.next() {
        Some(first) => serde_json::from_str(first).map_err(std::io::Error::other)?,
        None => return Ok(known),
    };
    if heading.boot != boot()? {
        return Ok(known);
    }
    // One without an end was not written whole: what it was about has not been done.
    for line in lines.filter(|line| line.ends_with('\n')) {
        let Line { place, fields } = serde_json::from_str(line).map_err(std::io::Error::other)?;
        if fields.is_empty() {
            known.remove(&place);
        } else {
            known.insert(place, fields);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    fn fields(value: u32) -> Map<String, Json> {
        [("mtu".to_owned(), Json::from(value))].into_iter().collect()
    }

    #[test]
    fn what_was_written_is_read_by_the_next_run_also_after_a_line_that_was_cut_off() {
        let folder = tempfile();
        let path = folder.join("fields");
        let (mut lines, mut known) = Lines::open(Some(path.clone())).unwrap();
        assert_eq!(known, Known::new());
        let [one, two] = [1, 2].map(|index| Place::at(7, index, Side::Link));
        for place in [one, two] {
            known.insert(place, fields(1400));
            lines.write(&known, &[place]).unwrap();
        }
        known.remove(&one);
        lines.write(&known, &[one]).unwrap();
        assert_eq!(Lines::open(Some(path.clone())).unwrap().1, known);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"netns\":7,\"ind");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Lines::open(Some(path.clone())).unwrap().1, known);
        let other = text.replacen(&boot().unwrap(), "another", 1);
        std::fs::write(&path, other).unwrap();
        assert_eq!(Lines::open(Some(path)).unwrap().1, Known::new(), "the machine was started since");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_file_does_not_grow_with_the_number_of_changes() {
        let folder = tempfile();
        let path = folder.join("fields");
        let (mut lines, mut known) = Lines::open(Some(path.clone())).unwrap();
        let place = Place::at(7, 3, Side::Existing);
        for change in 0..10_000 {
            known.insert(place, fields(change));
            lines.write(&known, &[place]).unwrap();
            known.remove(&place);
            lines.write(&known, &[place]).unwrap();
        }
        let count = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(count <= SPARE + 3, "{count}");
        assert_eq!(Lines::open(Some(path)).unwrap().1, Known::new());
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn tempfile() -> PathBuf {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("kilter-former-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
