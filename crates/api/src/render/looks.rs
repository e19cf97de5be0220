//! How the parts of a drawn graph look: one table for every drawing, so that they agree.
//!
//! Decided here: colours, dashes and the words of a tooltip. Not decided here: where anything stands (`layout`), and how
//! it is written (`svg`, `dot`).

use std::collections::BTreeSet;

use super::one_line;
use crate::v1::{Edge, EdgeType, State, Vertex};

/// As much of a value as a tooltip shows.
const LONGEST_VALUE: usize = 1000;

/// What a drawing adds to the graph.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// The keys of items that get a gold border: those that a transaction touched.
    pub touched: BTreeSet<String>,
    /// The beginning of the address that an item links to, its key follows; empty for no links.
    pub link: String,
}

impl Drawing {
    /// The address that an item links to, if it links anywhere.
    pub(super) fn address(&self, key: &str) -> Option<String> {
        (!self.link.is_empty()).then(|| format!("{}{}", self.link, percent(key)))
    }
}

/// How a vertex looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// The colour inside.
    pub(super) fill: &'static str,
    /// The colour of its text.
    pub(super) ink: &'static str,
    /// Whether the line around it is broken.
    pub(super) is_dashed: bool,
    /// Whether its corners are round.
    pub(super) is_round: bool,
}

/// How an item looks: by its state, and derived ones that are well look alike.
pub(super) fn of(vertex: &Vertex) -> Looks {
    let (fill, ink, is_dashed) = match vertex.state() {
        State::Unspecified | State::Nonexistent => ("black", "white", false),
        State::Missing => ("dimgray", "white", true),
        State::Unimplemented => ("darkkhaki", "black", true),
        State::Removed => ("black", "white", true),
        State::Configured if !vertex.base.is_empty() => ("lightyellow", "black", false),
        State::Configured => ("palegreen", "black", false),
        State::Obtained => ("lightcyan", "black", false),
        State::Discovered => ("lime", "black", false),
        State::Pending => ("pink", "black", true),
        State::Invalid => ("maroon", "white", false),
        State::Failed => ("orangered", "black", false),
        State::Retrying => ("deeppink", "black", false),
        State::Applying => ("lightskyblue", "black", true),
        State::Removing => ("plum", "black", true),
    };
    Looks { fill, ink, is_dashed, is_round: !vertex.base.is_empty() }
}

/// The colour of a connection.
pub(super) fn of_edge(edge: &Edge) -> &'static str {
    match (edge.edge_type(), edge.met) {
        (EdgeType::Derived, _) => "saddlebrown",
        (EdgeType::Needs | EdgeType::Unspecified, true) => "dimgray",
        (EdgeType::Needs | EdgeType::Unspecified, false) => "red",
    }
}

/// What is told about an item when one points at it: state, key, value.
pub(super) fn tooltip(vertex: &Vertex) -> String {
    let mut text = format!("{}\n{}", vertex.state(), one_line(&vertex.key));
    if !vertex.value.is_empty() {
        text.push('\n');
        text.push_str(&shortened(&one_line(&vertex.value), LONGEST_VALUE));
    }
    text
}

/// The word over a cluster.
pub(super) fn cluster(kind: &str) -> &str {
    if kind.is_empty() { "no kind" } else { kind }
}

/// A text cut to a number of letters, with a sign that it was.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(longest.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A key as part of an address.
fn percent(text: &str) -> String {
    let mut address = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            address.push(char::from(byte));
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
    address
}
