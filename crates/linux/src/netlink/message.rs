//! Messages: how a request is written and a reply is read, byte by byte.
//!
//! Decided here: the layout of headers and attributes. A reader never trusts a length: whatever the bytes are, it ends,
//! and gives nothing that lies outside of them.

/// The length of the header of a message.
pub(crate) const HEADER: usize = 16;

/// Flags of a request.
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACK: u16 = 0x4;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCL: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
    /// On a reply: the table changed while it was read.
    pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
    /// On an acknowledgement: attributes follow.
    pub(crate) const ACK_TLVS: u16 = 0x200;
}

/// Types of messages that are not of a family.
pub(crate) mod control {
    pub(crate) const ERROR: u16 = 2;
    pub(crate) const DONE: u16 = 3;
}

const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// A request while it is written. The sequence number is filled in by the socket that sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of this type.
    pub(crate) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | flag::REQUEST).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        Self { bytes }
    }

    /// Adds what stands before the attributes.
    #[must_use]
    pub(crate) fn body(mut self, bytes: &[u8]) -> Self {
        self.put(bytes);
        self
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    /// Adds an attribute.
    pub(crate) fn bytes(&mut self, kind: u16, payload: &[u8]) {
        let length = u16::try_from(4 + payload.len()).expect("no attribute of ours is that long");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.put(payload);
    }

    /// Adds a number.
    pub(crate) fn u8(&mut self, kind: u16, number: u8) {
        self.bytes(kind, &[number]);
    }

    /// Adds a number.
    pub(crate) fn u16(&mut self, kind: u16, number: u16) {
        self.bytes(kind, &number.to_ne_bytes());
    }

    /// Adds a number in network order.
    pub(crate) fn be16(&mut self, kind: u16, number: u16) {
        self.bytes(kind, &number.to_be_bytes());
    }

    /// Adds a number.
    pub(crate) fn u32(&mut self, kind: u16, number: u32) {
        self.bytes(kind, &number.to_ne_bytes());
    }

    /// Adds a number.
    pub(crate) fn u64(&mut self, kind: u16, number: u64) {
        self.bytes(kind, &number.to_ne_bytes());
    }

    /// Adds a text with its end mark.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        let mut payload = Vec::with_capacity(text.len() + 1);
        payload.extend_from_slice(text.as_bytes());
        payload.push(0);
        self.bytes(kind, &payload);
    }

    /// Adds an attribute that consists of attributes.
    pub(crate) fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Self)) {
        self.nest_after(kind | NESTED, &[], write);
    }

    /// Adds an attribute that consists of attributes after a header, without the mark of a nested one.
    pub(crate) fn nest_after(&mut self, kind: u16, header: &[u8], write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.put(header);
        write(self);
        let length = u16::try_from(self.bytes.len() - start).expect("no attribute of ours is that long");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Adds records that are not attributes themselves: the next hops of a route.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// Where the next record begins.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a length into a record that began at this place.
    pub(crate) fn set_length_at(&mut self, start: usize) {
        let length = u16::try_from(self.bytes.len() - start).expect("no record of ours is that long");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// A number in what stands before the attributes.
    pub(crate) fn u32_in_body(&self, at: usize) -> Option<u32> {
        u32_at(&self.bytes, HEADER + at)
    }

    /// Appends the finished message to what is about to be sent.
    pub(crate) fn finish_into(&self, out: &mut Vec<u8>, flags: u16, seq: u32) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let length = u32::try_from(self.bytes.len()).expect("no message of ours is that long");
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | flags;
        out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        out[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
        out[start + 8..start + 12].copy_from_slice(&seq.to_ne_bytes());
    }

    /// The message as it is sent, with a sequence number of nought.
    #[cfg(test)]
    pub(crate) fn wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.finish_into(&mut out, 0, 0);
        out
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) seq: u32,
    /// Whose request caused it: the port of a socket, nought for the kernel's own doing.
    pub(crate) port: u32,
    pub(crate) payload: &'a [u8],
}

/// The messages in a buffer; ends where they stop making sense.
#[derive(Clone, Debug)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Received<'a>;

    fn next(&mut self) -> Option<Received<'a>> {
        let header = self.0.get(..HEADER)?;
        let length = usize::try_from(u32_at(header, 0)?).ok()?;
        let message = self.0.get(..length).filter(|message| message.len() >= HEADER)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(Received {
            kind: u16_at(header, 4)?,
            flags: u16_at(header, 6)?,
            seq: u32_at(header, 8)?,
            port: u32_at(header, 12)?,
            payload: &message[HEADER..],
        })
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
}

impl<'a> Attribute<'a> {
    pub(crate) fn as_u8(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    pub(crate) fn as_u16(&self) -> Option<u16> {
        u16_at(self.payload, 0)
    }

    pub(crate) fn as_be16(&self) -> Option<u16> {
        u16_at(self.payload, 0).map(u16::from_be)
    }

    pub(crate) fn as_u32(&self) -> Option<u32> {
        u32_at(self.payload, 0)
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.payload.get(..8)?.try_into().ok()?))
    }

    /// A text up to its end mark; what is no UTF-8 is replaced.
    pub(crate) fn as_text(&self) -> String {
        let end = self.payload.iter().position(|byte| *byte == 0).unwrap_or(self.payload.len());
        String::from_utf8_lossy(&self.payload[..end]).into_owned()
    }

    /// The attributes it consists of.
    pub(crate) fn nested(&self) -> Attributes<'a> {
        Attributes(self.payload)
    }
}

/// The attributes in a payload; ends where they stop making sense.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes after a fixed header.
    pub(crate) fn after(payload: &'a [u8], header: usize) -> Self {
        Self(payload.get(aligned(header)..).unwrap_or_default())
    }

    /// The first attribute of this type.
    pub(crate) fn get(mut self, kind: u16) -> Option<Attribute<'a>> {
        self.find(|attribute| attribute.kind == kind)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & TYPE_MASK;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(Attribute { kind, payload })
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut message = Message::new(16, flag::CREATE).body(&[1, 2, 3]);
        message.u8(1, 7);
        message.text(3, "eth0");
        message.nest(18, |info| {
            info.text(1, "veth");
            info.nest(2, |data| data.u32(9, 77));
        });
        let wire = message.wire();
        assert_eq!(wire.len() % 4, 0);
        let received: Vec<Received<'_>> = Messages(&wire).collect();
        let [received] = received.as_slice() else { panic!("one message") };
        assert_eq!((received.kind, received.flags), (16, flag::CREATE | flag::REQUEST));
        let attributes = Attributes::after(received.payload, 3);
        assert_eq!(attributes.get(1).and_then(|found| found.as_u8()), Some(7));
        assert_eq!(attributes.get(3).map(|found| found.as_text()).as_deref(), Some("eth0"));
        let info = attributes.get(18).unwrap();
        assert_eq!(info.nested().get(1).map(|found| found.as_text()).as_deref(), Some("veth"));
        let data = info.nested().get(2).unwrap();
        assert_eq!(data.nested().get(9).and_then(|found| found.as_u32()), Some(77));
    }

    #[test]
    fn lengths_that_lie_end_the_reading() {
        for lie in [0_u16, 1, 3, 400, u16::MAX] {
            let mut bytes = lie.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[1, 0, 9, 9, 9, 9]);
            assert_eq!(Attributes(&bytes).count(), 0, "{lie}");
        }
        for lie in [0_u32, 15, 17, u32::MAX] {
            let mut bytes = lie.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[0; 12]);
            assert_eq!(Messages(&bytes).count(), 0, "{lie}");
        }
    }
}
