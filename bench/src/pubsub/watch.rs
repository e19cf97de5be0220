//! The store's own watch, which delivers where nothing else is set: from the call of a commit until watchers are told.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kilter_store::embedded::{Embedded, Settings};
use kilter_store::{Change, Commit, News, Revision, Store as _};
use serde_json::{Map, Value};

use super::told::{Told, ages, latency};

/// Commits at a pace to an embedded store with so many watches: how long a commit takes, and how long until it is told.
pub(crate) async fn paced(
    subscribers: usize,
    commits: u64,
    pause: Duration,
    measured: &mut Map<String, Value>,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let store = Embedded::open(&folder.path().join("store"), Settings::default())?;
    let (told, mut heard) = Told::new();
    for _ in 0..subscribers {
        let mut watch = store.watch("item/", Revision(0)).await?;
        let told = told.clone();
        tokio::spawn(async move {
            while let Ok(news) = watch.next().await {
                let News::Commit(commit) = news else { continue };
                for change in &commit.changes {
                    if let Change::Put(item) = change {
                        told.applied(&item.value);
                    }
                }
            }
        });
    }
    let mut ticks = tokio::time::interval(pause);
    let mut acknowledged = Vec::new();
    for number in 0..commits {
        ticks.tick().await;
        let start = told.elapsed();
        store.commit(Commit::new().put(format!("item/{number}"), told.stamped())).await?;
        acknowledged.push(told.elapsed() - start);
    }
    told.wait(commits * subscribers as u64).await?;
    let mut all = Vec::new();
    while let Ok(noticed) = heard.try_recv() {
        all.push(noticed);
    }
    ensure!(all.len() as u64 == commits * subscribers as u64, "a watch told something twice");
    measured.insert("bare-store".to_owned(), latency(acknowledged));
    measured.insert("store".to_owned(), latency(ages(&all)));
    Ok(())
}
