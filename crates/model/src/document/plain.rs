//! A shortcut for documents that are plain: one map of fields on lines of its own, or in braces on one line, whose values are
//! words, numbers, addresses, and lists and maps of them in brackets and braces.
//!
//! Decided here: which documents are read without the whole of YAML, and that their tree is the one that [`super::tree`]
//! would give, with the same places; whatever is not surely plain is left to it. **Why**: thousands of routes in one file are
//! read by an agent that starts, and a plain one takes a fraction of the time.

use super::place::Spot;
use super::tree::{Content, Entry, Node};

/// How deep braces and brackets may stand in each other.
const DEEPEST: u32 = 8;

/// As many digits as fit into a number of sixty-four bits in any case.
const DIGITS: usize = 18;

/// Words that may mean something else than themselves.
const RESERVED: &[&str] =
    &["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity", "none"];

/// Reads all documents of a text, those that are not plain with `whole`; nothing if the text as a whole has to be read so.
pub(super) fn read<E>(text: &str, whole: impl Fn(&str) -> Result<Vec<Node>, E>) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    // Documents one after another that are not plain are read together.
    let mut open: Option<Part> = None;
    for part in parts(text)? {
        match part.plain(text) {
            None => open.get_or_insert(part).end = part.end,
            Some(node) => {
                let before = open.take();
                before.is_none_or(|open| open.ends_by_itself(text)).then_some(())?;
                nodes.extend(before.map_or(Some(Vec::new()), |open| open.read(text, &whole))?);
                nodes.push(node);
            }
        }
    }
    nodes.extend(open.map_or(Some(Vec::new()), |open| open.read(text, &whole))?);
    Some(nodes)
}

/// One document of a text.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where it begins, with its `---` if it has one, and on which line.
    start: usize,
    line: u32,
    /// Where its content begins, and on which line; nothing if it begins on the line of the `---`.
    body: Option<(usize, u32)>,
    end: usize,
}

/// The documents of a text; nothing if they cannot be told apart by looking at the beginnings of lines.
fn parts(text: &str) -> Option<Vec<Part>> {
    if text.contains(['\r', '\u{feff}', '\u{85}', '\u{2028}', '\u{2029}']) {
        return None;
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut part = Part { start: 0, line: 1, body: Some((0, 1)), end: 0 };
    let (mut at, mut is_filled) = (0, false);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if line.starts_with("...") || line.starts_with('%') {
            return None;
        }
        let content = line.trim_start().trim_end();
        let after =
            line.strip_prefix("---").filter(|after| after.is_empty() || after.starts_with([' ', '\t', '\n']));
        if let Some(after) = after {
            part.end = at;
            // Nothing before the first `---` is no document; nothing behind one is a question for others.
            if is_filled {
                parts.push(part);
            } else if part.start != at || !parts.is_empty() {
                (parts.is_empty() && part.body == Some((0, 1))).then_some(())?;
            }
            let is_bare = after.trim().is_empty();
            let body = is_bare.then_some((at + line.len(), number + 1));
            part = Part { start: at, line: number, body, end: 0 };
            is_filled = !is_bare;
        } else {
            is_filled |= !content.is_empty() && !content.starts_with('#');
        }
        at += line.len();
    }
    part.end = text.len();
    is_filled.then(|| parts.push(part))?;
    Some(parts)
}

impl Part {
    /// The document with everything that YAML has; nothing if that is refused.
    fn read<E>(self, text: &str, whole: impl Fn(&str) -> Result<Vec<Node>, E>) -> Option<Vec<Node>> {
        let mut nodes = whole(text.get(self.start..self.end)?).ok()?;
        nodes.iter_mut().for_each(|node| shift(node, self.line - 1));
        Some(nodes)
    }

    /// Whether it surely does not end with a value that is empty: such a one stands where the next document begins.
    fn ends_by_itself(self, text: &str) -> bool {
        let lines = text.get(self.start..self.end).unwrap_or_default().lines().rev();
        let last =
            lines.map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
        let is_end = |letter: char| letter.is_ascii_alphanumeric() || "\"'}]".contains(letter);
        last.ends_with(is_end) && !last.contains(['|', '>', '&', '!'])
    }

    /// The document, if it is plain.
    fn plain(self, text: &str) -> Option<Node> {
        let (start, first) = self.body?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut spot = None;
        for (line, number) in text.get(start..self.end)?.split('\n').zip(first..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut cursor = Cursor { line: line.as_bytes(), at: 0, number };
            if line.starts_with('{') {
                let node = cursor.node(0)?;
                cursor.end()?;
                // Nothing else may stand in the document.
                let mut rest = text.get(start..self.end)?.split('\n').zip(first..);
                let is_alone =
                    |(line, at): (&str, u32)| at == number || line.is_empty() || line.starts_with('#');
                return (entries.is_empty() && rest.all(is_alone)).then_some(node);
            }
            spot.get_or_insert(cursor.spot());
            entries.push(cursor.entry(None)?);
            cursor.end()?;
        }
        Some(Node { spot: spot?, content: Content::Map(entries) })
    }
}

/// Moves a tree down by so many lines.
fn shift(node: &mut Node, lines: u32) {
    node.spot.line += lines;
    match &mut node.content {
        Content::List(list) => list.iter_mut().for_each(|node| shift(node, lines)),
        Content::Map(entries) => entries.iter_mut().for_each(|entry| {
            entry.spot.line += lines;
            shift(&mut entry.node, lines);
        }),
        Content::Null | Content::Bool(_) | Content::Int(_) | Content::Float(_) | Content::Text(_) => {}
    }
}

/// A place within a line.
struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
    number: u32,
}

impl<'a> Cursor<'a> {
    /// **Assumes** that everything before it is ASCII, so that a byte is a character.
    fn spot(&self) -> Spot {
        Spot { line: self.number, column: u32::try_from(self.at + 1).unwrap_or(u32::MAX) }
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn spaces(&mut self) -> usize {
        let many = self.line[self.at..].iter().take_while(|byte| **byte == b' ').count();
        self.at += many;
        many
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// Nothing but spaces is left.
    fn end(&mut self) -> Option<()> {
        self.spaces();
        self.peek().is_none().then_some(())
    }

    fn word(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        let many = self.line[start..].iter().take_while(|byte| is_part(**byte)).count();
        self.at += many;
        // Every part is ASCII.
        std::str::from_utf8(&self.line[start..start + many]).unwrap_or_default()
    }

    /// A field and its value; `within` braces of this depth, or on a line of its own.
    fn entry(&mut self, within: Option<u32>) -> Option<Entry> {
        let spot = self.spot();
        let name = self
            .word(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_');
        if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) || RESERVED.contains(&name) {
            return None;
        }
        self.take(b':')?;
        (self.spaces() > 0).then_some(())?;
        let node = match (within, self.peek()?) {
            (Some(depth), _) => self.node(depth)?,
            (None, b'{' | b'[') => self.node(0)?,
            (None, _) => self.scalar(false)?,
        };
        Some(Entry { name: name.to_owned(), spot, node })
    }

    /// A value within braces or brackets, or such ones themselves.
    fn node(&mut self, depth: u32) -> Option<Node> {
        let spot = self.spot();
        (depth < DEEPEST).then_some(())?;
        let (close, mut list, mut entries) = match self.peek()? {
            b'{' => (b'}', Vec::new(), Vec::new()),
            b'[' => (b']', Vec::new(), Vec::new()),
            _ => return self.scalar(true),
        };
        self.at += 1;
        loop {
            self.spaces();
            match close {
                b'}' => entries.push(self.entry(Some(depth + 1))?),
                _ => list.push(self.node(depth + 1)?),
            }
            self.spaces();
            if self.take(close).is_some() {
                let content = if close == b'}' { Content::Map(entries) } else { Content::List(list) };
                return Some(Node { spot, content });
            }
            self.take(b',')?;
            // A comma that nothing follows, or that something follows at once, is a question for others.
            (self.peek()? == b' ').then_some(())?;
        }
    }

    /// A word, a number or an address that is surely that.
    fn scalar(&mut self, is_within: bool) -> Option<Node> {
        let spot = self.spot();
        let word = self.word(|byte| byte.is_ascii_alphanumeric() || b"._/-:".contains(&byte));
        let first = word.bytes().next()?;
        let is_text = if first.is_ascii_alphabetic() {
            let may_be_else = word.ends_with(':') || (is_within && word.contains(':'));
            !may_be_else && !RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
        } else {
            is_address(word)
        };
        if is_text {
            return Some(Node { spot, content: Content::Text(word.to_owned()) });
        }
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit())
            && word.len() <= DIGITS
            && (first != b'0' || word.len() == 1);
        let number = is_number.then(|| word.parse().ok())??;
        Some(Node { spot, content: Content::Int(number) })
    }
}

/// Whether it is an IPv4 address, or one with the length of its prefix: no number has three points.
fn is_address(word: &str) -> bool {
    let (address, length) = word.split_once('/').unwrap_or((word, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    address.split('.').count() == 4 && address.split('.').all(is_number) && is_number(length)
}
