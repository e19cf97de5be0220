//! How a subscriber reaches a publisher.

use std::io;
use std::sync::Arc;

use super::hub::Hub;
use super::tcp::TcpConnector;
use super::tls::{Tls, TlsError};
use super::{Link, nats, zmq};

/// The ways there are.
#[derive(Clone)]
pub enum Connector {
    /// A hub of this process, whatever the address.
    Local(Arc<Hub>),
    /// Over a network, as the address says.
    Network(Network),
}

/// Ways over a network: `tcp://HOST:PORT`, `zmq://HOST:PORT`, `nats://HOST:PORT/NAME`.
#[derive(Clone, Default)]
pub struct Network {
    tcp: TcpConnector,
}

impl Network {
    /// In the clear.
    pub fn new() -> Self {
        Self::default()
    }

    /// With TLS over TCP; publishers must be certified by the authority. The other ways are then refused: they would be in
    /// the clear.
    pub fn tls(tls: &Tls) -> Result<Self, TlsError> {
        Ok(Self { tcp: TcpConnector::tls(tls)? })
    }

    async fn connect(&self, address: &str) -> io::Result<Link> {
        let is_open = address.starts_with("zmq://") || address.starts_with("nats://");
        if is_open && self.tcp.is_secret() {
            let text = format!("`{address}` would be in the clear");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        match address.split_once("://") {
            Some(("zmq", _)) => zmq::dial(address).await,
            Some(("nats", _)) => nats::dial(address).await,
            Some(_) | None => self.tcp.connect(address).await,
        }
    }
}

impl Connector {
    /// Makes a connection to this address.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<Link> {
        match self {
            Self::Local(hub) => Ok(Link::Joined(hub.join())),
            Self::Network(network) => network.connect(address).await,
        }
    }
}
