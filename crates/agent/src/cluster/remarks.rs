//! What the owner of a cluster should know about its store and its distributor: told as a line by `kilter distributor`, and
//! as the health of an agent.
//!
//! Decided here: how often the store is asked, and how something that happened is worded.

use std::sync::Arc;
use std::time::Duration;

use kilter_pubsub::{MAX_VALUE, Notice};
use kilter_store::Store;
use tokio::sync::mpsc;

/// How often a store is asked what is wrong with it; one that does not answer, sooner.
const ASKED: Duration = Duration::from_secs(600);
const SOONER: Duration = Duration::from_secs(5);

/// Tells what the owner of a store should know whenever that is something else, as long as somebody listens.
pub(crate) async fn attend(store: Arc<dyn Store>, told: mpsc::Sender<Vec<String>>) {
    let mut last = Vec::new();
    loop {
        let pause = match store.remarks().await {
            Ok(remarks) if remarks != last => {
                last.clone_from(&remarks);
                if told.send(remarks).await.is_err() {
                    return;
                }
                ASKED
            }
            Ok(_) => ASKED,
            Err(_) => SOONER,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = told.closed() => return,
        }
    }
}

/// What is wrong, if something is, in one line.
pub(crate) fn wrong(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Loaded { .. } => None,
        Notice::SourceLost => Some("the store is away, what is known is served on".to_owned()),
        Notice::Differed { items } => {
            Some(format!("{items} items were not as the store had told, and are put right"))
        }
        Notice::Oversize { topic, item, size } => Some(format!(
            "`{}` of `{topic}` has {size} bytes and is not delivered, hint: at most {MAX_VALUE}",
            item.key
        )),
        Notice::WentBack { from, to } => Some(format!("the store went back from revision {from} to {to}")),
    }
}

#[cfg(test)]
mod tests {
    use kilter_pubsub::{ItemKey, Topic};

    use super::*;

    #[test]
    fn what_is_too_large_is_named() {
        let notice = Notice::Oversize {
            topic: Topic::new("all"),
            item: ItemKey::new("items", "linux/link/host/lan1"),
            size: 1 << 21,
        };
        let text =
            "`linux/link/host/lan1` of `all` has 2097152 bytes and is not delivered, hint: at most 1048576";
        assert_eq!(wrong(&notice).as_deref(), Some(text));
    }
}
