//! What lies under which key of the store of a cluster.
//!
//! | key, behind the prefix | value |
//! |---|---|
//! | `items/TOPIC/KEY` | an item that is declared for a topic: a document in JSON |
//! | `distributors/NAME` | a distributor: where it is and how far; ends with its lease |
//! | `nodes/NAME` | a node as it last said: how far it is, its digests, its health |
//! | `alive/NAME` | that the node is there; ends with its lease |
//! | `votes/ID/NAME` | how the node fares with a joint change; ends with its lease |
//!
//! A topic is `all`, `node:NAME`, `label:NAME=VALUE` or `tenant:NAME`.

use std::fmt;
use std::str::FromStr;

use kilter_pubsub::{ItemKey, Topic};

use super::settings::is_good_name;

/// The table that items have in the publish/subscribe layer.
const TABLE: &str = "items";

/// For whom something is declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipients {
    /// Every node.
    All,
    /// One node.
    Node(String),
    /// Every node with this label.
    Label(String, String),
    /// Every node that hosts this tenant.
    Tenant(String),
}

/// Something is nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is nobody, hint: `all`, a node, a label `NAME=VALUE`, or `tenant:NAME`")]
pub struct RecipientsError(String);

impl FromStr for Recipients {
    type Err = RecipientsError;

    /// Reads what a person types: `all`, `NODE`, `NAME=VALUE`, `tenant:NAME`; or a topic.
    fn from_str(text: &str) -> Result<Self, RecipientsError> {
        let wrong = || RecipientsError(text.to_owned());
        let recipients = match text.split_once(':') {
            None if text == "all" => Self::All,
            Some(("node", name)) => Self::Node(name.to_owned()),
            Some(("tenant", name)) => Self::Tenant(name.to_owned()),
            Some(("label", label)) => label.split_once('=').map(label_of).ok_or_else(wrong)?,
            Some(_) => return Err(wrong()),
            None => match text.split_once('=') {
                Some(label) => label_of(label),
                None => Self::Node(text.to_owned()),
            },
        };
        let is_good = match &recipients {
            Self::All => true,
            Self::Node(name) | Self::Tenant(name) => is_good_name(name),
            Self::Label(name, value) => is_good_name(name) && is_good_name(value),
        };
        if is_good { Ok(recipients) } else { Err(wrong()) }
    }
}

fn label_of((name, value): (&str, &str)) -> Recipients {
    Recipients::Label(name.to_owned(), value.to_owned())
}

impl fmt::Display for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Node(name) => write!(f, "node:{name}"),
            Self::Label(name, value) => write!(f, "label:{name}={value}"),
            Self::Tenant(name) => write!(f, "tenant:{name}"),
        }
    }
}

impl Recipients {
    /// Its topic.
    pub fn topic(&self) -> Topic {
        Topic::new(self.to_string())
    }
}

/// Where everything of a cluster lies in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
}

impl Layout {
    /// Everything behind this prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Where everything lies.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Where items lie.
    pub fn items(&self) -> String {
        format!("{}items/", self.prefix)
    }

    /// Where the items of a topic lie.
    pub fn topic(&self, topic: &str) -> String {
        format!("{}items/{topic}/", self.prefix)
    }

    /// Where an item lies that is declared for a topic.
    pub fn item(&self, topic: &str, key: &str) -> String {
        format!("{}items/{topic}/{key}", self.prefix)
    }

    /// The topic and the item behind a key; nothing if it is neither.
    pub fn parse_item(&self, key: &str) -> Option<(Topic, ItemKey)> {
        let (topic, key) = key.strip_prefix(&self.prefix)?.strip_prefix("items/")?.split_once('/')?;
        Some((Topic::new(topic), ItemKey::new(TABLE, key)))
    }

    /// Where distributors lie.
    pub fn distributors(&self) -> String {
        format!("{}distributors/", self.prefix)
    }

    /// Where nodes lie.
    pub fn nodes(&self) -> String {
        format!("{}nodes/", self.prefix)
    }

    /// Where it lies that nodes are there.
    pub fn alive(&self) -> String {
        format!("{}alive/", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_is_a_topic_that_reads_back() {
        for (typed, topic) in [
            ("all", "all"),
            ("edge-7", "node:edge-7"),
            ("role=edge", "label:role=edge"),
            ("tenant:acme", "tenant:acme"),
        ] {
            let recipients: Recipients = typed.parse().unwrap();
            assert_eq!(recipients.to_string(), topic);
            assert_eq!(topic.parse::<Recipients>(), Ok(recipients));
        }
        for wrong in ["", "a/b", "role=", "label:x", "rack:7"] {
            assert!(wrong.parse::<Recipients>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_of_items_read_back_and_others_are_nobodys() {
        let layout = Layout::new("kilter/");
        let key = layout.item("node:n1", "linux/link/host/br0");
        let (topic, item) = layout.parse_item(&key).unwrap();
        assert_eq!((topic.to_string().as_str(), &*item.key), ("node:n1", "linux/link/host/br0"));
        assert!(layout.parse_item("kilter/nodes/n1").is_none());
        assert!(layout.parse_item("kilter/items/all").is_none());
    }
}
