//! An agent as a member of a cluster: its feed, what it tells about itself, and a distributor if it has one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kilter_events::Level;
use kilter_pubsub::transport::Follower;
use kilter_store::Store;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Settings;
use super::distributor::{DistributeError, Distributor};
use super::remarks;
use super::settings::{OpenError, StoreSettings};
use crate::desk::Desk;
use crate::feed::cluster::standing::Teller;
use crate::feed::cluster::{Feed, Reach};
use crate::handover::Handover;
use crate::telemetry::delivery::Delivery;

/// The component under which the store is reported.
const STORE: &str = "store";

/// How often it is counted what happened to delivery.
const COUNTED: Duration = Duration::from_secs(1);

/// How long the parts have to end.
const PARTING: Duration = Duration::from_secs(3);

/// Why an agent cannot be a member.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The store or the certificates cannot be used.
    #[error("failed to join the cluster")]
    Open(#[from] OpenError),
    /// Its distributor cannot be started.
    #[error("failed to start the distributor of the agent")]
    Distribute(#[from] DistributeError),
}

/// What an agent has of its cluster.
pub struct Member {
    distributor: Option<Distributor>,
    tasks: Vec<JoinHandle<()>>,
    /// What ends without a word.
    attending: Vec<JoinHandle<()>>,
}

impl Member {
    /// Joins the cluster. Nobody is waited for: a store that is away may come later.
    ///
    /// **Assumes** a tokio runtime.
    pub(crate) async fn join(
        settings: &Settings,
        desk: Desk,
        directory: &Path,
        handover: &Handover,
        delivery: Delivery,
    ) -> Result<Self, MemberError> {
        let store = settings.store.as_ref().map(StoreSettings::open).transpose()?;
        let distributor = match (&settings.distributor, &store) {
            (None, _) => None,
            (Some(_), None) => return Err(OpenError::NoStore.into()),
            (Some(_), Some(store)) => {
                // Who comes and goes beside it, its subscribers are told.
                let (told, _) = mpsc::unbounded_channel();
                Some(Distributor::start(settings, Arc::clone(store), told).await?)
            }
        };
        let hub = distributor.as_ref().map(|distributor| Arc::clone(distributor.hub()));
        let reach = Reach { store: store.clone(), hub };
        let mut attending = Vec::new();
        attending.extend(store.clone().map(|store| tokio::spawn(attend(store, desk.clone()))));
        let feed = Feed::start(settings.clone(), &reach, desk.clone(), directory.to_owned())?;
        let teller = store.map(|store| Teller::new(settings, store, desk, &feed, handover.clone()));
        attending.push(tokio::spawn(count(feed.follower(), delivery)));
        let mut tasks = vec![tokio::spawn(feed.run())];
        tasks.extend(teller.map(|teller| tokio::spawn(teller.run())));
        Ok(Self { distributor, tasks, attending })
    }

    /// Leaves, after the agent has ended: what is held is kept, and others are told.
    pub async fn leave(self) {
        self.attending.iter().for_each(JoinHandle::abort);
        for task in self.tasks {
            let _ = tokio::time::timeout(PARTING, task).await;
        }
        if let Some(distributor) = self.distributor {
            distributor.end().await;
        }
    }
}

/// Lets the health of the agent say what the owner of the store should know.
async fn attend(store: Arc<dyn Store>, desk: Desk) {
    let (remark, mut remarks) = mpsc::channel::<Vec<String>>(1);
    let telling = async {
        while let Some(lines) = remarks.recv().await {
            let level = if lines.is_empty() { Level::Fine } else { Level::Warning };
            desk.report(STORE, level, lines.join("; ")).await;
        }
    };
    tokio::join!(remarks::attend(store, remark), telling);
}

/// Counts what happens to delivery, as long as the agent follows anything.
async fn count(follower: Arc<Follower>, delivery: Delivery) {
    while let Some(near) = follower.nearness().await {
        delivery.note(&near);
        tokio::time::sleep(COUNTED).await;
    }
}
