//! The seed corpus of the fuzz target `frames` is read, also where nobody fuzzes.

use std::fs;
use std::path::PathBuf;

use kilter_pubsub::fuzzed::read;
use kilter_pubsub::transport::zmq::published;
use kilter_pubsub::wire::encode;

use crate::frames::every_message;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frames")
}

/// What the corpus holds at least, with how many messages each seed is.
fn due() -> Vec<(String, Vec<u8>, usize)> {
    let mut due = Vec::new();
    let mut everything = vec![b'f'];
    for (number, message) in every_message().iter().enumerate() {
        let frame = encode(message);
        everything.extend_from_slice(&frame);
        due.push((format!("frame-{number:02}"), [b"f", &frame[..]].concat(), 1));
        let bodies = published(message);
        if !bodies.is_empty() {
            let mut said = vec![b'e'];
            for (_, body) in bodies {
                said.extend_from_slice(&u16::try_from(body.len()).expect("bodies are short").to_be_bytes());
                said.extend_from_slice(&body);
            }
            due.push((format!("body-{number:02}"), said, 1));
        }
    }
    due.push(("frames".to_owned(), everything, every_message().len()));
    let mut greeting = [0; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    let ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB";
    let talk = b"\x00\x07\x01topic\0\x00\x07\x00topic\0\x04\x10\x09SUBSCRIBEtopic\0\x04\x0d\x06CANCELtopic\0";
    due.push(("zmtp-greeting".to_owned(), [b"g", &greeting[..], ready, talk].concat(), 5));
    let parts = b"\x01\x06topic\0\x03\x00\x00\x00\x00\x00\x00\x00\x02ab\x00\x00";
    due.push(("zmtp-parts".to_owned(), [b"z", &parts[..]].concat(), 1));
    let nats = b"INFO {}\r\nMSG a.b 7 5\r\nhello\r\nHMSG a 8 back 16 18\r\nNATS/1.0 503\r\n\r\nok\r\nPING\r\nPONG\r\n";
    due.push(("nats".to_owned(), [b"n", &nats[..]].concat(), 2));
    let refused = br#"{"error":{"code":400,"description":"no"}}"#;
    let refused =
        [format!("nMSG a 1 {}\r\n", refused.len()).as_bytes(), refused, b"\r\n-ERR 'x'\r\n"].concat();
    due.push(("nats-refusal".to_owned(), refused, 1));
    due
}

fn seeds() -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder()).expect("the corpus is there");
    let named = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("names are text");
        (name, fs::read(entry.path()).expect("a seed can be read"))
    };
    files.map(|entry| named(entry.expect("the corpus can be read"))).collect()
}

#[test]
fn every_message_and_every_decoder_has_a_seed() {
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::create_dir_all(folder()).unwrap();
        due().iter().for_each(|(name, bytes, _)| fs::write(folder().join(name), bytes).unwrap());
    }
    let seeds = seeds();
    for (name, bytes, count) in due() {
        let seed = seeds.iter().find(|(other, _)| *other == name);
        assert_eq!(seed.map(|(_, seed)| seed), Some(&bytes), "{name}, hint: UPDATE_GOLDENFILES=1 writes it");
        assert_eq!(read(&bytes), Ok(count), "{name}");
    }
}

#[test]
fn a_seed_that_is_cut_or_changed_anywhere_is_read_without_contradiction() {
    for (name, bytes) in seeds() {
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_ok(), "{name} cut at {at}");
            for change in [1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = changed[at].wrapping_add(change);
                assert!(read(&changed).is_ok(), "{name} changed at {at} by {change}");
            }
        }
    }
}
