//! Frames that are larger than a server takes at once, as parts of it.
//!
//! Decided here: how a part looks: a byte with which no frame begins, the number of the frame and of the part, how many there
//! are, and the bytes. Parts of one frame come in order at one subject. What misses a part is missing whole, which the
//! protocol notices.

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire;

/// Frames begin with their length, which is never so large.
const MARK: u8 = 0xff;

/// The mark, the number of the frame, the number of the part, how many parts there are.
const HEADER: usize = 13;

/// A server that takes less is not taken seriously.
const SMALLEST: usize = 256;

/// The bodies that say this, none larger than the limit.
pub(super) fn split(frame: &Bytes, limit: usize, number: u32) -> Vec<Bytes> {
    let limit = limit.max(SMALLEST);
    if frame.len() <= limit {
        return vec![frame.clone()];
    }
    let room = limit - HEADER;
    let count = u32::try_from(frame.len().div_ceil(room)).unwrap_or(u32::MAX);
    let part = |(at, bytes): (usize, &[u8])| {
        let mut part = BytesMut::with_capacity(HEADER + bytes.len());
        part.put_u8(MARK);
        part.put_u32(number);
        part.put_u32(u32::try_from(at).unwrap_or(u32::MAX));
        part.put_u32(count);
        part.put_slice(bytes);
        part.freeze()
    };
    frame.chunks(room).enumerate().map(part).collect()
}

/// Puts the frames of one subject together again.
#[derive(Debug, Default)]
pub(super) struct Joining {
    frame: BytesMut,
    number: u32,
    /// The part that is next, and how many there are; zero if none is.
    next: u32,
    count: u32,
}

impl Joining {
    /// The frame that a body is, or is the last part of.
    pub(super) fn take(&mut self, body: &Bytes) -> Option<Bytes> {
        if body.first() != Some(&MARK) {
            *self = Self::default();
            return Some(body.clone());
        }
        let field = |at: usize| Some(u32::from_be_bytes(*body.get(at..)?.first_chunk::<4>()?));
        let (number, at, count) = (field(1)?, field(5)?, field(9)?);
        if at == 0 {
            *self = Self { number, count, ..Self::default() };
        }
        let is_next = (number, at, count) == (self.number, self.next, self.count) && at < count;
        let bytes = body.get(HEADER..)?;
        if !is_next || self.frame.len() + bytes.len() > wire::MAX_FRAME + wire::HEADER {
            *self = Self::default();
            return None;
        }
        self.frame.extend_from_slice(bytes);
        self.next += 1;
        (self.next == self.count).then(|| std::mem::take(self).frame.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Bytes {
        (0..length).map(|number| (number % 251) as u8).collect()
    }

    #[test]
    fn a_frame_comes_out_as_it_went_in_whatever_the_limit() {
        for length in [1, 255, 256, 257, 5000, 100_000] {
            for limit in [0, 256, 300, 4096, 1 << 20] {
                let parts = split(&frame(length), limit, 7);
                assert!(parts.iter().all(|part| part.len() <= limit.max(SMALLEST)));
                let mut joining = Joining::default();
                let mut taken: Vec<_> = parts.iter().filter_map(|part| joining.take(part)).collect();
                assert_eq!((taken.len(), taken.pop()), (1, Some(frame(length))), "{length} in {limit}");
            }
        }
    }

    #[test]
    fn a_frame_that_misses_a_part_is_missing_and_the_next_one_is_not() {
        let (first, second) = (split(&frame(1000), 300, 1), split(&frame(1000), 300, 2));
        for missing in 0..first.len() {
            let mut joining = Joining::default();
            let some = first.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, part)| part);
            let taken: Vec<_> = some.chain(&second).filter_map(|part| joining.take(part)).collect();
            assert_eq!(taken, [frame(1000)], "without {missing}");
        }
        let mut joining = Joining::default();
        assert_eq!(joining.take(&first[0]), None);
        assert_eq!(joining.take(&frame(5)), Some(frame(5)), "what is whole is no part");
        assert_eq!(joining.take(&Bytes::from_static(&[MARK, 0, 0])), None);
    }

    #[test]
    fn nobody_is_made_to_keep_more_than_a_frame() {
        let mut joining = Joining::default();
        for part in split(&frame(wire::MAX_FRAME * 2), 1 << 20, 1) {
            assert_eq!(joining.take(&part), None);
            assert!(joining.frame.len() <= wire::MAX_FRAME + wire::HEADER);
        }
    }
}
