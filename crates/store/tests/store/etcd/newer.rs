//! The etcd driver against a new server, which answers how far a watch is.

use std::path::Path;
use std::time::Duration;

use kilter_store::etcd::Settings;
use kilter_store::{Commit, News, Store};

use super::Opened;
use super::server::Server;
use crate::suite::{driver_suite, next};

/// The etcd that the tests of EventFlow use.
fn program() -> String {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/kube").to_owned();
    let folders = std::env::var("KUBEBUILDER_ASSETS").into_iter().chain([built]);
    let found = folders.map(|folder| format!("{folder}/etcd")).find(|path| Path::new(path).exists());
    found.expect("a new etcd is there, hint: cargo xtask test")
}

async fn open_with(more: &[&str], progress_interval: Duration) -> Opened {
    let server = Server::start_program(&program(), "http", more);
    let settings = Settings { progress_interval, ..server.settings() };
    let store = server.ready(settings).await;
    Opened { store, _server: server }
}

async fn open() -> Opened {
    open_with(&[], Duration::from_millis(500)).await
}

driver_suite! { open() }

#[tokio::test]
async fn a_new_server_is_not_warned_about() {
    let opened = open().await;
    assert_eq!(opened.store.warnings().await.unwrap(), []);
    assert_eq!(opened.store().remarks().await.unwrap(), [] as [String; 0]);
}

#[tokio::test]
async fn how_far_a_watch_is_is_asked_for() {
    // The server says nothing by itself for ten minutes.
    let quiet = "--experimental-watch-progress-notify-interval=10m";
    let opened = open_with(&[quiet], Duration::from_millis(200)).await;
    let start = opened.store.commit(Commit::new().put("in/a", "1")).await.unwrap().revision;
    let mut watch = opened.store.watch("in/", start).await.unwrap();
    let head = opened.store.commit(Commit::new().put("out/a", "1")).await.unwrap().revision;
    loop {
        match next(&mut watch).await.unwrap() {
            News::Progress(revision) if revision >= head => return,
            News::Progress(_) => {}
            News::Commit(told) => panic!("{told:?} is not behind the prefix"),
        }
    }
}
