//! A running agent, served over TCP and on a socket, and how a test asks it.

use std::net::SocketAddr;
use std::sync::Arc;

use kilter_agent::northbound::audit::Audit;
use kilter_agent::northbound::door::{AccessSettings, CertificateRule, Door, Role, TokenRule};
use kilter_agent::northbound::listen::Limits;
use kilter_agent::northbound::socket::Socket;
use kilter_agent::northbound::tls::TlsSettings;
use kilter_agent::northbound::{self, Listeners, Settings};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::house::House;
use crate::http::{Answer, exchange, request};

/// A running agent that is served.
pub(crate) struct Served {
    pub(crate) house: House,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    _socket: Socket,
    pub(crate) door: Arc<Door>,
    serving: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start() -> Self {
        Self::start_with(settings(None), Limits::default()).await
    }

    pub(crate) async fn start_with(settings: Settings, limits: Limits) -> Self {
        Self::serve(House::start(), settings, limits)
    }

    /// An agent that runs already.
    pub(crate) fn over(house: House) -> Self {
        Self::serve(house, settings(None), Limits::default())
    }

    fn serve(house: House, settings: Settings, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::open(&folder.path().join("kilter.sock")).unwrap();
        let audit = Arc::new(Audit::open(&folder.path().join("audit.log")).unwrap());
        let listeners = Listeners::of(&settings, Vec::new()).unwrap().at_socket(&socket).unwrap();
        let address = listeners.addresses()[0];
        let door = northbound::door(&settings).unwrap();
        let serving =
            northbound::serve(listeners, Arc::clone(&door), Some(audit), limits, house.desk.clone()).unwrap();
        Self { house, address, folder, _socket: socket, door, serving: tokio::spawn(serving) }
    }

    pub(crate) async fn say(&self, bytes: &[u8]) -> Answer {
        exchange(TcpStream::connect(self.address).await.unwrap(), bytes).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.say(&request("GET", path, &[OPERATOR], "")).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.say(&request(method, path, &[OPERATOR], &body.to_string())).await
    }

    pub(crate) async fn end(self) {
        self.serving.abort();
        self.house.end().await;
    }
}

pub(crate) const OPERATOR: &str = "authorization: Bearer operator's secret";
pub(crate) const READER: &str = "authorization: Bearer reader's secret";
pub(crate) const ADMIN: &str = "authorization: Bearer admin's secret";

pub(crate) fn settings(tls: Option<TlsSettings>) -> Settings {
    let tokens = [Role::Reader, Role::Operator, Role::Admin].map(|role| TokenRule {
        name: role.name().to_owned(),
        role,
        blake3: blake3::hash(format!("{role}'s secret").as_bytes()).to_string(),
    });
    let certificates = vec![CertificateRule { subject: "ops".to_owned(), role: Role::Operator }];
    let access = AccessSettings { certificates, tokens: tokens.to_vec(), requests_per_second: None };
    Settings { address: Some("127.0.0.1:0".parse().unwrap()), tls, access, ..Settings::default() }
}
