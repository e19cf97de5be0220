//! What a fuzzer calls: every decoder of what comes over a wire, over whatever bytes.
//!
//! The first byte chooses the decoder, the rest is what arrives. **Why** an error and not a panic: the tests that replay
//! the seeds tell which one it was.

use bytes::BytesMut;

use crate::transport::zmq::{Assembler, Heard, published};
use crate::transport::{nats, zmq};
use crate::wire;

/// A decoder that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to read {0} as they were written")]
pub struct Contradiction(pub &'static str);

/// Reads bytes with the decoder that the first of them chooses; the answer is how many messages they are.
///
/// `f`: frames of the protocol; `e`: bodies of ZeroMQ, each behind its length in two bytes; `g`: ZeroMQ from its greeting
/// on; `z`: ZeroMQ behind the greeting; `n`: what a NATS server says.
pub fn read(bytes: &[u8]) -> Result<usize, Contradiction> {
    let Some((choice, rest)) = bytes.split_first() else { return Ok(0) };
    match choice {
        b'e' => envelopes(rest),
        b'g' => zmq::read_whole(rest, true).ok_or(Contradiction("messages of ZeroMQ")),
        b'z' => zmq::read_whole(rest, false).ok_or(Contradiction("messages of ZeroMQ")),
        b'n' => nats::read_whole(rest).ok_or(Contradiction("messages of NATS")),
        _ => frames(rest),
    }
}

/// Whole frames, one behind the other; what was read is read again as it was written.
fn frames(bytes: &[u8]) -> Result<usize, Contradiction> {
    let mut buffer = BytesMut::from(bytes);
    let mut count = 0;
    while let Ok(Some(length)) = wire::frame_length(&buffer) {
        if buffer.len() < length {
            break;
        }
        let Ok(Some(message)) = wire::decode(&buffer.split_to(length)) else { continue };
        if wire::decode(&wire::encode(&message)) != Ok(Some(message)) {
            return Err(Contradiction("frames"));
        }
        count += 1;
    }
    Ok(count)
}

/// Bodies that one subscriber hears in turn; a message that they make up is said and heard again.
fn envelopes(mut bytes: &[u8]) -> Result<usize, Contradiction> {
    let mut assembler = Assembler::default();
    let mut count = 0;
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (body, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        bytes = rest;
        let Heard::Message(message) = assembler.hear(body) else { continue };
        let mut again = Assembler::default();
        let heard: Vec<Heard> = published(&message).iter().map(|(_, body)| again.hear(body)).collect();
        if heard.last() != Some(&Heard::Message(message)) {
            return Err(Contradiction("bodies of ZeroMQ"));
        }
        count += 1;
    }
    Ok(count)
}
