//! The directory: documents on disk, read once at the start.

use std::collections::BTreeMap;

use kilter_events::builtin::{DatabaseResync, ExternalItems};
use kilter_model::document::Declared;

/// What the source is called.
pub const SOURCE: &str = "directory";

/// The startup resync: everything that the directory declares.
///
/// An item that fails does not make the loop heal everything: it is the user's, and is retried by itself.
pub fn startup(declared: &[Declared]) -> DatabaseResync {
    let items: ExternalItems = declared.iter().map(|item| (item.key.clone(), item.value.clone())).collect();
    DatabaseResync { external: BTreeMap::from([(SOURCE.to_owned(), items)]), ..DatabaseResync::default() }
}
