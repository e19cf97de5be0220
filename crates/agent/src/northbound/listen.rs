//! Connections: accepted, encrypted where that is asked for, and served, each for itself.
//!
//! Decided here: how many there may be, how long one may take to say what it wants, and that whatever one of them does
//! hurts no other. Not decided here: who may what (`door`), and what is answered.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

use super::closing::Closing;
use super::door::Peer;
use super::tls;

/// How much there may be, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// How many connections there may be on one listener.
    pub connections: usize,
    /// How many seconds a connection may take for the handshake, for the header of each request, and until somebody is
    /// recognised on it.
    pub header_seconds: u64,
    /// How many bytes the body of a request may have, or a message of the service.
    pub body_bytes: usize,
    /// How many seconds the body of a request may take.
    pub body_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 4096, header_seconds: 10, body_bytes: 64 << 20, body_seconds: 60 }
    }
}

/// As large as the header of a request may be.
const HEADER_BYTES: usize = 64 << 10;

/// How often an idle connection is asked whether it is still there.
const ALIVE: Duration = Duration::from_secs(20);

/// After accepting failed, for instance because there are too many open files, this long nobody is accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// How long somebody who was just let in may take to say what they want, when nobody else is let in any more.
const MOMENT: Duration = Duration::from_millis(250);

/// Serves whoever connects to a unix socket, until it closes and everybody who was let in is served.
pub(super) async fn serve_unix(listener: UnixListener, router: Router, limits: Limits, mut closing: Closing) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.said() => {
                drop(place);
                return all_gone(&places, limits.connections).await;
            }
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let credentials = stream.peer_cred().ok();
        let user = credentials.map(|credentials| credentials.uid());
        let process = credentials.and_then(|credentials| credentials.pid());
        let peer = Peer::Process { user, process };
        let served = serve_one(stream, peer, router.clone(), limits.clone(), closing.clone());
        tokio::spawn(async move {
            served.await;
            drop(place);
        });
    }
}

/// Waits until every place is free.
async fn all_gone(places: &Semaphore, count: usize) {
    // The places are never closed.
    let _ = places.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
}

/// Serves whoever connects over TCP, until it closes and everybody who was let in is served.
pub(super) async fn serve_tcp(
    listener: TcpListener,
    encryption: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    limits: Limits,
    mut closing: Closing,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let acceptor = encryption.map(TlsAcceptor::from);
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.said() => {
                drop((place, listener));
                return all_gone(&places, limits.connections).await;
            }
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Without it an answer may wait for the acknowledgement of the one before; no harm if it cannot be set.
        let _ = stream.set_nodelay(true);
        let stranger = Peer::Stranger { is_local: from.ip().is_loopback() };
        let (router, limits, acceptor) = (router.clone(), limits.clone(), acceptor.clone());
        let closing = closing.clone();
        tokio::spawn(async move {
            match acceptor {
                None => serve_one(stream, stranger, router, limits, closing).await,
                Some(acceptor) => {
                    let patience = Duration::from_secs(limits.header_seconds);
                    // Whoever has no good certificate has been told by the handshake.
                    if let Ok(Ok(stream)) = tokio::time::timeout(patience, acceptor.accept(stream)).await {
                        let peer = tls::subject(stream.get_ref().1)
                            .map_or(stranger, |subject| Peer::Certified { subject });
                        serve_one(stream, peer, router, limits, closing).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Whether anybody has been recognised on a connection: nobody else may keep a place for long.
#[derive(Clone, Debug, Default)]
pub(super) struct Recognised(Arc<AtomicBool>);

impl Recognised {
    /// Notes that whoever asks was recognised.
    pub(super) fn note(extensions: &axum::http::Extensions) {
        if let Some(recognised) = extensions.get::<Self>() {
            recognised.0.store(true, Ordering::Relaxed);
        }
    }

    /// Ends when nobody has been recognised for so long; never, if somebody has.
    async fn nobody_within(&self, patience: Duration) {
        tokio::time::sleep(patience).await;
        if self.0.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

/// Serves one connection until it ends.
fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    limits: Limits,
    mut closing: Closing,
) -> impl Future<Output = ()> + Send {
    let recognised = Recognised::default();
    let router = router.layer(axum::Extension(peer)).layer(axum::Extension(recognised.clone()));
    let service = TowerToHyperService::new(router);
    let patience = Duration::from_secs(limits.header_seconds);
    let stream = Hurried { stream, seen: 0, deadline: Some(Box::pin(tokio::time::sleep(patience))) };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE);
    async move {
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let closes = async {
            closing.said().await;
            tokio::time::sleep(MOMENT).await;
        };
        // Whoever breaks off or speaks something else has ended their own connection.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = closes => {}
            () = recognised.nobody_within(patience) => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(patience, connection).await;
                return;
            }
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// The first words of HTTP/2: until as much was said, nobody knows which version is spoken.
const WORDS: usize = 24;

/// A stream on which somebody must begin to speak in time.
///
/// **Why**: the version is found out before any limit on the header begins to count.
struct Hurried<S> {
    stream: S,
    seen: usize,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Hurried<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.seen += into.filled().len() - before;
        if self.seen >= WORDS {
            self.deadline = None;
        }
        let is_late = self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
        if read.is_pending() && is_late {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hurried<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    /// Without it, what a thousand watchers share is copied for each of them.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A listener that was bound before the process entered a network of its own.
pub(crate) fn bind_local() -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
