//! The verbs of a fleet: what is declared for many nodes, and how they stand.
//!
//! Decided here: how a person reaches the store of a cluster. What lies in it is decided in [`crate::cluster::layout`].

mod apply;
mod lead;
mod nodes;

use std::path::Path;
use std::time::Duration;

use kilter_cli::CommandError;

use crate::cluster::Settings;
use crate::cluster::door::Shelf;
use crate::cluster::layout::Layout;
use crate::cluster::settings::OpenError;
use crate::ending::{broken, refused};
use crate::settings::Settings as AllSettings;

pub use apply::apply;
pub use nodes::nodes;

/// How often it is looked how nodes stand.
const LOOK: Duration = Duration::from_millis(200);

/// The store of the cluster that the settings name.
struct Cluster {
    shelf: Shelf,
    layout: Layout,
}

impl Cluster {
    fn open(path: &Path) -> Result<Self, CommandError> {
        const CANNOT: &str = "the cluster cannot be reached";
        let settings = AllSettings::read(path).map_err(|error| refused(CANNOT, error))?;
        let settings: Settings =
            settings.cluster.ok_or(OpenError::NoStore).map_err(|error| refused(CANNOT, error))?;
        let shelf = Shelf::open(&settings).map_err(|error| refused(CANNOT, error))?;
        Ok(Self { shelf, layout: Layout::new(settings.prefix) })
    }
}

/// Does something that waits for the store.
fn wait_for<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| broken("failed to start", error))?.block_on(work)
}
