//! The members of the cluster: who is asked, who is asked next, and as whom.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response, Status};

use super::settings::{Settings, User};
use super::translate::{Ended, Verdict, judge};
use super::wire::AuthenticateRequest;
use super::wire::auth_client::AuthClient;
use crate::{Cause, StoreError};

/// The longest message that is taken from a server, in bytes.
pub(super) const LONGEST_MESSAGE: usize = 256 << 20;
/// The wait before a member is asked again that has just failed.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a quiet connection is tried. etcd ends one that is tried more often than every five seconds, and one that
/// is tried without a call under way.
const KEEP_ALIVE: Duration = Duration::from_secs(6);
/// How long a connection that is tried has to answer.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether a call may be made again when nobody knows whether it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or the same twice over.
    Harmless,
    /// Once is not twice.
    Never,
}

/// A member did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` did not answer in time")]
struct Silent(String);

/// A member of the cluster.
pub(super) struct Peer {
    pub(super) endpoint: String,
    pub(super) channel: Channel,
}

/// The members of the cluster.
pub(super) struct Peers {
    members: Vec<Peer>,
    /// The one that is asked first; the next one when it fails.
    current: AtomicUsize,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    pub(super) settings: Settings,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("endpoints", &self.settings.endpoints).finish_non_exhaustive()
    }
}

impl Peers {
    /// Knows the members; connections are made when they are needed.
    pub(super) fn new(settings: Settings) -> Result<Self, StoreError> {
        if settings.endpoints.is_empty() {
            return Err(StoreError::invalid("setting", "no endpoint is given"));
        }
        let members = settings.endpoints.iter().map(|endpoint| {
            let invalid = |error: tonic::transport::Error| {
                StoreError::invalid(
                    "setting",
                    format!("the endpoint `{endpoint}` cannot be used: {}", chain(&error)),
                )
            };
            let made = Endpoint::from_shared(endpoint.clone()).map_err(invalid)?;
            let made = made
                // Sooner than the attempt ends: nothing was asked over a connection that was never made.
                .connect_timeout(settings.attempt_timeout / 2)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(false);
            let secure = made.uri().scheme_str() == Some("https");
            let made = if secure { made.tls_config(tls(&settings)).map_err(invalid)? } else { made };
            Ok(Peer { endpoint: endpoint.clone(), channel: made.connect_lazy() })
        });
        let members = members.collect::<Result<Vec<_>, StoreError>>()?;
        // Many clients do not all begin with the same member.
        let first = RandomState::new().hash_one(std::process::id());
        let current = AtomicUsize::new(usize::try_from(first).unwrap_or(0) % members.len());
        Ok(Self { members, current, token: Mutex::default(), settings })
    }

    /// Every member.
    pub(super) fn all(&self) -> &[Peer] {
        &self.members
    }

    /// The member that is asked first.
    pub(super) fn current(&self) -> (usize, &Peer) {
        let index = self.current.load(Ordering::Relaxed) % self.members.len();
        (index, &self.members[index])
    }

    /// Leaves a member that has failed, unless somebody else has done so already.
    pub(super) fn leave(&self, index: usize) {
        let next = (index + 1) % self.members.len();
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Makes a call at one member after the other, until one answers or the time is over.
    pub(super) async fn call<T, F>(
        &self,
        attempt: &str,
        repeat: Repeat,
        call: impl Fn(Channel, Option<MetadataValue<Ascii>>) -> F,
    ) -> Result<T, Ended>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Instant::now() + self.settings.request_timeout;
        let mut renewed = false;
        loop {
            let token = self.token(deadline).await?;
            let (index, peer) = self.current();
            let until = deadline.min(Instant::now() + self.settings.attempt_timeout);
            let (verdict, cause): (_, Cause) =
                match timeout_at(until, call(peer.channel.clone(), token)).await {
                    Ok(Ok(answer)) => return Ok(answer.into_inner()),
                    Ok(Err(status)) => (judge(attempt, &status), Arc::new(status)),
                    Err(_) => (Verdict::Unknown, Arc::new(Silent(peer.endpoint.clone()))),
                };
            match verdict {
                Verdict::Refused(ended) => return Err(ended),
                Verdict::Token if !renewed => {
                    renewed = true;
                    *self.token.lock().await = None;
                    continue;
                }
                Verdict::Token => {
                    let attempt = attempt.to_owned();
                    return Err(Ended::Final(StoreError::Denied { attempt, source: cause }));
                }
                Verdict::Unknown if repeat == Repeat::Never => {
                    self.leave(index);
                    let attempt = attempt.to_owned();
                    return Err(Ended::Final(StoreError::Uncertain { attempt, source: cause }));
                }
                Verdict::NotDone | Verdict::Unknown => self.leave(index),
            }
            if Instant::now() + PAUSE >= deadline {
                let attempt = attempt.to_owned();
                return Err(Ended::Final(StoreError::Unavailable { attempt, source: cause }));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The token of the user, asked for when there is none.
    pub(super) async fn token(&self, deadline: Instant) -> Result<Option<MetadataValue<Ascii>>, Ended> {
        let Some(user) = &self.settings.user else { return Ok(None) };
        let mut token = self.token.lock().await;
        if token.is_none() {
            *token = Some(self.authenticate(user, deadline).await?);
        }
        Ok(token.clone())
    }

    /// Forgets the token, so that the next call asks for another.
    pub(super) async fn forget_token(&self) {
        *self.token.lock().await = None;
    }

    async fn authenticate(&self, user: &User, deadline: Instant) -> Result<MetadataValue<Ascii>, Ended> {
        let attempt = format!("authenticate as `{}`", user.name);
        loop {
            let (index, peer) = self.current();
            let message = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
            let until = deadline.min(Instant::now() + self.settings.attempt_timeout);
            let mut client = AuthClient::new(peer.channel.clone());
            let cause: Cause = match timeout_at(until, client.authenticate(message)).await {
                Ok(Ok(answer)) => match answer.into_inner().token.parse() {
                    Ok(token) => return Ok(token),
                    Err(error) => Arc::new(error),
                },
                Ok(Err(status)) => {
                    if let Verdict::Refused(ended) = judge(&attempt, &status) {
                        return Err(ended);
                    }
                    Arc::new(status)
                }
                Err(_) => Arc::new(Silent(peer.endpoint.clone())),
            };
            self.leave(index);
            if Instant::now() + PAUSE >= deadline {
                return Err(Ended::Final(StoreError::Unavailable { attempt, source: cause }));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A message with the user's token, for a member that sees a leader: one that is cut off knows nothing new.
pub(super) fn with_token<T>(message: T, token: Option<MetadataValue<Ascii>>) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

fn tls(settings: &Settings) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new();
    config = match &settings.tls.authority {
        Some(authority) => config.ca_certificate(Certificate::from_pem(authority)),
        None => config.with_webpki_roots(),
    };
    if let Some((certificate, key)) = &settings.tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    if let Some(name) = &settings.tls.server_name {
        config = config.domain_name(name.clone());
    }
    config
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
