//! What can be set about the connection to etcd.

use std::fmt;
use std::time::Duration;

/// Where etcd is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The members, as `http://HOST:PORT` or `https://HOST:PORT`. Any of them will do; one that fails is left for the
    /// next.
    pub endpoints: Vec<String>,
    /// Who asks, where etcd wants to know.
    pub user: Option<User>,
    /// How `https` members are trusted.
    pub tls: Tls,
    /// How long a request may take, all attempts together.
    pub request_timeout: Duration,
    /// How long one member has to answer before the next one is asked.
    pub attempt_timeout: Duration,
    /// How often a watch asks how far it is, where the server answers that reliably.
    pub progress_interval: Duration,
}

impl Settings {
    /// The usual settings, with some members.
    pub fn of<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self { endpoints: endpoints.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            user: None,
            tls: Tls::default(),
            request_timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(3),
            progress_interval: Duration::from_secs(5),
        }
    }
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Certificates and keys, as PEM text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who signs the servers' certificates; the usual web authorities when not given.
    pub authority: Option<String>,
    /// The client's own certificate and key.
    pub identity: Option<(String, String)>,
    /// The name that the servers' certificates carry, where it is not the host of the endpoint.
    pub server_name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
