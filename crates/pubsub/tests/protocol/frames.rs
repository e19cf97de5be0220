//! Frames are read as they were written, and nothing else is read as a frame.

use kilter_pubsub::wire::{DecodeError, HEADER, OPTIONAL, PROTOCOL, decode, encode, frame_length};
use kilter_pubsub::{
    Basis, CatchUp, Change, Cursor, Digest, Held, ItemKey, LogId, Mark, Message, Mode, Reason, Slice, Topic,
};

/// One message of every type, and of every variant inside.
pub(crate) fn every_message() -> Vec<Message> {
    let topic = Topic::new("tenant \u{0}ÿ");
    let (put, delete) =
        (Change::put(ItemKey::new("t", "a"), 300, "value"), Change::delete(ItemKey::new("t", ""), u64::MAX));
    let changes = vec![put.clone(), delete];
    let held = vec![Held { key: 1, mark: u64::MAX }];
    let peers = vec!["tcp://a:1".to_owned(), String::new()];
    let mut messages = vec![
        Message::Hello { node: "n".to_owned(), instance: u128::MAX, token: Some("word".to_owned()) },
        Message::Hello { node: String::new(), instance: 0, token: None },
        Message::Welcome {
            instance: 1,
            log: LogId(2),
            head: 3,
            heartbeat_ms: 4,
            stale_ms: 5,
            peers: peers.clone(),
        },
        Message::Busy { sub: 1, retry_ms: 700 },
        Message::Unsubscribe { sub: u32::MAX },
        Message::Txn(Slice {
            log: LogId(9),
            topic: topic.clone(),
            rev: 8,
            prev: 5,
            known: 6,
            changes: changes.clone(),
        }),
        Message::Fetch { sub: 1, after: 128 },
        Message::Range { sub: 1, after: 1, known: 3, upto: 9, more: true, changes },
        Message::Compacted { sub: 1, tail: 127 },
        Message::Sums { sub: 1, sums: vec![Digest(1); 256] },
        Message::Want { sub: 1, buckets: vec![0, 255] },
        Message::Have { sub: 1, last: true, held: held.clone() },
        Message::Items { sub: 1, part: 2, items: vec![put], kept: held, gone: vec![5, 6] },
        Message::End { sub: 1, at: 2, parts: 3, count: 4, digest: Digest(u128::MAX) },
        Message::Beat {
            instance: 1,
            log: LogId(2),
            head: 3,
            stale_ms: 4,
            marks: vec![Mark { topic: topic.clone(), last: 1, digest: Digest(2) }],
        },
        Message::Ack { applied: vec![(topic.clone(), 5)] },
        Message::Nack { topic: topic.clone(), rev: 1, item: "t/a".to_owned(), text: "no".to_owned() },
        Message::Lagging { sub: 1, behind: 2 },
        Message::Ping { nonce: 1 },
        Message::Pong { nonce: 1 },
    ];
    for mode in [Mode::Resume, Mode::Delta, Mode::Snapshot] {
        let cursor = (mode == Mode::Delta).then_some(Cursor { log: LogId(1), applied: 2 });
        messages.push(Message::Subscribe { sub: 1, topic: topic.clone(), cursor, min_rev: 3, mode });
    }
    let ways =
        [CatchUp::Range, CatchUp::Delta(Basis::Versions), CatchUp::Delta(Basis::Content), CatchUp::Snapshot];
    for catch_up in ways {
        messages.push(Message::Subscribed { sub: 1, log: LogId(2), head: 3, last: 4, catch_up });
    }
    for reason in [Reason::Shutdown, Reason::Behind, Reason::Overload, Reason::Stalled, Reason::Refused] {
        messages.push(Message::Goaway { reason, retry_ms: 9, peers: peers.clone() });
    }
    messages
}

#[test]
fn every_message_reads_back_as_it_was_written() {
    for message in every_message() {
        let frame = encode(&message);
        assert_eq!(frame_length(&frame), Ok(Some(frame.len())), "{message:?}");
        assert_eq!(decode(&frame), Ok(Some(message)));
    }
}

#[test]
fn a_frame_that_ends_early_is_refused_wherever_it_ends() {
    for message in every_message() {
        let frame = encode(&message);
        for end in HEADER..frame.len() {
            let mut short = frame[..end].to_vec();
            let length = u32::try_from(end - 4).unwrap();
            short[..4].copy_from_slice(&length.to_be_bytes());
            assert!(decode(&short).is_err(), "{message:?} cut at {end}");
        }
        assert_eq!(decode(&frame[..frame.len() - 1]), Err(DecodeError::Short));
    }
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    for message in every_message() {
        let mut frame = encode(&message).to_vec();
        frame.extend_from_slice(b"later");
        let length = u32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(decode(&frame), Ok(Some(message)));
    }
}

#[test]
fn an_unknown_type_is_skipped_only_if_it_may_be() {
    let mut frame = encode(&Message::Ping { nonce: 1 }).to_vec();
    frame[5] = 200;
    assert_eq!(decode(&frame), Ok(None));
    frame[6..8].copy_from_slice(&(OPTIONAL ^ OPTIONAL).to_be_bytes());
    assert_eq!(decode(&frame), Err(DecodeError::Type(200)));
    frame[4] = PROTOCOL + 1;
    assert_eq!(decode(&frame), Err(DecodeError::Version(PROTOCOL + 1)));
}

#[test]
fn a_claimed_length_costs_no_memory() {
    assert_eq!(frame_length(&u32::MAX.to_be_bytes()), Err(DecodeError::Long(u32::MAX as usize)));
    assert_eq!(frame_length(&[0, 0]), Ok(None));
    let mut frame = encode(&Message::Sums { sub: 1, sums: Vec::new() }).to_vec();
    frame.pop();
    frame.extend_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    let length = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&length.to_be_bytes());
    assert_eq!(decode(&frame), Err(DecodeError::Short));
}
