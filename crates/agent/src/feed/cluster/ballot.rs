//! What a node says about a joint change, under a lease: whoever leads it hears nothing of a node that is away.

use std::sync::Arc;
use std::time::Duration;

use kilter_store::{Commit, Expected, LeaseId, Store, StoreError};
use tokio::time::Instant;

use crate::cluster::joint::{Stage, Vote};

/// What a node says about one joint change.
pub(super) struct Ballot {
    store: Arc<dyn Store>,
    key: String,
    /// How long it stands without the node, and how often the node sees to it.
    ttl: Duration,
    renewal: Duration,
    lease: Option<LeaseId>,
    renewed: Instant,
    vote: Vote,
    /// Whether the store has it.
    is_written: bool,
}

impl Ballot {
    pub(super) fn new(store: Arc<dyn Store>, key: String, (ttl, renewal): (Duration, Duration)) -> Self {
        let (renewed, vote) = (Instant::now(), Vote { stage: Stage::Trying, reason: String::new() });
        Self { store, key, ttl, renewal, lease: None, renewed, vote, is_written: false }
    }

    /// How often the node sees to it.
    pub(super) fn renewal(&self) -> Duration {
        self.renewal
    }

    /// Says that the node tries the change, only if that is as expected.
    pub(super) async fn announce(&mut self, joint: String, expected: Expected) -> Result<(), StoreError> {
        self.write(Commit::new().expect(joint, expected)).await
    }

    /// Says how the node fares, if that is something else than before. A store that is away is told later.
    pub(super) async fn say(&mut self, stage: Stage, reason: String) {
        let vote = Vote { stage, reason };
        if self.vote != vote {
            (self.vote, self.is_written) = (vote, false);
        }
        if !self.is_written {
            // The next renewal tries again.
            let _ = self.write(Commit::new()).await;
        }
    }

    /// Lets it stand on, if it is time; the answer says whether the store has it from here on.
    pub(super) async fn renew(&mut self) -> bool {
        if self.is_written && self.renewed.elapsed() < self.renewal {
            return false;
        }
        if let (Some(lease), true) = (self.lease, self.is_written) {
            match self.store.keep_alive(lease).await {
                Ok(_) => {
                    self.renewed = Instant::now();
                    return true;
                }
                Err(StoreError::NoSuchLease(_)) => self.lease = None,
                Err(_) => return false,
            }
        }
        self.write(Commit::new()).await.is_ok()
    }

    async fn write(&mut self, commit: Commit) -> Result<(), StoreError> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => self.store.grant(self.ttl).await?.id,
        };
        self.lease = Some(lease);
        let text = serde_json::to_string(&self.vote).unwrap_or_default();
        let written = self.store.commit(commit.put(&self.key, text).under(lease)).await;
        if matches!(written, Err(StoreError::NoSuchLease(_))) {
            self.lease = None;
        }
        self.is_written = written.is_ok();
        written?;
        self.renewed = Instant::now();
        Ok(())
    }
}
