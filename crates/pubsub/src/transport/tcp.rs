//! The own transport: length-prefixed frames over TCP, with TLS if that is set.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::message::Message;
use crate::wire::{self, Names};

use super::hub::Hub;
use super::tls::{Acceptor, Dialer, Tls, TlsError};
use super::{Arrival, Link, arrival};

/// How long nobody is accepted when nobody can be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much room there is at least for what is read.
const ROOM: usize = 4 << 10;

/// A place could not be listened at.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen at `{address}`, hint: another distributor of this machine may be there already")]
pub struct BindError {
    /// The place.
    pub address: String,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Accepts subscribers for a hub, until the hub ends.
#[derive(Debug)]
pub struct TcpServer {
    address: SocketAddr,
}

impl TcpServer {
    /// Listens at an address, in the clear; `*` stands for everywhere.
    pub async fn bind(hub: &Arc<Hub>, address: &str) -> Result<Self, BindError> {
        Self::start(hub, address, None).await
    }

    /// Listens at an address with TLS; a subscriber needs a certificate if there is an authority to hold it against.
    pub async fn bind_tls(hub: &Arc<Hub>, address: &str, tls: &Tls) -> Result<Self, BindError> {
        let acceptor = tls.acceptor().map_err(|error| BindError {
            address: address.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidInput, error),
        })?;
        Self::start(hub, address, Some(acceptor)).await
    }

    async fn start(hub: &Arc<Hub>, address: &str, acceptor: Option<Acceptor>) -> Result<Self, BindError> {
        let (listener, local) = listen(address).await?;
        let accepted = Arc::clone(hub);
        hub.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // No descriptors, perhaps: those that are there are served on.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                // Without it frames are late, not lost.
                let _ = stream.set_nodelay(true);
                let (hub, acceptor) = (Arc::clone(&accepted), acceptor.clone());
                accepted.spawn(async move {
                    let Some(acceptor) = acceptor else { return hub.serve_tcp(stream).await };
                    if let Some(stream) = acceptor.accept(stream).await {
                        hub.serve(stream).await;
                    }
                });
            }
        });
        Ok(Self { address: local })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), BindError> {
    let place = address.trim_start_matches("tcp://").replacen('*', "[::]", 1);
    let failed = |source| BindError { address: address.to_owned(), source };
    let listener = TcpListener::bind(&place).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// Connects to publishers over TCP.
#[derive(Clone, Default)]
pub(super) struct TcpConnector {
    dialer: Option<Dialer>,
}

impl TcpConnector {
    pub(super) fn tls(tls: &Tls) -> Result<Self, TlsError> {
        Ok(Self { dialer: Some(tls.dialer()?) })
    }

    pub(super) fn is_secret(&self) -> bool {
        self.dialer.is_some()
    }

    pub(super) async fn connect(&self, address: &str) -> io::Result<Link> {
        let place = address.trim_start_matches("tcp://");
        let stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        let Some(dialer) = &self.dialer else { return Ok(carry_tcp(stream)) };
        let host = place.rsplit_once(':').map_or(place, |(host, _)| host).trim_matches(['[', ']']);
        Ok(carry(dialer.connect(host, stream).await?))
    }
}

/// Messages over a socket until it ends: they are written by a task of their own, and read by whoever takes them.
fn carry_tcp(stream: TcpStream) -> Link {
    let (reader, writer) = stream.into_split();
    carry_both(Box::pin(reader), writer)
}

/// The same over any stream.
fn carry<S: AsyncRead + AsyncWrite + Send + 'static>(stream: S) -> Link {
    let (reader, writer) = tokio::io::split(stream);
    carry_both(Box::pin(reader), writer)
}

fn carry_both(
    reader: Pin<Box<dyn AsyncRead + Send>>,
    mut writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Link {
    let (outgoing, mut to_send) = mpsc::unbounded_channel::<Message>();
    tokio::spawn(async move {
        while let Some(message) = to_send.recv().await {
            if writer.write_all(&wire::encode(&message)).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    });
    let buffer = BytesMut::with_capacity(64 << 10);
    Link::Stream(StreamLink { reader, buffer, names: Names::default(), outgoing })
}

/// Frames over a stream.
pub(crate) struct StreamLink {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    buffer: BytesMut,
    names: Names,
    outgoing: mpsc::UnboundedSender<Message>,
}

impl StreamLink {
    pub(super) fn send(&self, message: Message) {
        let _ = self.outgoing.send(message);
    }

    /// The frames that came next; nothing at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<Arrival>> {
        while let Ok(1..) = self.reader.read_buf(&mut self.buffer).await {
            let batch = frames(&mut self.buffer, &mut self.names)?;
            if !batch.is_empty() {
                return Some(batch);
            }
        }
        None
    }
}

/// The whole frames of a buffer; nothing if what follows can never be one.
fn frames(buffer: &mut BytesMut, names: &mut Names) -> Option<Vec<Arrival>> {
    let (mut batch, mut at) = (Vec::new(), 0);
    loop {
        let rest = &buffer[at..];
        match wire::frame_length(rest) {
            Ok(Some(length)) if rest.len() >= length => {
                batch.extend(arrival(names, &rest[..length]));
                at += length;
            }
            Ok(_) => break,
            Err(_) => return None,
        }
    }
    forget(buffer, at);
    Some(batch)
}

/// Lets go what was read out of a buffer. What is read next into an empty one is where the last was, so that every socket
/// keeps to a few lines of memory; and there is room for a frame, so that one is not read in pieces.
pub(crate) fn forget(buffer: &mut BytesMut, length: usize) {
    if length == buffer.len() {
        buffer.clear();
    } else {
        buffer.advance(length);
    }
    buffer.reserve(ROOM);
}
