//! Encryption over TCP: our certificate, and the authority that signs those of clients.
//!
//! Decided here: that there is no listener without client certificates unless tokens are asked for, and that the name of
//! a client is the common name of its certificate. Not decided here: what that name may do (`door`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

/// Which certificates are used.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsSettings {
    /// Our certificate, and those that lead to its authority; PEM.
    pub certificate: PathBuf,
    /// The key of our certificate; PEM.
    pub key: PathBuf,
    /// The authorities that sign the certificates of clients; PEM. Without them clients need a token.
    pub client_authorities: Option<PathBuf>,
}

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no certificate or key.
    #[error("failed to read `{}`", .path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The certificates do not fit.
    #[error("failed to use the certificate `{}`", .path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How connections are encrypted.
pub(super) fn config(settings: &TlsSettings) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let unfit = |path: &Path| {
        let path = path.to_owned();
        move |source: Box<dyn std::error::Error + Send + Sync>| TlsError::Unfit { path, source }
    };
    let chain = certificates(&settings.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&settings.key)
        .map_err(|source| TlsError::Unread { path: settings.key.clone(), source })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&settings.certificate)(Box::new(error)))?;
    let builder = match &settings.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unfit(path)(Box::new(error)))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unfit(path)(Box::new(error)))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| unfit(&settings.certificate)(Box::new(error)))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unread = |source| TlsError::Unread { path: path.to_owned(), source };
    let list = CertificateDer::pem_file_iter(path).map_err(unread)?;
    let list = list.collect::<Result<Vec<_>, _>>().map_err(unread)?;
    if list.is_empty() {
        let source = io::Error::other("there is no certificate in it");
        return Err(TlsError::Unfit { path: path.to_owned(), source: Box::new(source) });
    }
    Ok(list)
}

/// The common name of the client's certificate, which its authority has signed.
pub(super) fn subject(connection: &ServerConnection) -> Option<String> {
    let certificate = connection.peer_certificates()?.first()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    // Two names are none: nobody could say which one is meant.
    names.next().is_none().then_some(name)
}
