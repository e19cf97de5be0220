//! TLS and users.

use std::fs;
use std::time::Duration;

use kilter_store::etcd::{Etcd, Settings, Tls, User};
use kilter_store::{Commit, Store, StoreError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::server::Server;
use crate::suite::next_commit;

/// An authority, and what it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a name, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn both_sides_prove_who_they_are() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign("store.example");
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let server = Server::start_as(
        "https",
        &[
            "--client-cert-auth",
            &format!("--cert-file={}", file("certificate", &certificate)),
            &format!("--key-file={}", file("key", &key)),
            &format!("--trusted-ca-file={}", file("authority", &authority.pem())),
        ],
    );
    let tls = Tls {
        authority: Some(authority.pem()),
        identity: Some(authority.sign("client")),
        server_name: Some("store.example".to_owned()),
    };
    let store = server.ready(Settings { tls: tls.clone(), ..server.settings() }).await;
    let start = store.commit(Commit::new().put("a", "1")).await.unwrap().revision;
    let mut watch = store.watch("", start).await.unwrap();
    store.commit(Commit::new().put("a", "2")).await.unwrap();
    next_commit(&mut watch).await;
    let strangers = [
        Tls { authority: Some(Authority::new().pem()), ..tls.clone() },
        Tls { identity: None, ..tls.clone() },
        Tls { identity: Some(Authority::new().sign("client")), ..tls.clone() },
        Tls { server_name: Some("other.example".to_owned()), ..tls },
    ];
    for tls in strangers {
        let request_timeout = Duration::from_secs(2);
        let stranger = Etcd::new(Settings { tls, request_timeout, ..server.settings() }).unwrap();
        let error = stranger.get("a").await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn users_prove_who_they_are_again_when_their_token_is_gone() {
    let mut server = Server::start(&["--auth-token-ttl=2"]);
    server.ready(server.settings()).await;
    server.gateway("/v3/auth/user/add", r#"{"name": "root", "password": "one"}"#);
    server.gateway("/v3/auth/role/add", r#"{"name": "root"}"#);
    server.gateway("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
    server.gateway("/v3/auth/user/add", r#"{"name": "guest", "password": "two"}"#);
    server.gateway("/v3/auth/enable", "{}");
    let nobody = server.settings();
    let as_user = |name: &str, password: &str| {
        let user = User { name: name.to_owned(), password: password.to_owned() };
        Settings { user: Some(user), ..nobody.clone() }
    };
    let denied =
        [nobody.clone(), as_user("root", "wrong"), as_user("nobody", "one"), as_user("guest", "two")];
    for settings in denied {
        let error = Etcd::new(settings).unwrap().commit(Commit::new().put("a", "1")).await.unwrap_err();
        assert!(matches!(error, StoreError::Denied { .. }) && !error.is_retriable(), "{error:?}");
    }
    let store = Etcd::new(as_user("root", "one")).unwrap();
    let mut after = store.commit(Commit::new().put("a", "1")).await.unwrap().revision;
    let mut watch = store.watch("", after).await.unwrap();
    // A token does not outlive its server.
    for round in 0..2 {
        server.kill();
        server.run();
        server.ready(as_user("root", "one")).await;
        after = after.next();
        assert_eq!(store.commit(Commit::new().put("a", round.to_string())).await.unwrap().revision, after);
        let lease = store.grant(Duration::from_secs(60)).await.unwrap();
        store.keep_alive(lease.id).await.unwrap();
        let told = loop {
            match crate::suite::next(&mut watch).await {
                Ok(kilter_store::News::Commit(told)) => break told,
                Ok(kilter_store::News::Progress(_)) | Err(StoreError::Unavailable { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        };
        assert_eq!(told.revision, after);
    }
}
