//! Disks that are full, read-only, damaged or somebody else's: a precise error, and nothing lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kilter_store::embedded::{Embedded, Settings};
use kilter_store::{Commit, Range, Revision, Store, StoreError};
use kilter_testkit::dice::Dice;

use crate::disk::{Disk, Trouble};

fn open(disk: &Disk) -> Result<Embedded, StoreError> {
    Embedded::open_on("disk", disk.medium(), Settings::default())
}

async fn keys(store: &Embedded) -> usize {
    store.range(Range::of("")).await.unwrap().items.len()
}

#[tokio::test]
async fn a_full_disk_is_told_and_writing_goes_on_when_there_is_room() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    disk.set_trouble(Some(Trouble::Room(disk.bytes().len() as u64)));
    let mut written = 0;
    let error = loop {
        match store.commit(Commit::new().put(format!("{written:05}"), vec![7; 50_000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }) && error.is_retriable(), "{error:?}");
    assert!(error.to_string().contains("there is no room"), "{error}");
    assert!(written > 0);
    assert_eq!(keys(&store).await, written);
    store.commit(Commit::new().put("small", "1")).await.unwrap();
    disk.set_trouble(None);
    store.commit(Commit::new().put("large", vec![7; 5_000_000])).await.unwrap();
    assert_eq!(keys(&store).await, written + 2);
    drop(store);
    assert_eq!(keys(&open(&disk).unwrap()).await, written + 2);
}

#[tokio::test]
async fn a_large_commit_without_room_does_not_fail_the_small_ones_beside_it() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    store.commit(Commit::new().put("before", "1")).await.unwrap();
    disk.set_trouble(Some(Trouble::Room(disk.bytes().len() as u64)));
    let large = store.commit(Commit::new().put("large", vec![7; 50_000_000]));
    let small =
        futures::future::join_all((0..5).map(|n: u8| store.commit(Commit::new().put(format!("{n}"), "1"))));
    let (large, small) = futures::future::join(large, small).await;
    assert!(matches!(large, Err(StoreError::Full { .. })), "{large:?}");
    assert!(small.iter().all(Result::is_ok), "{small:?}");
    assert_eq!(keys(&store).await, 6);
}

#[tokio::test]
async fn a_disk_that_turns_read_only_is_told() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    disk.set_trouble(Some(Trouble::ReadOnly));
    let error = store.commit(Commit::new().put("b", "1")).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }) && !error.is_retriable(), "{error:?}");
    disk.set_trouble(None);
    store.commit(Commit::new().put("b", "1")).await.unwrap();
    assert_eq!(keys(&store).await, 2);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_claimed_and_nothing_more_is_written() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    disk.set_trouble(Some(Trouble::SyncFails(disk.syncs() + 1)));
    let error = store.commit(Commit::new().put("b", "1")).await.unwrap_err();
    assert!(matches!(error, StoreError::Uncertain { .. }) && !error.is_retriable(), "{error:?}");
    let error = store.commit(Commit::new().put("c", "1")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    drop(store);
    let store = open(&disk.after_power_cut(&mut Dice::new(1))).unwrap();
    assert!(store.get("a").await.unwrap().item.is_some());
    assert_eq!(store.get("c").await.unwrap().item, None);
}

#[tokio::test]
async fn a_damaged_file_is_told_and_never_mistaken_for_another() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    for number in 0..200 {
        store.commit(Commit::new().put(format!("{number:03}"), vec![number; 300])).await.unwrap();
    }
    let whole = store.range(Range::of("")).await.unwrap();
    drop(store);
    let bytes = disk.bytes();
    let mut dice = Dice::new(3);
    let mut told = 0;
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let at = dice.below(damaged.len());
        damaged[at] ^= 1 << dice.below(8);
        match open(&Disk::with(damaged)) {
            Err(StoreError::Corrupt { .. } | StoreError::Newer { .. }) => told += 1,
            Err(error) => panic!("byte {at}: {error:?}"),
            Ok(store) => assert_eq!(store.range(Range::of("")).await.unwrap(), whole, "byte {at}"),
        }
    }
    assert!(told > 10, "only {told} of 300 damaged files were told");
}

#[tokio::test]
async fn a_file_that_is_something_else_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    for content in [b"kind: linux.link\n".repeat(1000), vec![0; 10_000], b"x".to_vec()] {
        fs::write(&path, &content).unwrap();
        let error = Embedded::open(&path, Settings::default()).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("could not open `{}`", path.display())), "{error}");
        assert!(fs::read(&path).unwrap() == content, "it was changed");
    }
}

#[tokio::test]
async fn a_file_of_a_newer_program_is_told_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    drop(Embedded::open(&path, Settings::default()).unwrap());
    let file = redb::Database::open(&path).unwrap();
    let txn = file.begin_write().unwrap();
    let numbers = redb::TableDefinition::<&str, u64>::new("numbers");
    txn.open_table(numbers).unwrap().insert("format", 99).unwrap();
    txn.commit().unwrap();
    drop(file);
    let error = Embedded::open(&path, Settings::default()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("hint: use the newer program"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_told() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    store.commit(Commit::new().put("a", vec![1; 100_000])).await.unwrap();
    drop(store);
    let bytes = disk.bytes();
    for length in [1, 100, 4096, bytes.len() / 2, bytes.len() - 1] {
        match open(&Disk::with(bytes[..length].to_vec())) {
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => panic!("{length} bytes: {error:?}"),
            Ok(store) => assert!(store.get("a").await.unwrap().item.is_some(), "{length} bytes"),
        }
    }
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let error = Embedded::open(Path::new("/nowhere/store"), Settings::default()).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

/// Tells the child that it has what it asked for.
const INSIDE: &str = "KILTER_STORE_INSIDE";

/// Runs one test of this file again with what it needs, by a program before it; inside, gives the directory.
fn inside(test: &str, directory: &Path, before: &[&str]) -> Option<PathBuf> {
    if let Some(directory) = std::env::var_os(INSIDE) {
        return Some(PathBuf::from(directory));
    }
    let status = Command::new(before[0])
        .args(&before[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("faults::{test}"), "--nocapture"])
        .env(INSIDE, directory)
        // It counts as one test, here; what goes wrong inside is told on stderr.
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "`{test}` failed inside");
    None
}

/// Runs a test where its directory is a small file system of its own, which no one else sees.
fn on_a_small_disk(test: &str) -> Option<PathBuf> {
    let directory = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=3m tmpfs \"$KILTER_STORE_INSIDE\" && exec \"$@\"";
    let before = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"];
    inside(test, directory.path(), &before)
}

#[tokio::test]
async fn a_file_system_that_is_full_is_told_and_used_again() {
    let Some(directory) = on_a_small_disk("a_file_system_that_is_full_is_told_and_used_again") else {
        return;
    };
    let ballast = directory.join("ballast");
    fs::write(&ballast, vec![1; 1_000_000]).unwrap();
    let store = Embedded::open(&directory.join("store"), Settings::default()).unwrap();
    let mut written = 0;
    let error = loop {
        match store.commit(Commit::new().put(format!("{written:05}"), vec![7; 20_000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(keys(&store).await, written);
    fs::remove_file(ballast).unwrap();
    store.commit(Commit::new().put("small", "1")).await.unwrap();
    drop(store);
    let store = Embedded::open(&directory.join("store"), Settings::default()).unwrap();
    assert_eq!(keys(&store).await, written + 1);
}

#[tokio::test]
async fn a_read_only_file_system_is_told_and_left_alone() {
    let Some(directory) = on_a_small_disk("a_read_only_file_system_is_told_and_left_alone") else { return };
    let path = directory.join("store");
    let store = Embedded::open(&path, Settings::default()).unwrap();
    store.commit(Commit::new().put("a", "1")).await.unwrap();
    drop(store);
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", how]).arg(&directory).status().unwrap();
        assert!(status.success());
    };
    remount("remount,ro");
    let error = Embedded::open(&path, Settings::default()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    remount("remount,rw");
    let store = Embedded::open(&path, Settings::default()).unwrap();
    assert_eq!(store.get("a").await.unwrap().revision, Revision(1));
}

#[tokio::test]
async fn missing_permissions_are_told() {
    let outside = tempfile::tempdir().unwrap();
    let name = "missing_permissions_are_told";
    // In a user namespace nobody may do what the modes forbid, not even root.
    let Some(directory) = inside(name, outside.path(), &["unshare", "--user"]) else { return };
    let path = directory.join("store");
    drop(Embedded::open(&path, Settings::default()).unwrap());
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(&path, 0o000);
    let error = Embedded::open(&path, Settings::default()).unwrap_err();
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("permission denied"), "{error}");
    set_mode(&path, 0o600);
    set_mode(&directory, 0o000);
    let error = Embedded::open(&path, Settings::default()).unwrap_err();
    set_mode(&directory, 0o700);
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    drop(Embedded::open(&path, Settings::default()).unwrap());
}
