//! Power cuts and kills: what was acknowledged is there, and nothing by halves.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use kilter_store::embedded::history::{Append, Bounds};
use kilter_store::embedded::{Batch, Embedded, Settings};
use kilter_store::{Commit, Range, Revision, Store};
use kilter_testkit::dice::Dice;

use crate::disk::{Disk, Trouble};

type Items = BTreeMap<String, Bytes>;

/// How many records the history keeps.
const KEPT: u64 = 5;

fn settings() -> Settings {
    let bounds = Bounds { count: Some(KEPT), ..Bounds::default() };
    Settings {
        histories: [("turns".to_owned(), bounds)].into(),
        keep_revisions: Some(8),
        ..Settings::default()
    }
}

/// Batches in order, and the items after each of them; batch 1 is the first.
struct Workload {
    batches: Vec<Batch>,
    after: Vec<Items>,
}

impl Workload {
    fn random(seed: u64, length: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut items = Items::new();
        let mut workload = Self { batches: Vec::new(), after: vec![items.clone()] };
        for number in 1..=length {
            let mut commit = Commit::new().put("number", number.to_string());
            let mut about = vec!["number".to_owned()];
            for name in 0..6 {
                let key = format!("item/{name}");
                match dice.below(4) {
                    0 => commit = commit.delete(&key),
                    1 => {
                        let value = vec![dice.below(256) as u8; dice.below(9000)];
                        commit = commit.put(&key, value);
                    }
                    _ => continue,
                }
                about.push(key);
            }
            for put in &commit.puts {
                items.insert(put.key.clone(), put.value.clone());
            }
            for key in &commit.deletes {
                items.remove(key);
            }
            let record = Append {
                history: "turns".to_owned(),
                seq: number,
                at_millis: number,
                about,
                bytes: number.to_string().into(),
            };
            workload.batches.push(Batch::from(commit).append(record));
            workload.after.push(items.clone());
        }
        workload
    }

    /// Writes batches behind each other, some together, until one fails; says how many were acknowledged.
    async fn run(&self, store: &Embedded, dice: &mut Dice) -> usize {
        let mut acknowledged = 0;
        while acknowledged < self.batches.len() {
            let together = (1 + dice.below(4)).min(self.batches.len() - acknowledged);
            let writes = &self.batches[acknowledged..acknowledged + together];
            let answers = join_all(writes.iter().map(|batch| store.write(batch.clone()))).await;
            acknowledged += answers.iter().take_while(|answer| answer.is_ok()).count();
            if answers.iter().any(Result::is_err) {
                break;
            }
        }
        acknowledged
    }

    /// Holds a store against the batches: it is as it was after one of them, and that is not before `acknowledged`.
    fn check(&self, store: &Embedded, acknowledged: usize) -> usize {
        let view = store.view().unwrap();
        let Revision(head) = view.revision();
        let reached = usize::try_from(head).unwrap();
        assert!(reached >= acknowledged, "{acknowledged} were acknowledged, {reached} are there");
        for revision in view.oldest().0..=head {
            let found = view.range(&Range::of("").at(Revision(revision))).unwrap();
            let found: Items = found.items.into_iter().map(|item| (item.key, item.value)).collect();
            assert!(found == self.after[usize::try_from(revision).unwrap()], "revision {revision} of {head}");
        }
        let history = view.history("turns").unwrap();
        let expected: Vec<u64> = (1..=head).rev().take(usize::try_from(KEPT).unwrap()).collect();
        assert_eq!(history.timeline("number", .., 100).unwrap(), expected);
        let records = history.backward(.., 100).unwrap();
        assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), expected);
        assert!(records.iter().all(|record| record.bytes == record.seq.to_string()));
        reached
    }
}

fn open(disk: &Disk) -> Result<Embedded, kilter_store::StoreError> {
    Embedded::open_on("disk", disk.medium(), settings())
}

/// A disk with a store on it that was made and never written.
fn made() -> Disk {
    let disk = Disk::default();
    drop(open(&disk).unwrap());
    Disk::with(disk.bytes())
}

/// Cuts the power before one operation of the disk, and says what came after.
async fn cut_at(workload: &Workload, operation: usize, dice: &mut Dice) {
    let disk = made();
    disk.set_trouble(Some(Trouble::PowerAt(operation)));
    let acknowledged = match open(&disk) {
        Ok(store) => workload.run(&store, dice).await,
        Err(_) => 0,
    };
    // Cut again while the store is brought back, then leave it alone.
    let again = disk.after_power_cut(dice);
    again.set_trouble(Some(Trouble::PowerAt(dice.below(12))));
    let _ = open(&again);
    let disk = again.after_power_cut(dice);
    let store = open(&disk).unwrap_or_else(|error| panic!("cut at {operation}: {error}: {error:?}"));
    let reached = workload.check(&store, acknowledged);
    for batch in &workload.batches[reached..] {
        store.write(batch.clone()).await.unwrap();
    }
    assert_eq!(workload.check(&store, workload.batches.len()), workload.batches.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_any_write_loses_nothing_acknowledged() {
    for seed in 0..3 {
        let workload = Workload::random(seed, 12);
        let disk = made();
        let store = open(&disk).unwrap();
        assert_eq!(workload.run(&store, &mut Dice::new(seed)).await, workload.batches.len());
        workload.check(&store, workload.batches.len());
        drop(store);
        let operations = disk.operations();
        assert!(operations > 50, "only {operations} operations to cut at");
        for operation in 0..operations {
            cut_at(&workload, operation, &mut Dice::new(seed * 10_000 + operation as u64)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_share_a_sync() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    let before = disk.syncs();
    let writes = (0..500).map(|number: u32| store.commit(Commit::new().put(format!("{number}"), "")));
    assert!(join_all(writes).await.iter().all(Result::is_ok));
    let syncs = disk.syncs() - before;
    assert!(syncs < 50, "500 commits took {syncs} syncs");
}

#[test]
fn a_store_that_was_not_made_to_the_end_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    std::fs::write(directory.path().join("store.unfinished"), "half").unwrap();
    std::fs::write(&path, "").unwrap();
    drop(Embedded::open(&path, settings()).unwrap());
    let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["store", "store.lock"]);
}

/// Tells the child which file to write.
const CHILD: &str = "KILTER_STORE_KILLED_WRITER";

/// Writes and acknowledges on stdout until it is killed.
async fn write_until_killed(path: &Path) {
    let store = Arc::new(Embedded::open(path, settings()).unwrap());
    let start = store.view().unwrap().revision().0;
    let workload = Workload::random(1, start + 400);
    for batch in workload.batches.iter().skip(usize::try_from(start).unwrap()) {
        let committed = store.write(batch.clone()).await.unwrap();
        println!("acknowledged {}", committed.revision);
    }
}

/// This test runs itself as the program that is killed.
#[tokio::test]
async fn a_killed_writer_loses_nothing_acknowledged() {
    if let Some(path) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&path)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut dice = Dice::new(7);
    for _ in 0..25 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crashes::a_killed_writer_loses_nothing_acknowledged", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledged =
            lines.filter_map(|line| line.split_once("acknowledged ")?.1.parse::<usize>().ok());
        let last = acknowledged.nth(dice.below(40)).expect("the writer writes");
        child.kill().unwrap();
        let last = acknowledged.last().unwrap_or(last);
        child.wait().unwrap();
        let store = Embedded::open(&path, settings()).unwrap();
        Workload::random(1, 2000).check(&store, last);
    }
}
