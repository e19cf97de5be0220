//! The source of a distributor: the items of a store, read and watched, or read again and again.
//!
//! Decided here: what a commit of the store is to the publish/subscribe layer, and which failures of the store mean that
//! its past is lost. When to read and when to watch is decided by [`kilter_pubsub::Distributor`].

use std::collections::BTreeSet;
use std::sync::Arc;

use kilter_pubsub::transport::Hub;
use kilter_pubsub::{
    Change, Commit, ItemKey, LogId, Publisher, Request, Revision, SourceRead, SourceState, SourceUnavailable,
    Topic,
};
use kilter_store::{
    Change as StoreChange, Item, News, Range, Revision as StoreRevision, Store, StoreError, Told,
};
use kilter_store::{Identity, Watch};
use tokio::task::JoinSet;

use super::layout::Layout;

/// How many items are read at once.
const PAGE: usize = 2000;

/// What a watch that cannot go on means.
enum Ending {
    /// It may go on later.
    Lost,
    /// What it would tell is not known any more.
    Compacted,
}

impl From<StoreError> for Ending {
    fn from(error: StoreError) -> Self {
        // A store that is behind what was read is another one, or lost something.
        let is_past = matches!(error, StoreError::Compacted { .. } | StoreError::Ahead { .. });
        if is_past { Self::Compacted } else { Self::Lost }
    }
}

/// The items of a store that are declared for topics.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    store: Arc<dyn Store>,
    layout: Layout,
}

impl Source {
    pub(crate) fn new(store: Arc<dyn Store>, layout: Layout) -> Self {
        Self { store, layout }
    }

    /// Does what a hub asks of its source, as long as somebody waits for this.
    pub(crate) async fn serve(self, hub: Arc<Hub>) {
        let mut watch: Option<Watch> = None;
        let mut reads = JoinSet::new();
        loop {
            let news = async {
                match &mut watch {
                    Some(watch) => watch.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                request = hub.request() => match request {
                    Request::Read { read } => {
                        let (source, hub) = (self.clone(), Arc::clone(&hub));
                        // A long read does not hold up what happens meanwhile.
                        reads.spawn(async move { hub.source_read(read, source.read_everything().await) });
                    }
                    Request::Watch { log, after } => {
                        watch = match self.watch(log, after).await {
                            Ok(watch) => Some(watch),
                            Err(ending) => end(&hub, ending),
                        };
                    }
                    Request::Poll { log, after } => {
                        if let Err(ending) = self.poll(&hub, log, after).await {
                            end(&hub, ending);
                        }
                    }
                },
                news = news => match news {
                    Ok(News::Commit(told)) => hub.committed(self.commit(told)),
                    Ok(News::Progress(StoreRevision(rev))) => hub.with(|core, now| core.progressed(rev, now)),
                    Err(error) => watch = end(&hub, error.into()),
                },
                Some(_) = reads.join_next() => {}
            }
        }
    }

    /// The log of a store in one incarnation, as everybody names it who reads the same prefix.
    fn log_of(&self, identity: Identity) -> LogId {
        LogId::of(&format!("{identity} {}", self.layout.prefix()))
    }

    async fn watch(&self, log: LogId, after: Revision) -> Result<Watch, Ending> {
        if self.log_of(self.store.identity().await?) != log {
            return Err(Ending::Compacted);
        }
        Ok(self.store.watch(&self.layout.items(), StoreRevision(after)).await?)
    }

    /// Tells what happened after a revision, as one commit: what a read shows and the hub does not hold.
    async fn poll(&self, hub: &Hub, log: LogId, after: Revision) -> Result<(), Ending> {
        if self.log_of(self.store.identity().await?) != log {
            return Err(Ending::Compacted);
        }
        let head = self.store.get(&self.layout.items()).await?.revision.0;
        if head > after {
            let (_, rev, items) = self.read(self.layout.items()).await?;
            let changes = hub.with(|core, _| differences(core.published(), items, rev));
            if !changes.is_empty() {
                hub.committed(Commit { rev, changes });
            }
            hub.with(|core, now| core.progressed(rev, now));
            return Ok(());
        }
        if head < after {
            return Err(Ending::Compacted);
        }
        hub.with(|core, now| core.progressed(head, now));
        Ok(())
    }

    fn commit(&self, told: Told) -> Commit {
        let rev = told.revision.0;
        let changes = told.changes.into_iter().filter_map(|change| match change {
            StoreChange::Put(item) => self.put(item),
            StoreChange::Deleted(key) => {
                let (topic, item) = self.layout.parse_item(&key)?;
                Some((topic, Change::delete(item, rev)))
            }
        });
        Commit { rev, changes: changes.collect() }
    }

    fn put(&self, item: Item) -> Option<(Topic, Change)> {
        let (topic, key) = self.layout.parse_item(&item.key)?;
        Some((topic, Change::put(key, item.modified.0, item.value)))
    }

    async fn read_everything(&self) -> Result<SourceState, SourceUnavailable> {
        let (log, rev, items) = self.read(self.layout.items()).await.map_err(|_| SourceUnavailable)?;
        Ok(SourceState { log, rev, items })
    }

    /// Reads one topic, for whoever reaches no distributor.
    pub(crate) async fn read_topic(&self, topic: &Topic) -> Result<SourceRead, SourceUnavailable> {
        let prefix = self.layout.topic(topic.as_str());
        let (log, rev, items) = self.read(prefix).await.map_err(|_| SourceUnavailable)?;
        Ok(SourceRead { log, rev, items: items.into_iter().map(|(_, change)| change).collect() })
    }

    /// Everything below a prefix at one revision. Pages that cannot all be read are nothing.
    async fn read(&self, prefix: String) -> Result<(LogId, Revision, Vec<(Topic, Change)>), StoreError> {
        let log = self.log_of(self.store.identity().await?);
        let mut range = Range::of(prefix).pages_of(PAGE);
        let mut items = Vec::new();
        loop {
            let page = self.store.range(range.clone()).await?;
            let next = range.following(&page);
            let rev = page.revision.0;
            items.extend(page.items.into_iter().filter_map(|item| self.put(item)));
            match next {
                Some(next) => range = next,
                None => return Ok((log, rev, items)),
            }
        }
    }
}

/// What makes what is published what was read at a revision.
fn differences(published: &Publisher, items: Vec<(Topic, Change)>, rev: Revision) -> Vec<(Topic, Change)> {
    let version = |topic: &Topic, item: &ItemKey| {
        let entry = published.view(topic).and_then(|view| view.items().get(item));
        entry.map(|entry| entry.version)
    };
    let there: BTreeSet<(Topic, ItemKey)> =
        items.iter().map(|(topic, change)| (topic.clone(), change.item.clone())).collect();
    let held = published.topics().filter_map(|topic| Some((topic, published.view(topic)?)));
    let held =
        held.flat_map(|(topic, view)| view.items().keys().map(move |item| (topic.clone(), item.clone())));
    let gone = held.filter(|held| !there.contains(held));
    let gone: Vec<_> = gone.map(|(topic, item)| (topic, Change::delete(item, rev))).collect();
    let new = items.into_iter();
    let new = new.filter(|(topic, change)| version(topic, &change.item) != Some(change.version));
    gone.into_iter().chain(new.collect::<Vec<_>>()).collect()
}

fn end(hub: &Hub, ending: Ending) -> Option<Watch> {
    hub.with(|core, now| match ending {
        Ending::Lost => core.tail_lost(now),
        Ending::Compacted => core.tail_compacted(),
    });
    None
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use kilter_pubsub::{Delivery, Settings, Tail};
    use kilter_store::Commit as StoreCommit;
    use kilter_store::embedded::{Embedded, Settings as EmbeddedSettings};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// What a hub holds of a topic.
    fn held(hub: &Hub, topic: &str) -> Vec<String> {
        hub.with(|core, _| {
            let view = core.published().view(&Topic::new(topic));
            view.iter().flat_map(|view| view.items().keys()).map(|item| item.key.to_string()).collect()
        })
    }

    async fn until(hub: &Hub, topic: &str, wanted: &[&str]) {
        let deadline = Instant::now() + DEADLINE;
        while held(hub, topic) != wanted {
            assert!(Instant::now() < deadline, "{:?}, not {wanted:?}", held(hub, topic));
            tokio::time::sleep(Duration::from_millis(5)).await; // until the deadline
        }
    }

    async fn hub(poll_interval: Duration) -> (tempfile::TempDir, Arc<dyn Store>, Arc<Hub>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(&directory.path().join("store"), EmbeddedSettings::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let settings = Settings { tail: Tail::Poll, poll_interval, ..Settings::default() };
        let hub = Hub::start(settings.clone(), Delivery::Cursors, settings.tail, 1, 1);
        tokio::spawn(Source::new(Arc::clone(&store), Layout::new("kilter/")).serve(Arc::clone(&hub)));
        (directory, store, hub)
    }

    #[tokio::test]
    async fn a_store_that_is_polled_tells_what_is_put_and_deleted() {
        let (_directory, store, hub) = hub(Duration::from_millis(20)).await;
        let (a, b) = ("kilter/items/all/a", "kilter/items/node:n1/b");
        store.commit(StoreCommit::new().put(a, "1").put(b, "1")).await.unwrap();
        until(&hub, "all", &["a"]).await;
        until(&hub, "node:n1", &["b"]).await;
        store.commit(StoreCommit::new().put("kilter/items/all/c", "1").delete(a)).await.unwrap();
        until(&hub, "all", &["c"]).await;
        store.commit(StoreCommit::new().put("kilter/nodes/n1", "1")).await.unwrap();
        let head = store.get(a).await.unwrap().revision.0;
        let deadline = Instant::now() + DEADLINE;
        while hub.with(|core, _| core.published().head()) < head {
            assert!(Instant::now() < deadline, "the head does not move");
            tokio::time::sleep(Duration::from_millis(5)).await; // until the deadline
        }
        assert_eq!(held(&hub, "node:n1"), ["b"]);
    }

    #[tokio::test]
    async fn a_poke_lets_a_store_be_asked_at_once() {
        let (_directory, store, hub) = hub(Duration::from_secs(3600)).await;
        store.commit(StoreCommit::new().put("kilter/items/all/first", "1")).await.unwrap();
        let deadline = Instant::now() + DEADLINE;
        // It may be read before or after the first commit, and is asked once behind that.
        while held(&hub, "all") != ["first"] {
            assert!(Instant::now() < deadline, "it is never read");
            hub.with(|core, now| core.poke(now));
            tokio::time::sleep(Duration::from_millis(5)).await; // until the deadline
        }
        store.commit(StoreCommit::new().put("kilter/items/all/second", "1")).await.unwrap();
        hub.with(|core, now| core.poke(now));
        until(&hub, "all", &["first", "second"]).await;
    }
}
