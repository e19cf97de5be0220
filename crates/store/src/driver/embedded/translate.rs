//! Errors of the disk and of the file format, in the words of the store.

use std::any::Any;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use crate::StoreError;

/// What an I/O error means for whoever made the attempt.
pub(super) fn io(attempt: String, error: io::Error) -> StoreError {
    use ErrorKind as Kind;
    let kind = error.kind();
    let source = Arc::new(error);
    if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge) {
        StoreError::Full { attempt, source }
    } else if kind == Kind::ReadOnlyFilesystem {
        StoreError::ReadOnly { attempt, source }
    } else if kind == Kind::PermissionDenied {
        StoreError::Denied { attempt, source }
    } else if matches!(kind, Kind::UnexpectedEof | Kind::InvalidData) {
        StoreError::Corrupt { attempt, source }
    } else {
        StoreError::Unavailable { attempt, source }
    }
}

/// What is tried when the file is read.
pub(super) const READ: &str = "read the store";
/// What is tried when the file is written.
pub(super) const WRITE: &str = "write the store";

/// Puts what was tried to an error of the file format.
pub(super) trait Trying<T> {
    /// The error in the words of the store.
    fn trying(self, attempt: &str) -> Result<T, StoreError>;
}

impl<T, E: Into<redb::Error>> Trying<T> for Result<T, E> {
    fn trying(self, attempt: &str) -> Result<T, StoreError> {
        self.map_err(|error| redb(attempt, error))
    }
}

/// What an error of the file format means.
fn redb(attempt: &str, error: impl Into<redb::Error>) -> StoreError {
    let attempt = attempt.to_owned();
    let error = error.into();
    if let redb::Error::Io(error) = error {
        io(attempt, error)
    } else if matches!(error, redb::Error::DatabaseClosed) {
        StoreError::Closed
    } else if matches!(error, redb::Error::PreviousIo) {
        StoreError::Unavailable { attempt, source: Arc::new(error) }
    } else {
        StoreError::Corrupt { attempt, source: Arc::new(error) }
    }
}

/// A panic of the file format's library: it meets damage it did not expect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Panicked(String);

/// Runs what reads or writes the file; a panic inside is damage.
pub(super) fn guarded<T>(
    attempt: &str,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let source = Arc::new(Panicked(words(panic.as_ref())));
        Err(StoreError::Corrupt { attempt: attempt.to_owned(), source })
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why").to_owned()
}
