//! The document: YAML or JSON text becomes typed items, or a list of everything that is wrong with it.
//!
//! 1. [`tree`] reads the text and keeps the place of every value;
//! 2. [`check`] holds each item against the shape of its kind, field by field;
//! 3. the kind makes it a typed value and checks it between its fields;
//! 4. [`together`] checks the items of all files against each other.
//!
//! No step hides what a later one would find, as far as the text can be understood at all.

mod check;
pub(crate) mod formats;
mod gather;
mod hint;
mod place;
mod plain;
mod problem;
mod remote;
mod together;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use kilter_scheduler::{Change, Key, ValueRef};
use serde_json::Value;

use self::check::{Check, describe};
use self::place::Spot;
use self::tree::{Content, Entry, Node};
use crate::declare::DocumentKind;
use crate::kinds::{self, KINDS};
use crate::remote::RemoteItem;

pub use self::gather::{GatherError, Unread, gather};
pub use self::hint::closest;
pub use self::place::Place;
pub use self::problem::{Problem, Problems};

/// A text, and what to call it in messages.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the file, or what stands for one.
    pub name: String,
    /// The text: YAML, one or more documents, or JSON.
    pub text: String,
}

impl Source {
    /// A text and its name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// An item that a document declares.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: ValueRef,
    /// The word after `kind:`.
    pub kind: Cow<'static, str>,
    /// Where the item says what it is.
    pub place: Place,
    /// Which of the texts it stands in; the first is 0.
    pub source: usize,
}

impl Declared {
    /// The change that declares it.
    pub fn change(&self) -> Change {
        Change::put(self.key.clone(), self.value.clone())
    }
}

/// Reads all texts; either every item is right, or everything that is wrong is told.
///
/// Items come in the order of the texts. A document is one item, or a list of items.
pub fn read(sources: &[Source]) -> Result<Vec<Declared>, Problems> {
    let mut reading = Reading::default();
    for source in sources {
        reading.source(source);
    }
    together::check(&reading.declared, &mut reading.problems);
    reading.problems.sort_by_key(|(order, _)| *order);
    let mut problems: Vec<Problem> = reading.problems.into_iter().map(|(_, problem)| problem).collect();
    problems.dedup();
    if problems.is_empty() { Ok(reading.declared) } else { Err(Problems(problems)) }
}

/// Where a problem stands, for sorting: the number of the file, then line and column.
type Order = (usize, u32, u32);

#[derive(Default)]
struct Reading {
    declared: Vec<Declared>,
    problems: Vec<(Order, Problem)>,
    file: usize,
}

impl Reading {
    fn source(&mut self, source: &Source) {
        let file: Arc<str> = Arc::from(source.name.as_str());
        match tree::read(&source.text) {
            Ok(nodes) => nodes.iter().for_each(|node| self.document(node, &file)),
            Err(unreadable) => {
                let mut check = Check::default();
                check.report(unreadable.spot, unreadable.message, None);
                self.keep(check, &file);
            }
        }
        self.file += 1;
    }

    fn document(&mut self, node: &Node, file: &Arc<str>) {
        if let Content::List(items) = &node.content {
            items.iter().for_each(|item| self.item(item, file));
        } else {
            self.item(node, file);
        }
    }

    fn item(&mut self, node: &Node, file: &Arc<str>) {
        let mut check = Check::default();
        let Content::Map(entries) = &node.content else {
            let message =
                format!("an item must be a map of fields with a `kind`, not {}", describe(&node.content));
            check.report(node.spot, message, None);
            return self.keep(check, file);
        };
        if let Some(kind) = remote::kind_of(node) {
            if let Some(item) = remote::item(kind, node, entries, &mut check) {
                self.remote(item, node, file);
            }
        } else if let Some(kind) = kind_of(node, &mut check) {
            self.items_of(kind, node, entries, file, &mut check);
        }
        self.keep(check, file);
    }

    fn remote(&mut self, item: RemoteItem, node: &Node, file: &Arc<str>) {
        let spot = node.get("kind").map_or(node.spot, |kind| kind.spot);
        self.declared.push(Declared {
            key: item.key(),
            kind: item.kind.to_string().into(),
            value: ValueRef::new(item),
            place: spot.in_file(file),
            source: self.file,
        });
    }

    /// The item itself, and for a veth the other end if it is declared inside.
    fn items_of(
        &mut self,
        kind: &'static DocumentKind,
        node: &Node,
        entries: &[Entry],
        file: &Arc<str>,
        check: &mut Check,
    ) {
        let json = check.fields(node, entries, kind.shape().fields(), "", kind.word);
        let spot = node.get("kind").map_or(node.spot, |kind| kind.spot);
        let peer = (kind.word == "veth").then(|| other_end(&json)).flatten();
        self.typed(kind, node, "", json, spot, file, check);
        if let (Some(json), Some(inside)) = (peer, node.get("peer")) {
            self.typed(kind, inside, "peer", json, inside.spot, file, check);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, two places")]
    fn typed(
        &mut self,
        kind: &'static DocumentKind,
        node: &Node,
        within: &str,
        json: Value,
        spot: Spot,
        file: &Arc<str>,
        check: &mut Check,
    ) {
        // What could not be understood was told already.
        let Ok(typed) = kind.decode(json) else { return };
        for error in typed.errors {
            let path =
                if within.is_empty() { error.path.clone() } else { format!("{within}.{}", error.path) };
            if check.explains(&path, &error.message) {
                continue;
            }
            let at = node.closest(&error.path);
            let at = if error.path.is_empty() { spot } else { at.spot };
            let message = if error.path.is_empty() {
                error.message
            } else {
                format!("`{path}` {}", joined(&error.message))
            };
            check.report(at, message, None);
        }
        let place = spot.in_file(file);
        self.declared.push(Declared {
            key: typed.key,
            value: typed.value,
            kind: kind.word.into(),
            place,
            source: self.file,
        });
    }

    fn keep(&mut self, check: Check, file: &Arc<str>) {
        for found in check.found {
            let order = (self.file, found.spot.line, found.spot.column);
            let place = found.spot.in_file(file);
            self.problems
                .push((order, Problem { place, message: found.message, hint: found.hint, other: None }));
        }
    }
}

/// A message that is a sentence of its own follows its field after a colon.
fn joined(message: &str) -> String {
    let continues = ["must", "is ", "names", "needs", "stands", "does", "cannot", "of ", "has "];
    if continues.iter().any(|start| message.starts_with(start)) {
        message.to_owned()
    } else {
        format!("is wrong: {message}")
    }
}

/// The kind that the item says it is.
fn kind_of(node: &Node, check: &mut Check) -> Option<&'static DocumentKind> {
    let words = || KINDS.iter().map(|kind| kind.word);
    let Some(said) = node.get("kind") else {
        let hint = match node.entries().iter().find(|entry| hint::closest(&entry.name, ["kind"]).is_some()) {
            Some(entry) => format!("did you mean `kind` with `{}`?", entry.name),
            None => format!("the kinds are {}", hint::list(words())),
        };
        check.report(node.spot, "an item needs `kind`", Some(hint));
        return None;
    };
    let Content::Text(word) = &said.content else {
        let hint = format!("the kinds are {}", hint::list(words()));
        check.report(
            said.spot,
            format!("`kind` must be a word, not {}", describe(&said.content)),
            Some(hint),
        );
        return None;
    };
    let found = kinds::find(word);
    if found.is_none() {
        let hint = match hint::closest(word.strip_prefix("linux.").unwrap_or(word), words()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => elsewhere(word.strip_prefix("linux.").unwrap_or(word))
                .unwrap_or_else(|| format!("the kinds are {}", hint::list(words()))),
        };
        check.report(said.spot, format!("there is no kind `{word}`"), Some(hint));
    }
    found
}

/// Where to say what other tools, or our own keys, have a kind for.
fn elsewhere(word: &str) -> Option<String> {
    let hint = match word.to_lowercase().as_str() {
        "address" | "ip" => "an address stands in the `addresses` of its link",
        "port" => "a port stands in the `ports` of its bridge, or as `master` in its own link",
        "up" => "write `state: up` in the link",
        "unnumbered" => "write `unnumbered: LINK` in the link that borrows",
        "link" | "interface" | "ethernet" | "physical" | "nic" | "hardware" => {
            "say what kind of link; one that is there already is `existing`"
        }
        "namespace" => "did you mean `netns`?",
        "firewall" | "nft" | "iptables" => "did you mean `nftables`?",
        "arp" => "did you mean `neighbour`?",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The other end of a veth as an item of its own, if its `peer` says more than which it is.
fn other_end(json: &Value) -> Option<Value> {
    let mut peer = json.get("peer")?.as_object()?.clone();
    if peer.keys().all(|name| matches!(name.as_str(), "name" | "netns")) {
        return None;
    }
    let own = json.get("netns").cloned().unwrap_or_else(|| Value::from("host"));
    if peer.get("netns").is_none() {
        peer.insert("netns".to_owned(), own.clone());
    }
    let back = serde_json::json!({ "name": json.get("name")?, "netns": own });
    peer.insert("peer".to_owned(), back);
    Some(Value::Object(peer))
}
