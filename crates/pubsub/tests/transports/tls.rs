//! TLS: the same with certificates, and nothing without the right one.

use std::time::{Duration, Instant};

use kilter_pubsub::Delivery;
use kilter_pubsub::transport::{Connector, Network, TcpServer, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::truth::{Consumer, DEADLINE, Truth, free_place, survives_a_kill};

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// What somebody with this name is given.
    fn issue(&self, name: &str) -> Tls {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Tls {
            authority: Some(self.certificate.clone()),
            identity: Some((certificate, key.serialize_pem())),
            server_name: None,
        }
    }
}

fn dialing(tls: &Tls) -> Connector {
    Connector::Network(Network::tls(tls).unwrap())
}

/// Waits until somebody was turned away more than once.
async fn is_turned_away(stranger: &Consumer) {
    let deadline = Instant::now() + DEADLINE;
    while stranger.follower.counts().await.sessions_lost < 2 {
        assert!(Instant::now() < deadline, "it was never turned away");
        tokio::time::sleep(Duration::from_millis(20)).await; // poll until the deadline
    }
    assert_eq!(stranger.follower.topics().await[0].applied, None);
}

#[tokio::test]
async fn a_publisher_over_tls_is_killed_and_nothing_is_lost() {
    let authority = Authority::new();
    let server = authority.issue("127.0.0.1");
    survives_a_kill(dialing(&authority.issue("node")), free_place, Delivery::Cursors, |hub, place| {
        let server = server.clone();
        async move { TcpServer::bind_tls(&hub, &place, &server).await.is_ok() }
    })
    .await;
}

#[tokio::test]
async fn who_shows_no_certificate_of_the_authority_gets_nothing() {
    let (authority, other) = (Authority::new(), Authority::new());
    let truth = Truth::new();
    truth.commit(&["secret"], &[]);
    let hub = truth.hub(Delivery::Cursors, 1);
    let tls = authority.issue("127.0.0.1");
    let server = TcpServer::bind_tls(&hub, "tcp://127.0.0.1:0", &tls).await.unwrap();
    let place = format!("tcp://{}", server.address());
    let naked = Tls { identity: None, ..authority.issue("node") };
    let foreign = Tls { authority: Some(authority.certificate.clone()), ..other.issue("node") };
    for tls in [naked, foreign] {
        let stranger = Consumer::start(dialing(&tls), vec![place.clone()], 2).await;
        is_turned_away(&stranger).await;
    }
    let in_the_clear = Consumer::start(crate::tcp::tcp(), vec![place.clone()], 3).await;
    is_turned_away(&in_the_clear).await;
    let mut friend = Consumer::start(dialing(&authority.issue("node")), vec![place], 4).await;
    friend.agrees(&truth, &hub).await;
}

#[tokio::test]
async fn a_publisher_whom_nobody_certified_is_not_listened_to() {
    let (authority, other) = (Authority::new(), Authority::new());
    let truth = Truth::new();
    truth.commit(&["a lie"], &[]);
    let hub = truth.hub(Delivery::Cursors, 1);
    let impostor = Tls { authority: None, ..other.issue("127.0.0.1") };
    let server = TcpServer::bind_tls(&hub, "tcp://127.0.0.1:0", &impostor).await.unwrap();
    let place = format!("tcp://{}", server.address());
    let consumer = Consumer::start(dialing(&authority.issue("node")), vec![place.clone()], 2).await;
    is_turned_away(&consumer).await;
    let named = Tls { server_name: Some("elsewhere".to_owned()), ..other.issue("node") };
    let consumer = Consumer::start(dialing(&named), vec![place], 3).await;
    is_turned_away(&consumer).await;
}

#[tokio::test]
async fn what_is_not_pem_is_told_by_name() {
    let tls = Tls { identity: None, ..Authority::new().issue("node") };
    let hub = Truth::new().hub(Delivery::Cursors, 1);
    let error = TcpServer::bind_tls(&hub, "tcp://127.0.0.1:0", &tls).await.unwrap_err();
    assert!(error.source.to_string().contains("failed to find the certificate"), "{error:?}");
    let tls = Tls { authority: Some("nonsense".to_owned()), ..tls };
    let error = Network::tls(&tls).err().unwrap().to_string();
    assert_eq!(error, "failed to find the certificate of the authority");
}
