//! Stored plans: what was asked, the steps, and the graph they stand on, in a file.

use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use kilter_api::v1::{Plan, PlanRequest};
use serde::{Deserialize, Serialize};

/// What a stored plan calls itself.
const FORM: &str = "kilter plan v1";

/// Nobody else may read it.
const OWNER_ONLY: u32 = 0o600;

/// A plan in a file: carried out exactly, or refused with what changed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredPlan {
    form: String,
    /// What was asked.
    pub(crate) request: PlanRequest,
    /// What would be done about it.
    pub(crate) plan: Plan,
}

/// Why a plan could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoredPlanError {
    /// The file cannot be written.
    #[error("failed to store the plan in `{}`", .0.display())]
    Unwritable(PathBuf, #[source] std::io::Error),
    /// The file cannot be read.
    #[error("failed to read `{}`", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// The file holds something else.
    #[error("`{}` is no stored plan, hint: documents are given with `-f`; `kilter plan -o FILE` stores a plan", .0.display())]
    NotAPlan(PathBuf, #[source] Option<serde_json::Error>),
}

impl StoredPlan {
    /// A plan as it will be stored.
    pub(crate) fn new(request: PlanRequest, plan: Plan) -> Self {
        Self { form: FORM.to_owned(), request, plan }
    }

    /// Writes it to a file that only its owner may read: the documents in it may hold secrets.
    pub(crate) fn write(&self, path: &Path) -> Result<(), StoredPlanError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path)?;
            // A file that was there before keeps its mode when it is opened. What is no file has none to change.
            if file.metadata()?.is_file() {
                file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
            }
            file.write_all(text.as_bytes())
        };
        write().map_err(|error| StoredPlanError::Unwritable(path.to_owned(), error))
    }

    /// Reads it from a file.
    pub(crate) fn read(path: &Path) -> Result<Self, StoredPlanError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| StoredPlanError::Unreadable(path.to_owned(), error))?;
        let stored: Self = serde_json::from_str(&text)
            .map_err(|error| StoredPlanError::NotAPlan(path.to_owned(), Some(error)))?;
        match stored.form == FORM {
            true => Ok(stored),
            false => Err(StoredPlanError::NotAPlan(path.to_owned(), None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_plan_is_for_its_owner_only_also_in_place_of_another_file() {
        let path = std::env::temp_dir().join(format!("kilter-stored-plan-{}", std::process::id()));
        std::fs::write(&path, "something that everybody may read, and that is longer than nothing").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let stored = StoredPlan::new(PlanRequest::default(), Plan::default());
        stored.write(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let read = StoredPlan::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mode & 0o777, OWNER_ONLY);
        assert_eq!(read.unwrap().request, PlanRequest::default());
    }
}
