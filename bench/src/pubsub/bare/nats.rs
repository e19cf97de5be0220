//! A stream of JetStream with a consumer for everybody, without anything on top.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc};

use super::{BATCH, Frames, Owner, owner, write};
use crate::told::Told;

const CONNECT: &str = r#"{"verbose":false,"headers":true,"no_responders":true}"#;

/// One publisher, and consumers that are told.
pub(crate) async fn nats(
    server: &str,
    subscribers: usize,
    room: usize,
    told: &Told,
) -> anyhow::Result<Frames> {
    let (frames, waiting) = broadcast::channel::<Bytes>(room);
    let mut publisher = TcpStream::connect(server).await.context("no NATS server")?;
    publisher.set_nodelay(true)?;
    let stream = json!({"name": "bare", "subjects": ["bare"], "storage": "memory", "max_bytes": 64 << 20});
    let asked =
        format!("CONNECT {CONNECT}\r\n{}PING\r\n", said("$JS.API.STREAM.CREATE.bare", "made", &stream));
    publisher.write_all(asked.as_bytes()).await?;
    let (ready, mut are_ready) = mpsc::channel(1);
    for number in 0..subscribers {
        let mut stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let inbox = format!("told.{number}.{}", std::process::id());
        let config = json!({"deliver_subject": inbox, "deliver_policy": "new", "ack_policy": "none"});
        let consumer = json!({"stream_name": "bare", "config": config});
        let asked = format!(
            "CONNECT {CONNECT}\r\nSUB {inbox} 1\r\nSUB made.{inbox} 2\r\n{}",
            said("$JS.API.CONSUMER.CREATE.bare", &format!("made.{inbox}"), &consumer)
        );
        stream.write_all(asked.as_bytes()).await?;
        tokio::spawn(hear(stream, owner(told), ready.clone()));
    }
    for _ in 0..subscribers {
        let is_ready = tokio::time::timeout(Duration::from_secs(10), are_ready.recv()).await;
        ensure!(is_ready.is_ok(), "JetStream does not answer");
    }
    tokio::spawn(write(publisher, waiting));
    Ok(frames)
}

/// What publishes a body of a size, that begins with when it was made.
pub(crate) fn frame(stamp: u64, size: usize) -> Bytes {
    let mut frame = format!("PUB bare {size}\r\n").into_bytes();
    frame.extend_from_slice(&stamp.to_le_bytes());
    frame.resize(frame.len() + size - 8, b'x');
    frame.extend_from_slice(b"\r\n");
    frame.into()
}

/// A request of the text protocol.
fn said(subject: &str, reply: &str, body: &serde_json::Value) -> String {
    let body = body.to_string();
    format!("PUB {subject} {reply} {}\r\n{body}\r\n", body.len())
}

/// Hears what a server delivers: values at the first subscription, that everything is ready at the second.
async fn hear(mut stream: TcpStream, owner: Owner, ready: mpsc::Sender<()>) {
    let mut buffer = BytesMut::with_capacity(BATCH);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        while let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") {
            let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let words: Vec<&str> = line.split(' ').collect();
            if let ["MSG", _, sid, .., length] = words.as_slice() {
                let length: usize = length.parse().unwrap_or(0);
                if buffer.len() < end + 4 + length {
                    break;
                }
                buffer.advance(end + 2);
                let body = buffer.split_to(length).freeze();
                buffer.advance(2);
                match *sid {
                    "1" if owner.send(body).await.is_err() => return,
                    "1" => {}
                    _ => drop(ready.send(()).await),
                }
                continue;
            }
            buffer.advance(end + 2);
            if line == "PING" && stream.write_all(b"PONG\r\n").await.is_err() {
                return;
            }
        }
    }
}
