//! Gathering the texts of files and folders. The one place of this crate that touches the file system.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Source;

/// Why a file or folder could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read `{}`", .path.display())]
pub struct Unread {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// Everything that could not be read.
#[derive(Debug, thiserror::Error)]
pub struct GatherError(pub Vec<Unread>);

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, unread) in self.0.iter().enumerate() {
            write!(f, "{}{unread}: {}", if at == 0 { "" } else { "\n" }, unread.cause)?;
        }
        Ok(())
    }
}

/// The texts of these files, and of the documents in these folders and the folders below.
///
/// A file that is named is read whatever it is called. In a folder, documents end in `.yaml`, `.yml` or `.json`, are
/// taken in the order of their names, and nothing whose name begins with a dot is looked at. Links to folders are not
/// followed.
pub fn gather(paths: &[impl AsRef<Path>]) -> Result<Vec<Source>, GatherError> {
    let mut sources = Vec::new();
    let mut unread = Vec::new();
    // What is still to be read, the next one last.
    let mut waiting: Vec<PathBuf> = paths.iter().rev().map(|path| path.as_ref().to_owned()).collect();
    while let Some(path) = waiting.pop() {
        let read = if path.is_dir() {
            folder(&path).map(|mut below| waiting.append(&mut below))
        } else {
            std::fs::read_to_string(&path).map(|text| sources.push(Source::new(path.to_string_lossy(), text)))
        };
        if let Err(cause) = read {
            unread.push(Unread { path, cause });
        }
    }
    if unread.is_empty() { Ok(sources) } else { Err(GatherError(unread)) }
}

/// What is to be read in a folder, the first one last.
fn folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_document = [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
        let is_wanted = entry.file_type()?.is_dir() || is_document && entry.path().is_file();
        if is_wanted && !name.starts_with('.') {
            below.push(entry.path());
        }
    }
    below.sort_by(|one, other| other.cmp(one));
    Ok(below)
}
