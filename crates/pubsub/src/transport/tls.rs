//! TLS for the own transport: who is trusted, and what is shown, out of PEM text.
//!
//! Decided here: that both sides may ask for a certificate of the other, that the cryptography is one library for the
//! whole program, and that a handshake has to end soon. Where the texts lie is decided by whoever reads them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Certificates and keys, as PEM text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who signs the certificates of the other side. A server without one asks for none.
    pub authority: Option<String>,
    /// The own certificates and their key. A server needs them; a client shows them if it has them.
    pub identity: Option<(String, String)>,
    /// The name that a server's certificate carries, where it is not the host of its address.
    pub server_name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A text is not PEM, or nothing of it is what it should be.
    #[error("failed to read the {what}, hint: PEM text is expected")]
    Text {
        /// What was read.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// Something that is needed is not there.
    #[error("failed to find the {what}")]
    Missing {
        /// What is missing.
        what: &'static str,
    },
    /// They do not fit together, or are of a kind that is not supported.
    #[error("failed to use the {what}")]
    Unusable {
        /// What was used.
        what: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn unusable<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> TlsError {
    move |source| TlsError::Unusable { what, source: source.into() }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(text: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let certificates = certificates.map_err(|source| TlsError::Text { what, source })?;
    if certificates.is_empty() { Err(TlsError::Missing { what }) } else { Ok(certificates) }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Tls {
    fn roots(&self) -> Result<Option<Arc<RootCertStore>>, TlsError> {
        const WHAT: &str = "certificate of the authority";
        let Some(text) = &self.authority else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(text, WHAT)? {
            roots.add(certificate).map_err(unusable(WHAT))?;
        }
        Ok(Some(Arc::new(roots)))
    }

    fn identity(&self) -> Result<Option<Identity>, TlsError> {
        let Some((chain, key)) = &self.identity else { return Ok(None) };
        let chain = certificates(chain, "certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|source| TlsError::Text { what: "key", source })?;
        Ok(Some((chain, key)))
    }

    pub(super) fn acceptor(&self) -> Result<Acceptor, TlsError> {
        let (chain, key) = self.identity()?.ok_or(TlsError::Missing { what: "certificate" })?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable::<Error>("protocol"))?;
        let builder = match self.roots()? {
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(unusable("certificate of the authority"))?)
            }
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key).map_err(unusable("certificate and its key"))?;
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) fn dialer(&self) -> Result<Dialer, TlsError> {
        let roots =
            self.roots()?.ok_or(TlsError::Missing { what: "certificate of the authority of publishers" })?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable::<Error>("protocol"))?;
        let builder = builder.with_root_certificates(roots);
        let config = match self.identity()? {
            Some((chain, key)) => {
                builder.with_client_auth_cert(chain, key).map_err(unusable("certificate and its key"))?
            }
            None => builder.with_no_client_auth(),
        };
        let server_name = self.server_name.clone();
        Ok(Dialer { connector: TlsConnector::from(Arc::new(config)), server_name })
    }
}

/// Greets subscribers with TLS.
#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Makes the session of a stream, if the other side may have one and does its part soon.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<server::TlsStream<TcpStream>> {
        tokio::time::timeout(HANDSHAKE, self.0.accept(stream)).await.ok()?.ok()
    }
}

/// Greets publishers with TLS.
#[derive(Clone)]
pub(super) struct Dialer {
    connector: TlsConnector,
    server_name: Option<String>,
}

impl Dialer {
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}
