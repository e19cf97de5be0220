//! The mirror: what the node held of the cluster, in the state directory, so that it goes on from there.
//!
//! Decided here: how it is written. A mirror that cannot be read is none: everything is fetched again, and nothing that
//! is declared is touched.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kilter_pubsub::{Change, ItemKey, LogId, Mirror, Revision, Topic};
use serde::{Deserialize, Serialize};

/// The file in the state directory.
const FILE: &str = "cluster.mirror";

#[derive(Serialize, Deserialize)]
struct Written {
    log: String,
    topics: Vec<WrittenTopic>,
}

#[derive(Serialize, Deserialize)]
struct WrittenTopic {
    topic: String,
    applied: Revision,
    items: Vec<(String, String, Revision, Content)>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

/// Where the mirror of a state directory is.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

fn write_change(change: Change) -> (String, String, Revision, Content) {
    let value = change.value.unwrap_or_default().to_vec();
    let content =
        String::from_utf8(value).map_or_else(|error| Content::Bytes(error.into_bytes()), Content::Text);
    (change.item.table.to_string(), change.item.key.to_string(), change.version, content)
}

fn read_change((table, key, version, content): (String, String, Revision, Content)) -> Change {
    let value = match content {
        Content::Text(text) => text.into_bytes(),
        Content::Bytes(bytes) => bytes,
    };
    Change::put(ItemKey::new(table, key), version, value)
}

/// Reads the mirror, but only of these topics; nothing if there is none that can be read.
pub(super) fn read(path: &Path, topics: impl Fn(&str) -> bool) -> Option<Mirror> {
    let written: Written = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let log = LogId(u128::from_str_radix(&written.log, 16).ok()?);
    let topics = written.topics.into_iter().filter(|topic| topics(&topic.topic)).map(|topic| {
        let items = topic.items.into_iter().map(read_change).collect();
        (Topic::new(topic.topic), topic.applied, items)
    });
    Some(Mirror { log, topics: topics.collect() })
}

/// Writes the mirror: the old one or the new one is there, whatever happens.
pub(super) fn write(path: &Path, mirror: Mirror) -> io::Result<()> {
    let topics = mirror.topics.into_iter().map(|(topic, applied, items)| WrittenTopic {
        topic: topic.to_string(),
        applied,
        items: items.into_iter().map(write_change).collect(),
    });
    let written = Written { log: mirror.log.to_string(), topics: topics.collect() };
    let unfinished = path.with_extension("new");
    let mut file = std::fs::File::create(&unfinished)?;
    file.write_all(&serde_json::to_vec(&written).map_err(io::Error::other)?)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_reads_back_and_a_broken_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path());
        assert_eq!(read(&path, |_| true), None);
        let item = |key: &str, value: &[u8]| Change::put(ItemKey::new("items", key), 7, value.to_vec());
        let topic = (Topic::new("all"), 9, vec![item("a", b"text"), item("b", &[0xff, 0])]);
        let mirror = Mirror { log: LogId::of("etcd 7"), topics: vec![topic] };
        write(&path, mirror.clone()).unwrap();
        assert_eq!(read(&path, |_| true), Some(mirror));
        assert!(read(&path, |_| false).unwrap().topics.is_empty());
        std::fs::write(&path, "{").unwrap();
        assert_eq!(read(&path, |_| true), None);
    }
}
