//! What can be set about the cluster: where its store is, who this node is, and how delivery works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_pubsub::Settings as PubsubSettings;
use kilter_pubsub::transport::{Tls, TlsError};
use kilter_store::embedded::{Embedded, Settings as EmbeddedSettings};
use kilter_store::etcd::{self, Etcd};
use kilter_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

/// The settings of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The name of this node. Default: the name of the host.
    pub node: Option<String>,
    /// The labels of this node, each `NAME=VALUE`: it follows what is declared for one of them. Default: none.
    pub labels: BTreeMap<String, String>,
    /// The tenants that this node hosts: it follows what is declared for one of them. Default: none.
    pub tenants: Vec<String>,
    /// Where in the store everything of this cluster lies. Default: `kilter/`.
    pub prefix: String,
    /// The store. Default: none; then distributors are known by their addresses only.
    pub store: Option<StoreSettings>,
    /// Certificates between distributors and those who follow them. Default: none, everything is in the clear.
    pub tls: Option<TlsSettings>,
    /// A distributor in this process. Default: none.
    pub distributor: Option<DistributorSettings>,
    /// Whether whoever declares joint changes may let this node run commands as probes, with everything that the agent
    /// may. Default: no.
    pub probe_commands: bool,
    /// Delivery.
    pub pubsub: PubsubSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node: None,
            labels: BTreeMap::new(),
            tenants: Vec::new(),
            prefix: "kilter/".to_owned(),
            store: None,
            tls: None,
            distributor: None,
            probe_commands: false,
            pubsub: PubsubSettings::default(),
        }
    }
}

/// Where a store is: in etcd, or in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StoreSettings {
    /// The members of an etcd cluster, as `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The file of an embedded store, which one process has open; others of its machine ask that one.
    pub file: Option<PathBuf>,
    /// Who asks, where etcd wants to know.
    pub user: Option<String>,
    /// The file that holds the password.
    pub password_file: Option<PathBuf>,
    /// Certificates, for `https` members.
    pub tls: TlsSettings,
}

/// Files of certificates and keys, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsSettings {
    /// Who signs the certificates of the other side.
    pub authority: Option<PathBuf>,
    /// The own certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The name that the other side's certificate carries, where it is not the host of its address.
    pub server_name: Option<String>,
}

/// A distributor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DistributorSettings {
    /// Its name, the same after every start. Default: the name of the node.
    pub name: Option<String>,
    /// Where it can be reached, as `tcp://HOST:PORT`. Default: the name of the host and the port it listens at.
    pub advertise: Option<String>,
}

/// Why a store or its certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings name no store.
    #[error("failed to find the store of the cluster, hint: `[cluster.store]` takes `endpoints` or a `file`")]
    NoStore,
    /// A file cannot be read.
    #[error("failed to read `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("failed to open the store of the cluster")]
    Store(#[source] StoreError),
    /// Certificates cannot be used.
    #[error("failed to use the certificates of the cluster")]
    Tls(#[source] TlsError),
}

fn read(path: &Path) -> Result<String, OpenError> {
    std::fs::read_to_string(path).map_err(|source| OpenError::Unreadable { path: path.to_owned(), source })
}

fn read_some(path: Option<&PathBuf>) -> Result<Option<String>, OpenError> {
    path.map(|path| read(path)).transpose()
}

impl TlsSettings {
    /// The texts of the files.
    pub fn read(&self) -> Result<Tls, OpenError> {
        let certificate = read_some(self.certificate.as_ref())?;
        let key = read_some(self.key.as_ref())?;
        Ok(Tls {
            authority: read_some(self.authority.as_ref())?,
            identity: certificate.zip(key),
            server_name: self.server_name.clone(),
        })
    }
}

impl StoreSettings {
    /// Opens the store. One in etcd may be away: it is connected to when it is needed.
    ///
    /// **Assumes** a tokio runtime.
    pub fn open(&self) -> Result<Arc<dyn Store>, OpenError> {
        match &self.file {
            Some(file) => {
                let store = Embedded::open(file, EmbeddedSettings::default()).map_err(OpenError::Store)?;
                Ok(Arc::new(store))
            }
            None if self.endpoints.is_empty() => Err(OpenError::NoStore),
            None => Ok(Arc::new(Etcd::new(self.etcd()?).map_err(OpenError::Store)?)),
        }
    }

    fn etcd(&self) -> Result<etcd::Settings, OpenError> {
        let password = read_some(self.password_file.as_ref())?.unwrap_or_default();
        let password = password.trim_end_matches('\n').to_owned();
        let tls = self.tls.read()?;
        Ok(etcd::Settings {
            user: self.user.clone().map(|name| etcd::User { name, password }),
            tls: etcd::Tls { authority: tls.authority, identity: tls.identity, server_name: tls.server_name },
            ..etcd::Settings::of(&self.endpoints)
        })
    }
}

impl Settings {
    /// The name of this node.
    pub fn node_name(&self) -> String {
        self.node.clone().unwrap_or_else(host_name)
    }

    /// Certificates between distributors and those who follow them.
    pub fn read_tls(&self) -> Result<Option<Tls>, OpenError> {
        self.tls.as_ref().map(TlsSettings::read).transpose()
    }

    /// What cannot be, and a hint.
    pub(crate) fn check(&self) -> Result<(), (String, &'static str)> {
        const NAMES: &str = "letters, digits and `-_.`";
        self.pubsub
            .validate()
            .map_err(|error| (format!("`cluster.pubsub`: {error}"), "see its reference"))?;
        let distributor = self.distributor.as_ref().and_then(|distributor| distributor.name.as_ref());
        let names = self.node.iter().chain(&self.tenants).chain(distributor);
        let labels = self.labels.iter().flat_map(|(name, value)| [name, value]);
        if let Some(name) = names.chain(labels).find(|name| !is_good_name(name)) {
            return Err((format!("`{name}` cannot be a name in a cluster"), NAMES));
        }
        if self.prefix.is_empty() || !self.prefix.ends_with('/') {
            return Err((
                format!("`{}` cannot be the prefix of a cluster", self.prefix),
                "let it end in `/`",
            ));
        }
        match &self.store {
            Some(store) if store.file.is_some() != store.endpoints.is_empty() => {
                Err(("`cluster.store` names no store, or two".to_owned(), "set `endpoints` or `file`"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Whether something can be the name of a node, a tenant, or a part of a label.
pub(crate) fn is_good_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}

fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().chars().map(|letter| if letter == '/' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        let wrong = |settings: Settings| settings.check().unwrap_err().0;
        let bad = Settings { tenants: vec!["a/b".to_owned()], ..Settings::default() };
        assert_eq!(wrong(bad), "`a/b` cannot be a name in a cluster");
        let bad = Settings { prefix: "kilter".to_owned(), ..Settings::default() };
        assert_eq!(wrong(bad), "`kilter` cannot be the prefix of a cluster");
        let both = StoreSettings {
            endpoints: vec!["http://[::1]:2379".to_owned()],
            file: Some(PathBuf::from("/store")),
            ..StoreSettings::default()
        };
        for store in [both, StoreSettings::default()] {
            let bad = Settings { store: Some(store), ..Settings::default() };
            assert_eq!(wrong(bad), "`cluster.store` names no store, or two");
        }
        assert!(Settings::default().check().is_ok());
    }
}
