//! Which kernel parameters we changed, and what they were.
//!
//! A parameter carries no mark, so this is the mark. With a file it outlives the agent: a later run knows what an earlier
//! one changed, and can give it back. An entry counts only in the namespace that it was made in, known by a number
//! that is never used again, and only until the machine is started again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::netlink::Refusal;
use crate::space::{Space, locked};

/// The file that says which start of the machine this is.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A parameter in a namespace: the number of the namespace, and the name.
type Place = (u64, String);

/// Which kernel parameters we changed, and what they were.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    file: Option<PathBuf>,
    before: Mutex<BTreeMap<Place, String>>,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Written {
    boot: String,
    parameters: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    netns: u64,
    name: String,
    before: String,
}

impl Parameters {
    /// Remembers in a file, if one is given; one that is not there, or that was written before the machine was started,
    /// says nothing.
    pub(crate) fn open(file: Option<PathBuf>) -> Result<Self, Refusal> {
        let before = match &file {
            Some(file) => read(file)?,
            None => BTreeMap::new(),
        };
        Ok(Self { file, before: Mutex::new(before) })
    }

    /// Remembers what a parameter was, unless it is known already.
    ///
    /// **Assumes** that it is called before the parameter is changed: whoever dies in between has changed nothing.
    pub(crate) fn remember(&self, space: &Space, name: &str, value: String) -> Result<(), Refusal> {
        let mut before = locked(&self.before);
        if before.contains_key(&(space.cookie, name.to_owned())) {
            return Ok(());
        }
        before.insert((space.cookie, name.to_owned()), value);
        self.write(&before)
    }

    /// What a parameter was before we changed it; nothing if we did not.
    pub(crate) fn before(&self, space: &Space, name: &str) -> Option<String> {
        locked(&self.before).get(&(space.cookie, name.to_owned())).cloned()
    }

    /// Forgets a parameter.
    pub(crate) fn forget(&self, space: &Space, name: &str) -> Result<(), Refusal> {
        let mut before = locked(&self.before);
        match before.remove(&(space.cookie, name.to_owned())) {
            Some(_) => self.write(&before),
            None => Ok(()),
        }
    }

    /// The names of what we changed in a namespace.
    pub(crate) fn changed_in(&self, space: &Space) -> Vec<String> {
        let before = locked(&self.before);
        let here = before
            .range((space.cookie, String::new())..)
            .take_while(|((netns, _), _)| *netns == space.cookie);
        here.map(|((_, name), _)| name.clone()).collect()
    }

    /// Replaces the file by one with what is known, at once.
    fn write(&self, before: &BTreeMap<Place, String>) -> Result<(), Refusal> {
        let Some(file) = &self.file else { return Ok(()) };
        let entry = |((netns, name), before): (&Place, &String)| Entry {
            netns: *netns,
            name: name.clone(),
            before: before.clone(),
        };
        let written = Written { boot: boot()?, parameters: before.iter().map(entry).collect() };
        let text = serde_json::to_string_pretty(&written).map_err(std::io::Error::other)?;
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let beside = file.with_extension("new");
        std::fs::write(&beside, text)?;
        Ok(std::fs::rename(&beside, file)?)
    }
}

fn read(file: &Path) -> Result<BTreeMap<Place, String>, Refusal> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let written: Written = serde_json::from_str(&text).map_err(std::io::Error::other)?;
    if written.boot != boot()? {
        return Ok(BTreeMap::new());
    }
    let place = |entry: Entry| ((entry.netns, entry.name), entry.before);
    Ok(written.parameters.into_iter().map(place).collect())
}

/// Which start of the machine this is.
pub(crate) fn boot() -> Result<String, Refusal> {
    Ok(std::fs::read_to_string(BOOT)?.trim().to_owned())
}
