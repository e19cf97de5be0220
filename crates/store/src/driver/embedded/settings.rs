//! What can be set about the embedded store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::{Clock, Monotonic};
use super::history::Bounds;

/// How the embedded store is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many revisions are kept behind the newest one; older ones are compacted as commits come. `None` keeps all
    /// until somebody compacts.
    pub keep_revisions: Option<u64>,
    /// How long each history may become, by its name. One that is not named grows without bound.
    pub histories: BTreeMap<String, Bounds>,
    /// Memory for pages of the file, in bytes.
    pub cache_bytes: usize,
    /// Whether everything is read and held against its checksums when the store is opened.
    pub verify: bool,
    /// The clock that leases run on.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keep_revisions: Some(10_000),
            histories: BTreeMap::new(),
            cache_bytes: 8 << 20,
            verify: true,
            clock: Arc::new(Monotonic::default()),
        }
    }
}
