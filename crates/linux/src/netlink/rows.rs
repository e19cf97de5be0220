//! The rows of a table as they came: kept to tell whether the next read of it tells anything else.
//!
//! Decided here: two reads are the same if they are byte by byte. What a row means is not known here.

use super::message::{Received, u32_at};
use super::{Message, Refusal, Requests};

/// The rows of a table as they came, one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Each row after its length in four bytes.
    bytes: Vec<u8>,
}

impl Rows {
    fn push(&mut self, row: &[u8]) {
        let length =
            u32::try_from(row.len()).expect("a row is part of a message, whose length has four bytes");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(row);
    }

    /// The rows without the headers of their messages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let end = 4 + usize::try_from(u32_at(rest, 0)?).ok()?;
            let row = rest.get(4..end)?;
            rest = &rest[end..];
            Some(row)
        })
    }

    /// The row that begins here, if it is this one; where the next begins.
    fn after(&self, at: usize, row: &[u8]) -> Option<usize> {
        let rest = &self.bytes[at..];
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let end = 4 + length;
        (length == row.len() && rest.get(4..end)? == row).then_some(at + end)
    }
}

/// A read that is compared with an earlier one as it comes; nothing is copied as long as it is the same.
struct Comparison<'a> {
    before: &'a Rows,
    /// How much of it has come again.
    at: usize,
    other: Option<Rows>,
}

impl<'a> Comparison<'a> {
    fn with(before: &'a Rows) -> Self {
        Self { before, at: 0, other: None }
    }

    fn take(&mut self, row: &[u8]) {
        if self.other.is_none()
            && let Some(next) = self.before.after(self.at, row)
        {
            self.at = next;
            return;
        }
        self.differ().push(row);
    }

    /// What came so far, as rows of its own.
    fn differ(&mut self) -> &mut Rows {
        let (before, at) = (self.before, self.at);
        self.other.get_or_insert_with(|| Rows { bytes: before.bytes[..at].to_vec() })
    }

    /// The rows if they are not what they were.
    fn end(mut self) -> Option<Rows> {
        if self.other.is_none() && self.at < self.before.bytes.len() {
            self.differ();
        }
        self.other
    }
}

/// Rows that are compared with earlier ones; `None` if they are the same.
pub(crate) fn compared<'a>(before: &Rows, rows: impl Iterator<Item = &'a [u8]>) -> Option<Rows> {
    let mut comparison = Comparison::with(before);
    rows.for_each(|row| comparison.take(row));
    comparison.end()
}

/// Reads a table whose rows are messages of one type; `None` if it is byte by byte as it was before.
pub(crate) fn read_against(
    requests: &mut Requests,
    request: &Message,
    kind: u16,
    before: &Rows,
) -> Result<Option<Rows>, Refusal> {
    let read = requests.dump(
        request,
        || Comparison::with(before),
        |comparison, received: &Received<'_>| {
            if received.kind == kind {
                comparison.take(received.payload);
            }
        },
    );
    read.map(Comparison::end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[&[u8]]) -> Rows {
        let mut rows = Rows::default();
        list.iter().for_each(|row| rows.push(row));
        rows
    }

    #[test]
    fn the_same_rows_in_the_same_order_are_the_same() {
        assert_eq!(compared(&rows(&[]), std::iter::empty()), None);
        let list: &[&[u8]] = &[b"one", b"", b"three"];
        assert_eq!(compared(&rows(list), list.iter().copied()), None);
    }

    #[test]
    fn whatever_differs_gives_all_rows_anew() {
        let before = rows(&[b"one", b"two", b"three"]);
        let others: [&[&[u8]]; 8] = [
            &[],
            &[b"one", b"two"],
            &[b"two", b"three"],
            &[b"one", b"two", b"three", b"four"],
            &[b"one", b"twi", b"three"],
            &[b"two", b"one", b"three"],
            &[b"onet", b"wo", b"three"],
            &[b"one", b"two", b"three", b""],
        ];
        for other in others {
            assert_eq!(compared(&before, other.iter().copied()), Some(rows(other)), "{other:?}");
        }
    }
}
