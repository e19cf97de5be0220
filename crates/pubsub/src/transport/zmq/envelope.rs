//! What is said to everybody, as a MessagePack map that peers of the first design read: `table`, `key`, `action`, `value`,
//! `topic`; and what this protocol adds: `pub`, `log`, `rev`, `prev`, `known`, `ver`, `part`, `parts`, or in a hello
//! `head`, `last`, `digest`, `stale`.
//!
//! The first part of a message is the topic and a zero byte: ZeroMQ matches prefixes, and topics are matched exactly. A
//! commit of several changes is as many messages; they are put together again before anything is applied.

use bytes::Bytes;
use rmpv::ValueRef as Value;

use crate::change::{Change, ItemKey, LogId, Revision, Slice, Topic};
use crate::digest::Digest;
use crate::message::{Mark, Message};
use crate::wire::Names;

/// The prefix that a topic is subscribed by.
pub(super) fn filter(topic: &Topic) -> String {
    format!("{topic}\0")
}

/// The topic of a first part, with or without the zero byte, which peers of the first design leave out.
pub(super) fn topic(part: &[u8]) -> Option<Topic> {
    let name = std::str::from_utf8(part).ok()?;
    Some(Topic::new(name.strip_suffix('\0').unwrap_or(name)))
}

/// The messages for everybody that say this; each a topic frame and a body. Only slices and beats are for everybody.
pub fn published(message: &Message) -> Vec<(Bytes, Bytes)> {
    if let Message::Txn(slice) = message {
        let changes = slice.changes.iter().map(Some);
        // A slice without changes says that nothing happened, which must be heard, too.
        let changes: Vec<_> = if slice.changes.is_empty() { vec![None] } else { changes.collect() };
        let parts = changes.len();
        let log = slice.log.0.to_be_bytes();
        let one = |(part, change)| frame(&slice.topic, change_map(slice, &log, change, part, parts));
        return changes.into_iter().enumerate().map(one).collect();
    }
    let Message::Beat { instance, log, head, stale_ms, marks } = message else { return Vec::new() };
    let (publisher, log) = (instance.to_be_bytes(), log.0.to_be_bytes());
    let hello = |mark: &Mark| {
        let digest = mark.digest.0.to_be_bytes();
        let mut map = base(&mark.topic, "hello", Value::Nil, Value::Nil, Value::Nil);
        map.push(pair("pub", Value::Binary(&publisher)));
        map.push(pair("log", Value::Binary(&log)));
        map.push(pair("head", (*head).into()));
        map.push(pair("last", mark.last.into()));
        map.push(pair("digest", Value::Binary(&digest)));
        map.push(pair("stale", (*stale_ms).into()));
        frame(&mark.topic, map)
    };
    marks.iter().map(hello).collect()
}

type Map<'a> = Vec<(Value<'a>, Value<'a>)>;

fn pair<'a>(name: &'a str, value: Value<'a>) -> (Value<'a>, Value<'a>) {
    (name.into(), value)
}

fn base<'a>(
    topic: &'a Topic,
    action: &'a str,
    table: Value<'a>,
    key: Value<'a>,
    value: Value<'a>,
) -> Map<'a> {
    let mut map = Vec::with_capacity(12);
    map.push(pair("table", table));
    map.push(pair("key", key));
    map.push(pair("action", action.into()));
    map.push(pair("value", value));
    map.push(pair("topic", topic.as_str().into()));
    map
}

fn change_map<'a>(
    slice: &'a Slice,
    log: &'a [u8],
    change: Option<&'a Change>,
    part: usize,
    parts: usize,
) -> Map<'a> {
    let mut map = match change {
        Some(change) => {
            let action = if change.value.is_some() { "set" } else { "delete" };
            let value = match &change.value {
                Some(value) => match std::str::from_utf8(value) {
                    Ok(text) => text.into(),
                    Err(_) => Value::Binary(value),
                },
                None => Value::Nil,
            };
            base(&slice.topic, action, (&*change.item.table).into(), (&*change.item.key).into(), value)
        }
        None => base(&slice.topic, "none", Value::Nil, Value::Nil, Value::Nil),
    };
    map.push(pair("log", Value::Binary(log)));
    map.push(pair("rev", slice.rev.into()));
    map.push(pair("prev", slice.prev.into()));
    map.push(pair("known", slice.known.into()));
    map.push(pair("ver", change.map_or(slice.rev, |change| change.version).into()));
    map.push(pair("part", (part as u64).into()));
    map.push(pair("parts", (parts as u64).into()));
    map
}

fn frame(topic: &Topic, map: Map<'_>) -> (Bytes, Bytes) {
    let mut body = Vec::with_capacity(512);
    rmpv::encode::write_value_ref(&mut body, &Value::Map(map)).expect("memory takes every byte");
    (Bytes::from(filter(topic)), Bytes::from(body))
}

/// What a body meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A whole message.
    Message(Message),
    /// A part of one.
    Part,
    /// Something of a peer that does not speak this protocol: there is nothing to hold it against.
    Foreign,
    /// Nothing that can be read.
    Garbled,
}

/// Puts slices together again.
///
/// **Why** only one slice at a time: parts come in order, and a slice that misses one is missing whole.
#[derive(Debug, Default)]
pub struct Assembler {
    slice: Option<Slice>,
    parts: usize,
    names: Names,
}

/// The fields that are looked for.
const FIELDS: [&str; 17] = [
    "table", "key", "action", "value", "topic", "log", "rev", "prev", "known", "ver", "part", "parts", "pub",
    "head", "last", "digest", "stale",
];

fn place(name: &str) -> Option<usize> {
    FIELDS.iter().position(|field| *field == name)
}

/// The fields of a map, without a list of everything in it.
#[derive(Default)]
struct Fields<'a>([Option<Value<'a>>; FIELDS.len()]);

impl<'a> Fields<'a> {
    /// Reads a map; nothing if it is none. Of a field that is there twice, the first counts.
    fn read(body: &mut &'a [u8]) -> Option<Self> {
        let mut fields = Self::default();
        for _ in 0..map_length(body)? {
            let name = rmpv::decode::read_value_ref(body).ok()?;
            let value = rmpv::decode::read_value_ref(body).ok()?;
            if let Some(place @ None) = text(&name).and_then(place).map(|place| &mut fields.0[place]) {
                *place = Some(value);
            }
        }
        Some(fields)
    }

    fn get(&self, name: &str) -> Option<&Value<'a>> {
        place(name).and_then(|place| self.0[place].as_ref())
    }
}

/// How many pairs a map has; nothing if something else begins here.
fn map_length(body: &mut &[u8]) -> Option<usize> {
    let (mark, rest) = body.split_first()?;
    let (length, rest) = match mark {
        0x80..=0x8f => (usize::from(mark & 0x0f), rest),
        0xde => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        0xdf => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::try_from(u32::from_be_bytes(*length)).ok()?, rest)
        }
        _ => return None,
    };
    *body = rest;
    Some(length)
}

impl Assembler {
    /// Hears one body.
    pub fn hear(&mut self, mut body: &[u8]) -> Heard {
        let Some(fields) = Fields::read(&mut body) else { return Heard::Garbled };
        let field = |name: &str| fields.get(name);
        let Some(action) = field("action").and_then(text) else { return Heard::Garbled };
        if field("log").is_none() {
            return Heard::Foreign;
        }
        match action {
            "hello" => hello(&field).map_or(Heard::Garbled, Heard::Message),
            "create" | "set" | "delete" | "none" => self.change(&field, action).unwrap_or(Heard::Garbled),
            _ => Heard::Foreign,
        }
    }

    fn change<'a>(&mut self, field: &impl Fn(&str) -> Option<&'a Value<'a>>, action: &str) -> Option<Heard> {
        let number = |name| field(name).and_then(Value::as_u64);
        let (rev, prev, known): (Revision, Revision, Revision) =
            (number("rev")?, number("prev")?, number("known")?);
        let (part, parts) = (usize::try_from(number("part")?).ok()?, usize::try_from(number("parts")?).ok()?);
        let log = LogId(read_wide(field("log")?)?);
        let topic = self.names.topic(text(field("topic")?)?);
        if prev > known || known >= rev || part >= parts {
            return None;
        }
        if part == 0 {
            self.slice = Some(Slice { log, topic: topic.clone(), rev, prev, known, changes: Vec::new() });
            self.parts = 0;
        }
        let expected = self.parts;
        let is_next = |slice: &&mut Slice| {
            slice.rev == rev && slice.topic == topic && slice.log == log && part == expected
        };
        let Some(slice) = self.slice.as_mut().filter(is_next) else {
            self.slice = None;
            return Some(Heard::Part);
        };
        if action != "none" {
            let item = ItemKey::new(self.names.table(text(field("table")?)?), text(field("key")?)?);
            let value = match (action, field("value")?) {
                ("delete", _) => None,
                (_, Value::String(text)) => Some(Bytes::copy_from_slice(text.as_bytes())),
                (_, Value::Binary(bytes)) => Some(Bytes::copy_from_slice(bytes)),
                _ => return None,
            };
            slice.changes.push(Change { item, version: number("ver")?, value });
        }
        self.parts += 1;
        if self.parts < parts {
            return Some(Heard::Part);
        }
        self.slice.take().map(|slice| Heard::Message(Message::Txn(slice)))
    }
}

fn hello<'a>(field: &impl Fn(&str) -> Option<&'a Value<'a>>) -> Option<Message> {
    let number = |name| field(name).and_then(Value::as_u64);
    let mark = Mark {
        topic: Topic::new(text(field("topic")?)?),
        last: number("last")?,
        digest: Digest(read_wide(field("digest")?)?),
    };
    Some(Message::Beat {
        instance: read_wide(field("pub")?)?,
        log: LogId(read_wide(field("log")?)?),
        head: number("head")?,
        stale_ms: number("stale")?,
        marks: vec![mark],
    })
}

fn text<'a>(value: &'a Value<'_>) -> Option<&'a str> {
    if let Value::String(text) = value { text.as_str() } else { None }
}

fn read_wide(value: &Value<'_>) -> Option<u128> {
    let Value::Binary(bytes) = value else { return None };
    Some(u128::from_be_bytes((*bytes).try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(changes: Vec<Change>) -> Message {
        Message::Txn(Slice { log: LogId(7), topic: Topic::new("a"), rev: 9, prev: 3, known: 8, changes })
    }

    fn heard(assembler: &mut Assembler, message: &Message) -> Vec<Heard> {
        published(message).iter().map(|(_, body)| assembler.hear(body)).collect()
    }

    #[test]
    fn a_slice_is_heard_as_it_was_said() {
        let (one, two) = (ItemKey::new("t", "one"), ItemKey::new("t", "two"));
        for changes in [
            vec![],
            vec![Change::put(one.clone(), 9, "text")],
            vec![Change::put(one, 9, vec![0xff, 0]), Change::delete(two, 5)],
        ] {
            let message = slice(changes);
            assert_eq!(heard(&mut Assembler::default(), &message).pop(), Some(Heard::Message(message)));
        }
    }

    #[test]
    fn a_slice_that_misses_a_part_is_missing() {
        let item = |name| Change::put(ItemKey::new("t", name), 9, "v");
        let parts = published(&slice(vec![item("one"), item("two"), item("three")]));
        let mut assembler = Assembler::default();
        assert_eq!(assembler.hear(&parts[0].1), Heard::Part);
        assert_eq!(assembler.hear(&parts[2].1), Heard::Part);
        assert_eq!(assembler.slice, None);
    }

    #[test]
    fn a_hello_is_heard_and_strangers_are_not_believed() {
        let mark = Mark { topic: Topic::new("a"), last: 4, digest: Digest(5) };
        let beat = Message::Beat { instance: 1, log: LogId(2), head: 3, stale_ms: 0, marks: vec![mark] };
        assert_eq!(heard(&mut Assembler::default(), &beat), [Heard::Message(beat)]);
        let mut body = Vec::new();
        let topic = Topic::new("a");
        let map = base(&topic, "set", "t".into(), "k".into(), "v".into());
        rmpv::encode::write_value_ref(&mut body, &Value::Map(map)).unwrap();
        assert_eq!(Assembler::default().hear(&body), Heard::Foreign);
        assert_eq!(Assembler::default().hear(b"\xc1"), Heard::Garbled);
    }

    #[test]
    fn a_map_with_many_fields_is_read_and_a_cut_one_is_not() {
        let names: Vec<String> = (0..70_000).map(|number| format!("field-{number}")).collect();
        for count in [0, 20, names.len()] {
            let topic = Topic::new("a");
            let mut map: Map<'_> = names[..count].iter().map(|name| pair(name, Value::Nil)).collect();
            map.extend(base(&topic, "set", "t".into(), "k".into(), "v".into()));
            let mut body = Vec::new();
            rmpv::encode::write_value_ref(&mut body, &Value::Map(map)).unwrap();
            assert_eq!(Assembler::default().hear(&body), Heard::Foreign, "{count} fields");
            assert_eq!(Assembler::default().hear(&body[..body.len() - 1]), Heard::Garbled, "{count} fields");
        }
    }

    #[test]
    fn slices_of_a_topic_share_its_name() {
        let mut assembler = Assembler::default();
        let said = slice(vec![Change::put(ItemKey::new("t", "k"), 9, "v")]);
        let [one, two] = [0, 1].map(|_| heard(&mut assembler, &said).pop());
        let (Some(Heard::Message(Message::Txn(one))), Some(Heard::Message(Message::Txn(two)))) = (one, two)
        else {
            panic!("both are slices")
        };
        assert!(std::ptr::eq(one.topic.as_str(), two.topic.as_str()));
        assert!(std::sync::Arc::ptr_eq(&one.changes[0].item.table, &two.changes[0].item.table));
    }
}
