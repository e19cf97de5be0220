//! The tree of a document: what the YAML (or JSON) says, with the place of every value and every field name.
//!
//! Decided here: what is well-formed text. Not decided here: what it means (see [`super::check`]).

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, Options, Spanned};

use super::place::Spot;
use super::plain;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) spot: Spot,
    pub(crate) content: Content,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    /// A whole number; wide enough for every number of sixty-four bits.
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) spot: Spot,
    pub(crate) node: Node,
}

impl Node {
    /// The field of that name; the first if there are several.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    /// The fields; none if it is not a map.
    pub(crate) fn entries(&self) -> &[Entry] {
        if let Content::Map(entries) = &self.content { entries } else { &[] }
    }

    /// The node at a path such as `nexthops[1].via`, or the closest one above that exists.
    pub(crate) fn closest(&self, path: &str) -> &Node {
        let mut node = self;
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            let next = match (&node.content, step.strip_suffix(']')) {
                (Content::List(list), Some(index)) => index.parse().ok().and_then(|at: usize| list.get(at)),
                _ => node.get(step),
            };
            match next {
                Some(next) => node = next,
                None => return node,
            }
        }
        node
    }
}

/// Why a text is not a document.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) spot: Spot,
    pub(crate) message: String,
}

/// How much one file may hold. Far above any sane file, far below what would hurt.
fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_events: 50_000_000,
        max_documents: 5_000_000,
        max_nodes: 20_000_000,
        max_depth: 32,
        max_total_scalar_bytes: 1 << 30,
    };
    serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Reads all documents of a text.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, Unreadable> {
    match plain::read(text, whole) {
        Some(nodes) => Ok(nodes),
        None => whole(text),
    }
}

/// Reads all documents of a text, with everything that YAML has.
fn whole(text: &str) -> Result<Vec<Node>, Unreadable> {
    serde_saphyr::from_multiple_with_options::<Node>(text, options()).map_err(|error| {
        let spot = error.location().map_or(Spot { line: 1, column: 1 }, spot);
        let message = error.without_snippet().to_string();
        let place = format!(" at line {}, column {}", spot.line, spot.column);
        let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
        Unreadable { spot, message }
    })
}

fn spot(location: Location) -> Spot {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).max(1);
    Spot { line: number(location.line()), column: number(location.column()) }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { spot: spot(spanned.referenced), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Content, E> {
        Ok(Content::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = access.next_element()? {
            list.push(node);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = access.next_key::<Spanned<String>>()? {
            let node = access.next_value()?;
            entries.push(Entry { spot: spot(name.referenced), name: name.value, node });
        }
        Ok(Content::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot_of(text: &str, path: &str) -> (u32, u32) {
        let spot = read(text).unwrap()[0].closest(path).spot;
        (spot.line, spot.column)
    }

    #[test]
    fn every_value_has_its_place() {
        let yaml = "kind: a\nlist:\n  - 1\n  - {b: 2}\n";
        assert_eq!(spot_of(yaml, "kind"), (1, 7));
        assert_eq!(spot_of(yaml, "list[0]"), (3, 5));
        assert_eq!(spot_of(yaml, "list[1].b"), (4, 9));
        assert_eq!(spot_of(yaml, "list[7].b"), (3, 3), "the closest that is there");
        let json = "{\n\t\"kind\": \"a\",\n  \"l\": [1, null]\n}\n";
        assert_eq!(spot_of(json, "kind"), (2, 10));
        assert_eq!(spot_of(json, "l[1]"), (3, 12));
    }

    /// Texts of lines and pieces that are near to what the shortcut reads, and to what it must not.
    #[test]
    fn a_plain_document_is_read_as_yaml_reads_it() {
        let lines = [
            "---",
            "---",
            "--- ",
            "--- {a: 1}",
            "--- # x",
            "---x",
            "",
            " ",
            "# x",
            "  # x",
            "a: b",
            "kind: route ",
            "b:  1",
            "c: 10.0.0.1/24",
            "d: 10.0.0.1",
            "e: 0",
            "f: 007",
            "g: -1",
            "h: 1.5",
            "i: true",
            "j: Yes",
            "k: null",
            "l: ~",
            "m: a:b",
            "n: a:",
            "o: a: b",
            "p: a b",
            "q: a #b",
            "r: a#b",
            "s: \"x\"",
            "t: {a: 1, b: c}",
            "u: [a, 1, 10.0.0.1]",
            "v: []",
            "w: {}",
            "x: [a,b]",
            "y: 1",
            "z: {a: [1, {b: c}], d: e}",
            "aa: 1e5",
            "ab: 0x1f",
            "ac: 1:10",
            "ad: 02:00:00:00:00:01",
            "ae: 2001:db8::1",
            "af:",
            "ag: |",
            "  text",
            "ah: ä",
            "ai: &a b",
            "aj: *a",
            "ak: 99999999999999999999",
            "al: 123456789012345678",
            "am: .inf",
            "an: 1_000",
            "ao: {a: b:c}",
            "ap: {a: 1,}",
            "aq: { a: 1 , b: 2 }",
            "ar: {a:1}",
            "as: {a: {b: {c: [d]}}}",
            "- a",
            "- kind: b",
            "{a: 1}",
            "{a: b, c: d}",
            "{a: 1",
            "b}",
            "...",
            "%YAML 1.2",
            "a-b: c",
            "a_b: c",
            "A: b",
            "true: a",
            "at: e-5",
            "au: 1.2.3",
            "av: 1.2.3.4.5",
            "aw: a/b",
            "ax: /a",
            "ay: {a: b}  # x",
            "az: NaN",
            "ba: 10.0.0.1/",
            "bb: - a",
            "bc: a-",
            "bd: a.",
            "<<: {a: 1}",
            "be: none",
            "bf: o",
            "bg: +1",
            "bh: 1-2",
        ];
        let mut random = 1_u64;
        let mut next = move |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % below
        };
        let mut plain = 0;
        for round in 0..20_000 {
            let mut text: String =
                (0..1 + next(6)).map(|_| lines[next(lines.len())].to_owned() + "\n").collect();
            if round % 3 == 0 {
                text.pop();
            }
            let (short, long) = (plain::read(&text, whole), whole(&text));
            plain += usize::from(plain::read(&text, |_| Err(())).is_some());
            if let Some(short) = short {
                assert_eq!(Some(short), long.ok(), "{text:?}");
            }
        }
        assert!(plain > 500, "{plain} were plain");
    }

    #[test]
    fn a_field_given_twice_is_kept_twice() {
        let nodes = read("a: 1\na: 2\n").unwrap();
        assert_eq!(nodes[0].entries().len(), 2);
    }

    #[test]
    fn hardware_addresses_and_plain_words_are_texts() {
        let nodes = read("a: 02:00:00:00:00:01\nb: yes\nc: 1:10\nd: 2001:db8::1\n").unwrap();
        assert!(nodes[0].entries().iter().all(|entry| matches!(entry.node.content, Content::Text(_))));
    }

    #[test]
    fn large_files_are_read() {
        let text = "---\nkind: route\nvia: 10.0.0.1\n".repeat(100_000);
        assert_eq!(read(&text).unwrap().len(), 100_000);
    }

    #[test]
    fn bombs_and_deep_nests_are_refused() {
        assert!(read(&"[".repeat(100_000)).is_err());
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (one, before) in ('b'..='j').zip('a'..='i') {
            bomb.push_str(&format!("{one}: &{one} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n"));
        }
        assert!(read(&bomb).is_err());
    }
}
