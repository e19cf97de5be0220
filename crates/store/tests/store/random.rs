//! Random commits against a plain model: a map per revision.

use std::collections::BTreeMap;

use kilter_store::embedded::{Embedded, Settings};
use kilter_store::{
    Change, Commit, Expected, Item, LeaseId, News, Range, Revision, Store, StoreError, Watch,
};
use kilter_testkit::dice::Dice;

use crate::disk::Disk;
use crate::suite::next;

type Items = BTreeMap<String, Item>;

/// What the store should hold: the items after each revision.
struct Model {
    after: Vec<Items>,
    oldest: usize,
    leases: Vec<LeaseId>,
}

impl Model {
    fn now(&self) -> &Items {
        self.after.last().expect("there is a beginning")
    }

    fn head(&self) -> Revision {
        Revision(self.after.len() as u64 - 1)
    }

    /// Makes a commit, or says that it conflicts.
    fn commit(&mut self, commit: &Commit) -> Result<Revision, ()> {
        let now = self.now();
        if commit.compare.iter().any(|compare| !compare.expected.holds(now.get(&compare.key))) {
            return Err(());
        }
        let revision = self.head().next();
        let mut items = now.clone();
        for put in &commit.puts {
            let previous = items.get(&put.key);
            let item = Item {
                key: put.key.clone(),
                value: put.value.clone(),
                created: previous.map_or(revision, |previous| previous.created),
                modified: revision,
                version: previous.map_or(1, |previous| previous.version + 1),
                lease: commit.lease,
            };
            items.insert(put.key.clone(), item);
        }
        for key in &commit.deletes {
            items.remove(key);
        }
        if items != *self.now() {
            self.after.push(items);
        }
        Ok(self.head())
    }

    fn revoke(&mut self, lease: LeaseId) -> Revision {
        self.leases.retain(|known| *known != lease);
        let of = self.now().values().filter(|item| item.lease == Some(lease));
        let deletes = of.map(|item| item.key.clone()).collect();
        self.commit(&Commit { deletes, ..Commit::default() }).expect("nothing is compared")
    }
}

fn random_key(dice: &mut Dice) -> String {
    format!("{}/{}", ["a", "ab", "b"][dice.below(3)], dice.below(4))
}

fn random_commit(dice: &mut Dice, model: &Model) -> Commit {
    let mut commit = Commit::new();
    for _ in 0..dice.below(4) {
        let key = random_key(dice);
        let known = commit.puts.iter().any(|put| put.key == key) || commit.deletes.contains(&key);
        match (known, dice.below(3)) {
            (true, _) => {}
            (false, 0) => commit = commit.delete(key),
            (false, _) => commit = commit.put(key, vec![dice.below(256) as u8; dice.below(2000)]),
        }
    }
    if dice.one_in(3) {
        let key = random_key(dice);
        let expected = match (dice.below(4), model.now().get(&key)) {
            (0, _) => Expected::Absent,
            (1, _) => Expected::Present,
            (2, Some(item)) => Expected::Value(item.value.clone()),
            (_, Some(item)) => Expected::Modified(item.modified),
            (_, None) => Expected::Modified(model.head()),
        };
        commit = commit.expect(key, expected);
    }
    if dice.one_in(4)
        && let Some(lease) = dice.pick(&model.leases)
    {
        commit = commit.under(*lease);
    }
    commit
}

/// Reads a random range page by page, as of a random revision, and holds it against the model.
async fn check_range(store: &Embedded, model: &Model, dice: &mut Dice) {
    let at = dice.below(model.after.len());
    let prefix = ["", "a", "a/", "ab/", "b", "c"][dice.below(6)];
    let mut range = Range::of(prefix).at(Revision(at as u64)).pages_of(1 + dice.below(5));
    let mut read = Vec::new();
    loop {
        match store.range(range.clone()).await {
            Ok(page) => {
                read.extend(page.items.iter().cloned());
                match range.following(&page) {
                    Some(following) => range = following,
                    None => break,
                }
            }
            Err(StoreError::Compacted { oldest, .. }) => {
                assert!(at < model.oldest);
                assert_eq!(oldest, Revision(model.oldest as u64));
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(at >= model.oldest, "revision {at} was compacted");
    let expected = model.after[at].values().filter(|item| item.key.starts_with(prefix));
    assert_eq!(read, expected.cloned().collect::<Vec<_>>(), "`{prefix}` at {at}");
}

/// Follows a watch to the newest revision; what it tells leads from one state of the model to the next.
async fn check_watch(store: &Embedded, model: &Model, dice: &mut Dice) {
    let start = model.oldest + dice.below(model.after.len() - model.oldest);
    let prefix = ["", "a", "b/"][dice.below(3)];
    let mut watch: Watch = store.watch(prefix, Revision(start as u64)).await.unwrap();
    let below = |at: usize| -> Items {
        let items = model.after[at].iter().filter(|(key, _)| key.starts_with(prefix));
        items.map(|(key, item)| (key.clone(), item.clone())).collect()
    };
    let mut replica = below(start);
    let mut reached = Revision(start as u64);
    while reached < model.head() {
        match next(&mut watch).await.unwrap() {
            News::Progress(revision) => {
                assert!(revision > reached);
                reached = revision;
            }
            News::Commit(told) => {
                assert!(told.revision > reached && !told.changes.is_empty());
                reached = told.revision;
                for change in told.changes {
                    match change {
                        Change::Put(item) => drop(replica.insert(item.key.clone(), item)),
                        Change::Deleted(key) => {
                            assert!(replica.remove(&key).is_some(), "{key} was not there")
                        }
                    }
                }
            }
        }
        assert_eq!(replica, below(usize::try_from(reached.0).unwrap()), "after {reached}");
    }
}

/// One random step.
async fn step(store: &Embedded, model: &mut Model, dice: &mut Dice) {
    match dice.below(20) {
        0 => {
            let before = dice.below(model.after.len());
            store.compact(Revision(before as u64)).await.unwrap();
            model.oldest = model.oldest.max(before);
        }
        1 => {
            let lease = store.grant(std::time::Duration::from_secs(1000)).await.unwrap();
            assert!(!model.leases.contains(&lease.id));
            model.leases.push(lease.id);
        }
        2 => {
            if let Some(lease) = dice.pick(&model.leases).copied() {
                assert_eq!(store.revoke(lease).await.unwrap().revision, model.revoke(lease));
            }
        }
        3..6 => check_range(store, model, dice).await,
        6 => check_watch(store, model, dice).await,
        7 => {
            let key = random_key(dice);
            assert_eq!(store.get(&key).await.unwrap().item.as_ref(), model.now().get(&key));
        }
        _ => {
            let commit = random_commit(dice, model);
            match (store.commit(commit.clone()).await, model.commit(&commit)) {
                (Ok(committed), Ok(revision)) => assert_eq!(committed.revision, revision),
                (Err(StoreError::Conflict { .. }), Err(())) => {}
                (answer, expected) => panic!("{commit:?}: {answer:?}, expected {expected:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_agree_with_a_plain_model() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let disk = Disk::default();
        let settings = Settings { keep_revisions: None, ..Settings::default() };
        let open = || Embedded::open_on("disk", disk.medium(), settings.clone()).unwrap();
        let mut store = open();
        let mut model = Model { after: vec![Items::new()], oldest: 0, leases: Vec::new() };
        for _ in 0..150 {
            if dice.one_in(50) {
                drop(store);
                store = open();
            }
            step(&store, &mut model, &mut dice).await;
        }
        check_watch(&store, &model, &mut dice).await;
    }
}
