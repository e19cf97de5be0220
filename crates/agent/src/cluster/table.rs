//! The table of distributors, in the store: who is there, and who is not any more.
//!
//! Decided here: how a row is written, and that it also hangs on a lease of the store, so that the row of the last
//! distributor goes too. When a row is written or removed is decided by [`Discovery`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use kilter_pubsub::{Discovery, LogId, Moment, Neighbour, Revision, Row, Settings, TableRequest};
use kilter_store::{Commit, Expected, LeaseId, Range, Revision as StoreRevision, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::layout::Layout;

/// A row as it is written.
#[derive(Serialize, Deserialize)]
struct Line {
    instance: String,
    uri: String,
    log: String,
    head: Revision,
    beat: u64,
}

fn write(row: &Row) -> String {
    let line = Line {
        instance: format!("{:032x}", row.instance),
        uri: row.uri.clone(),
        log: row.log.to_string(),
        head: row.head,
        beat: row.beat,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

fn read(id: &str, text: &[u8]) -> Option<Row> {
    let line: Line = serde_json::from_slice(text).ok()?;
    let hex = |text: &str| u128::from_str_radix(text, 16).ok();
    let (instance, log) = (hex(&line.instance)?, LogId(hex(&line.log)?));
    Some(Row { id: id.to_owned(), instance, uri: line.uri, log, head: line.head, beat: line.beat })
}

/// One participant's part in the table.
pub(crate) struct Table {
    store: Arc<dyn Store>,
    layout: Layout,
    discovery: Discovery,
    /// How long a row outlasts its owner if nobody else removes it.
    outlasts: Duration,
    lease: Option<LeaseId>,
    started: Instant,
}

impl Table {
    /// A distributor with its row, or an onlooker without one.
    pub(crate) fn new(store: Arc<dyn Store>, layout: Layout, settings: &Settings, own: Option<Row>) -> Self {
        let outlasts = settings.lease + settings.lease_grace;
        let discovery = Discovery::new(settings.clone(), own, Moment::default());
        Self { store, layout, discovery, outlasts, lease: None, started: Instant::now() }
    }

    fn now(&self) -> Moment {
        Moment(self.started.elapsed())
    }

    /// Where others are.
    pub(crate) fn peers(&self) -> Vec<String> {
        self.discovery.peers()
    }

    /// What the next sign of life says.
    pub(crate) fn set_position(&mut self, log: LogId, head: Revision) {
        self.discovery.set_position(log, head);
    }

    /// Waits until a look is due.
    ///
    /// **Guarantees** that nothing is lost when it is dropped.
    pub(crate) async fn due(&self) {
        tokio::time::sleep(self.discovery.deadline().since(self.now())).await;
    }

    /// Gives a sign of life and looks at the others; the answer is who came and went. A store that is away is asked again
    /// the next time.
    pub(crate) async fn look(&mut self) -> Vec<Neighbour> {
        self.discovery.advance(self.now());
        while let Some(request) = self.discovery.request() {
            match request {
                TableRequest::Put { row, expected } => {
                    let written = self.put(&row, expected).await.ok();
                    self.discovery.written(written);
                }
                TableRequest::List => {
                    let Ok(rows) = self.list().await else { continue };
                    self.discovery.listed(rows, self.now());
                }
                TableRequest::Delete { id, expected } => {
                    let key = self.key(&id);
                    let expected = Expected::Modified(StoreRevision(expected));
                    // Whoever gave a sign of life meanwhile stays; and what is not removed now is removed later.
                    let _ = self.store.commit(Commit::new().expect(&key, expected).delete(&key)).await;
                }
            }
        }
        std::iter::from_fn(|| self.discovery.neighbour()).collect()
    }

    /// Takes the own row out, for a stop in order.
    pub(crate) async fn leave(&mut self) {
        if let Some(lease) = self.lease.take() {
            // A store that is away removes it when the lease runs out.
            let _ = self.store.revoke(lease).await;
        }
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}", self.layout.distributors())
    }

    async fn put(&mut self, row: &Row, expected: Option<Revision>) -> Result<Revision, StoreError> {
        let lease = self.lease().await?;
        let key = self.key(&row.id);
        let expected =
            expected.map_or(Expected::Absent, |version| Expected::Modified(StoreRevision(version)));
        let commit = Commit::new().expect(&key, expected).put(&key, write(row)).under(lease);
        let committed = self.store.commit(commit).await;
        if matches!(committed, Err(StoreError::NoSuchLease(_))) {
            self.lease = None;
        }
        Ok(committed?.revision.0)
    }

    /// The lease, from now on again as long as it lasts.
    async fn lease(&mut self) -> Result<LeaseId, StoreError> {
        if let Some(lease) = self.lease {
            match self.store.keep_alive(lease).await {
                Ok(kept) => return Ok(kept.id),
                Err(StoreError::NoSuchLease(_)) => self.lease = None,
                Err(error) => return Err(error),
            }
        }
        let lease = self.store.grant(self.outlasts).await?.id;
        self.lease = Some(lease);
        Ok(lease)
    }

    async fn list(&self) -> Result<Vec<(Row, Revision)>, StoreError> {
        let prefix = self.layout.distributors();
        let snapshot = self.store.range(Range::of(&prefix)).await?;
        let rows = snapshot.items.iter().filter_map(|item| {
            let row = read(item.key.strip_prefix(&prefix)?, &item.value)?;
            Some((row, item.modified.0))
        });
        Ok(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back() {
        let row = Row {
            id: "one".to_owned(),
            instance: 7,
            uri: "tcp://[::1]:8866".to_owned(),
            log: LogId::of("etcd 7"),
            head: 12,
            beat: 3,
        };
        assert_eq!(read("one", write(&row).as_bytes()), Some(row));
        assert_eq!(read("one", b"{}"), None);
    }
}
