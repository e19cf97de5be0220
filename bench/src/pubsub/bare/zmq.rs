//! ZeroMQ without anything on top: PUB and SUB over TCP (ZMTP 3.0, NULL), a topic and a body in every message.

use anyhow::{Context as _, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use super::{BATCH, Frames, Owner, owner, write};
use crate::told::Told;

const TOPIC: &[u8] = b"topic\0";

/// What a socket says first, and which one it is.
fn greeting(socket: &str) -> Vec<u8> {
    let mut greeting = vec![0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend_from_slice(&u32::try_from(socket.len()).unwrap_or(0).to_be_bytes());
    ready.extend_from_slice(socket.as_bytes());
    greeting.extend_from_slice(&[4, u8::try_from(ready.len()).unwrap_or(0)]);
    greeting.extend_from_slice(&ready);
    greeting
}

async fn greet(stream: &mut TcpStream, own: &str, other: &str) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(&greeting(own)).await?;
    let mut heard = vec![0; greeting(other).len()];
    stream.read_exact(&mut heard).await?;
    ensure!(heard == greeting(other), "another socket than {other}");
    Ok(())
}

/// A PUB socket, and as many SUB sockets that each want one topic.
pub(crate) async fn zmq(subscribers: usize, room: usize, told: &Told) -> anyhow::Result<Frames> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let place = listener.local_addr()?;
    let (frames, _) = broadcast::channel::<Bytes>(room);
    for _ in 0..subscribers {
        let mut reader = TcpStream::connect(place).await?;
        let (mut writer, _) = listener.accept().await?;
        let greeted = tokio::join!(greet(&mut reader, "SUB", "PUB"), greet(&mut writer, "PUB", "SUB"));
        greeted.0.and(greeted.1).context("the sockets do not greet")?;
        let wanted = [&[0, 1 + TOPIC.len() as u8, 1], TOPIC].concat();
        reader.write_all(&wanted).await?;
        let mut heard = vec![0; wanted.len()];
        writer.read_exact(&mut heard).await?;
        tokio::spawn(publish(writer, frames.subscribe(), heard.split_off(3)));
        tokio::spawn(read(reader.into_split().0, owner(told)));
    }
    Ok(frames)
}

/// Writes what one subscriber wants to hear.
async fn publish(writer: TcpStream, frames: broadcast::Receiver<Bytes>, wanted: Vec<u8>) {
    // Every frame is of the topic that everybody wants; a subscription to another one would be for another writer.
    if TOPIC.starts_with(&wanted) {
        write(writer, frames).await;
    }
}

/// A message of a topic and a body of a size, that begins with when it was made.
pub(crate) fn frame(stamp: u64, size: usize) -> Bytes {
    let mut frame = vec![1, TOPIC.len() as u8];
    frame.extend_from_slice(TOPIC);
    match u8::try_from(size) {
        Ok(short) => frame.extend_from_slice(&[0, short]),
        Err(_) => {
            frame.push(2);
            frame.extend_from_slice(&(size as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&stamp.to_le_bytes());
    frame.resize(frame.len() + size - 8, b'x');
    frame.into()
}

async fn read(mut reader: OwnedReadHalf, owner: Owner) {
    let mut buffer = BytesMut::with_capacity(BATCH);
    while let Ok(1..) = reader.read_buf(&mut buffer).await {
        while let Some((head, topic)) = part(&buffer, 0) {
            let Some((start, body)) = part(&buffer, head + topic) else { break };
            buffer.advance(start);
            if owner.send(buffer.split_to(body).freeze()).await.is_err() {
                return;
            }
        }
    }
}

/// Where the part at a place begins, and how long it is; nothing if it is not all there.
fn part(buffer: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = buffer.get(at..)?;
    let (head, length) = match rest.first()? & 2 {
        0 => (2, usize::from(*rest.get(1)?)),
        _ => (9, usize::try_from(u64::from_be_bytes(*rest.get(1..)?.first_chunk::<8>()?)).ok()?),
    };
    (rest.len() >= head + length).then_some((at + head, length))
}
