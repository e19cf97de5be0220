//! Watching: keeps the mirror of one resource up to date, for as long as it is polled.
//!
//! A list, then the changes after it; a server that does not remember that far says so (410), and the list is read
//! again. A resource that is not installed is an empty list until its definition appears: nobody asks meanwhile.

use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use serde_json::Value as Json;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::client::{Server, escape};
use crate::mirror::Shared;
use crate::object::{Object, Resource};
use crate::request::{Class, Rejected};
use crate::standing::is_installed;

/// The shortest and the longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// A watch that ends sooner than this was ended by something that is not right.
const SHORT: Duration = Duration::from_secs(1);

/// A watch on which nothing comes for so long is dead: the server ends it earlier.
const SILENCE: Duration = Duration::from_secs(330);

/// Wakes who waits for the mirror.
#[derive(Clone, Debug, Default)]
pub struct Wake {
    /// Something has changed.
    changed: Arc<Notify>,
    /// A definition has changed: what was not installed may be.
    defined: Arc<Notify>,
    /// The same as `changed`, for any number of onlookers.
    seen: watch::Sender<()>,
}

impl Wake {
    /// Ends when something has changed since this was last asked.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells an onlooker, beside whoever acts, that something has changed.
    pub(crate) fn look_on(&self) -> watch::Receiver<()> {
        self.seen.subscribe()
    }

    fn tell(&self, resource: Resource) {
        self.changed.notify_one();
        self.seen.send_replace(());
        if resource == Resource::Definition {
            self.defined.notify_waiters();
        }
    }
}

/// What is watched: a resource in the whole cluster, or some of it in one namespace.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The resource.
    pub(crate) resource: Resource,
    /// The namespace; empty for all of them.
    pub(crate) namespace: String,
    /// The label that it must have; empty if none.
    label: String,
}

impl From<Resource> for Extent {
    fn from(resource: Resource) -> Self {
        Self { resource, namespace: String::new(), label: String::new() }
    }
}

impl Extent {
    /// The objects in a namespace that have a label.
    pub fn labelled(resource: Resource, namespace: &str, label: &str) -> Self {
        Self { resource, namespace: namespace.to_owned(), label: label.to_owned() }
    }

    /// How it is asked for in a query.
    pub(crate) fn selector(&self) -> String {
        match self.label.as_str() {
            "" => String::new(),
            label => format!("&labelSelector={}", escape(label)),
        }
    }
}

/// Why a watch has ended.
enum End {
    /// The server wants us to come again, from where we are.
    Again,
    /// The server does not remember that far.
    Forgotten,
    /// Something went wrong.
    Failed(String),
}

/// Keeps the mirror of an extent up to date; never ends.
pub async fn follow(server: Server, extent: impl Into<Extent>, mirror: Shared, wake: Wake) {
    let extent = extent.into();
    let resource = extent.resource;
    let mut pause = PAUSES.0;
    loop {
        let list = server.list(&extent).await;
        let mut version = match list {
            Ok(list) => {
                mirror.lock().replace(resource, list.objects, &list.version);
                wake.tell(resource);
                list.version
            }
            Err(rejected) if rejected.class() == Class::NotInstalled => {
                await_definition(resource, &mirror, &wake, &mut pause).await;
                continue;
            }
            Err(rejected) => {
                rest(resource, &rejected.to_string(), &mut pause).await;
                continue;
            }
        };
        loop {
            let begun = Instant::now();
            let end = take_changes(&server, &extent, &mut version, &mirror, &wake).await;
            let is_short = begun.elapsed() < SHORT;
            if !is_short {
                pause = PAUSES.0;
            }
            match end {
                End::Again if is_short => rest(resource, "the watch ended at once", &mut pause).await,
                End::Again => {}
                End::Forgotten if is_short => {
                    rest(resource, "the server forgot at once", &mut pause).await;
                    break;
                }
                End::Forgotten => break,
                End::Failed(why) => rest(resource, &why, &mut pause).await,
            }
        }
    }
}

async fn rest(resource: Resource, why: &str, pause: &mut Duration) {
    tracing::warn!("failed to watch {}: {why}", resource.plural());
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(PAUSES.1);
}

/// Waits until the definition of a resource is there. What there was of the resource is gone with it.
async fn await_definition(resource: Resource, mirror: &Shared, wake: &Wake, pause: &mut Duration) {
    let defined = wake.defined.notified();
    tokio::pin!(defined);
    // Whoever defines it from here on wakes us.
    defined.as_mut().enable();
    mirror.lock().replace(resource, Vec::new(), "");
    wake.tell(resource);
    if is_installed(resource, &mirror.lock()) {
        // It is defined and not served yet.
        tokio::time::sleep(*pause).await;
        *pause = (*pause * 2).min(PAUSES.1);
    } else {
        defined.await;
        *pause = PAUSES.0;
    }
}

async fn take_changes(
    server: &Server,
    extent: &Extent,
    version: &mut String,
    mirror: &Shared,
    wake: &Wake,
) -> End {
    let resource = extent.resource;
    let stream = match server.watch(extent, version).await {
        Ok(stream) => stream,
        Err(rejected) => return end_of(&rejected),
    };
    let mut lines = stream.lines();
    loop {
        let line = match tokio::time::timeout(SILENCE, futures::StreamExt::next(&mut lines)).await {
            Ok(Some(Ok(line))) => line,
            Ok(Some(Err(error))) => return End::Failed(error.to_string()),
            Ok(None) => return End::Again,
            Err(_) => return End::Failed("nothing was heard for too long".to_owned()),
        };
        let Ok(mut change) = serde_json::from_str::<Json>(&line) else {
            return End::Failed("a line is not JSON".to_owned());
        };
        let content = change["object"].take();
        let at = content["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        match change["type"].as_str() {
            Some("ADDED" | "MODIFIED") => mirror.lock().see(Object::new(resource, content)),
            Some("DELETED") => {
                let object = Object::new(resource, content);
                mirror.lock().lose(object.id(), object.uid());
            }
            Some("BOOKMARK") => {}
            _ => {
                let code = content["code"].as_u64().and_then(|code| u16::try_from(code).ok());
                let message = content["message"].as_str().unwrap_or_default().to_owned();
                let reason = content["reason"].as_str().unwrap_or_default().to_owned();
                return end_of(&Rejected {
                    code: code.unwrap_or_default(),
                    reason,
                    message,
                    ..Rejected::default()
                });
            }
        }
        *version = at;
        wake.tell(resource);
    }
}

/// What the end of a watch means. A resource that is gone is found out by its list.
fn end_of(rejected: &Rejected) -> End {
    match rejected.code {
        404 | 410 => End::Forgotten,
        _ => End::Failed(rejected.to_string()),
    }
}
