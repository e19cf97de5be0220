//! Who gets in, what they may, what is recorded of it, and what hostile clients achieve.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use kilter_agent::desk::{Confirm, Options};
use kilter_agent::northbound::audit::Audit;
use kilter_agent::northbound::door::AccessSettings;
use kilter_agent::northbound::listen::Limits;
use kilter_agent::northbound::tls::TlsSettings;
use kilter_agent::northbound::{Listeners, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Endpoint};
use tower::{Service as _, ServiceExt as _, service_fn};

use crate::http::{Answer, PATIENCE, exchange, request};
use crate::served::{ADMIN, OPERATOR, READER, Served, settings};

#[tokio::test]
async fn a_reader_cannot_write_and_a_stranger_cannot_read() {
    let served = Served::start().await;
    served.house.apply("cli", &["a/1"]).await.unwrap();
    let as_reader =
        |method: &'static str, path: &'static str, body: &'static str| request(method, path, &[READER], body);
    assert_eq!(served.say(&as_reader("GET", "/api/v1/items", "")).await.status, 200);
    for (method, path, body) in [
        ("POST", "/api/v1/apply", "{}"),
        ("PUT", "/api/v1/items/a/1", "{}"),
        ("DELETE", "/api/v1/items/a/1", ""),
        ("DELETE", "/api/v1/sources/cli", ""),
        ("POST", "/api/v1/resync", "{}"),
        ("PUT", "/api/v1/paused", "{\"prefix\":\"a\",\"paused\":true}"),
        ("POST", "/scheduler/downstream-resync", ""),
        ("POST", "/controller/resync", ""),
    ] {
        let answer = served.say(&as_reader(method, path, body)).await;
        assert_eq!((answer.status, &answer.json()["reason"]), (403, &json!("FORBIDDEN")), "{method} {path}");
    }
    let stranger = served.say(&request("GET", "/api/v1/items", &[], "")).await;
    assert_eq!((stranger.status, stranger.header("www-authenticate")), (401, Some("Bearer")));
    let removal =
        served.say(&request("POST", "/api/v1/apply", &[OPERATOR], "{\"remove_source\":\"cli\"}")).await;
    assert_eq!(removal.status, 403, "an operator does not remove a source: {}", removal.text());
    let foreign = [OPERATOR, "origin: http://evil.example"];
    assert_eq!(served.say(&request("POST", "/api/v1/resync", &foreign, "{}")).await.status, 403);
    served.end().await;
}

#[tokio::test]
async fn the_owner_of_the_agent_needs_no_token_at_the_socket() {
    let served = Served::start().await;
    let stream = UnixStream::connect(served.folder.path().join("kilter.sock")).await.unwrap();
    let answer = exchange(stream, &request("GET", "/api/v1/audit", &[], "")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    served.end().await;
}

#[tokio::test]
async fn who_did_what_is_recorded_and_an_edited_record_is_found() {
    let served = Served::start().await;
    let item = json!({ "kind": "netns", "value": { "name": "left" } });
    let body = json!({ "items": [item], "description": "a second site" });
    assert_eq!(served.send("POST", "/api/v1/apply", &body).await.status, 200);
    let path = served.folder.path().join("audit.log");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["who"], &lines[0]["what"]), (&json!("token operator"), &json!("Apply")));
    assert_eq!(lines[1]["description"], "a second site");
    assert_eq!(lines[1]["plan"].as_str().map(str::len), Some(64), "{text}");
    assert!(lines[1]["txn"].is_u64() && lines[1]["ended"].is_string(), "{text}");
    assert!(!text.contains("secret"), "a token is in the audit records");

    let audit = request("GET", "/api/v1/audit", &[ADMIN], "");
    assert_eq!(served.say(&audit).await.json()["broken"], Value::Null);
    std::fs::write(&path, text.replace("a second site", "a third site!")).unwrap();
    let found = served.say(&audit).await.json();
    assert_eq!((&found["broken"], &found["why"]), (&json!(2), &json!("its hash is another one")));
    assert_eq!(served.get("/api/v1/audit").await.status, 403, "the records are for an admin");
    served.end().await;
}

#[tokio::test]
async fn slow_huge_half_open_and_malformed_requests_leave_others_served() {
    let limits = Limits { header_seconds: 3, body_bytes: 4096, body_seconds: 3, ..Limits::default() };
    let served = Served::start_with(settings(None), limits).await;
    // Half open: connected, and nothing said; and a header that never ends.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    slow.write_all(b"GET /api/v1/health HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
    // A body that never ends.
    let head =
        format!("POST /api/v1/plan HTTP/1.1\r\nhost: x\r\n{OPERATOR}\r\ncontent-length: 100\r\n\r\n{{");
    let stream = TcpStream::connect(served.address).await.unwrap();
    let body = tokio::spawn(async move { exchange(stream, head.as_bytes()).await });
    // Too large, and no HTTP at all.
    let huge = request("POST", "/api/v1/plan", &[OPERATOR], &format!("\"{}\"", "x".repeat(100_000)));
    assert_eq!(served.say(&huge).await.status, 413);
    let long = format!("x-long: {}", "x".repeat(200_000));
    assert_eq!(served.say(&request("GET", "/api/v1/health", &[&long], "")).await.status, 431);
    assert_eq!(served.say(b"\x16\x03\x01 what?\r\n\r\n").await.status, 400);
    assert_eq!(
        served.say(&request("POST", "/api/v1/plan", &[OPERATOR], "{\"items\": [[[[")).await.status,
        400
    );
    let text = request("POST", "/api/v1/plan", &[OPERATOR, "content-type: text/plain"], "");
    assert_eq!(served.say(&text).await.status, 415);
    assert_eq!(served.get("/api/v1/health").await.status, 200, "others are served meanwhile");
    assert_eq!(body.await.unwrap().status, 408);
    for stream in [&mut silent, &mut slow] {
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "whoever says nothing is not waited for");
    }
    served.end().await;
}

#[tokio::test]
async fn hostile_calls_of_the_service_leave_others_served() {
    let served = Served::start().await;
    let headers = format!("host: x\r\n{OPERATOR}\r\ncontent-type: application/grpc\r\nte: trailers\r\n");
    let call = |method: &str, length: usize, frame: &[u8]| {
        let head = format!(
            "POST /kilter.v1.{method} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        [head.as_bytes(), frame].concat()
    };
    // Many that begin and never go on, on connections of their own.
    let mut half = Vec::new();
    for number in 0..300 {
        let method = ["Agent/Plan", "Agent/Apply", "Actuators/Attach"][number % 3];
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(&call(method, 100, &[0, 0, 0])).await.unwrap();
        half.push(stream);
    }
    // Longer than may be, no message, less than was said, and compressed in no way that was agreed on.
    let frames: [&[u8]; 4] =
        [&[0, 255, 255, 255, 255], &[0, 0, 0, 0, 3, 255, 255, 255], &[0, 0, 0, 0, 9, 1], &[1, 0, 0, 0, 1, 1]];
    for frame in frames {
        let answer = served.say(&call("Agent/Plan", frame.len(), frame)).await;
        assert_eq!(answer.status, 200, "{}", answer.head);
        assert!(answer.header("grpc-status").is_some_and(|code| code != "0"), "{frame:?}: {}", answer.head);
    }
    let socket = served.folder.path().join("kilter.sock");
    let mut client = kilter_api::client::connect(&socket).await.unwrap();
    let health = client.get_health(kilter_api::v1::GetHealthRequest::default()).await;
    assert!(health.is_ok(), "{health:?}");
    assert_eq!(served.get("/api/v1/health").await.status, 200, "others are served meanwhile");
    drop(half);
    served.end().await;
}

#[tokio::test]
async fn the_service_takes_no_more_and_waits_no_longer_than_the_limits_say() {
    let limits = Limits { header_seconds: 2, body_bytes: 4096, body_seconds: 2, ..Limits::default() };
    let served = Served::start_with(settings(None), limits).await;
    let call = |length: u32, sent: usize| {
        let head = format!(
            "POST /kilter.v1.Agent/Plan HTTP/1.1\r\nhost: x\r\n{OPERATOR}\r\ncontent-type: application/grpc\r\n\
             te: trailers\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            length + 5
        );
        [head.as_bytes(), &[0], &length.to_be_bytes(), &vec![0; sent]].concat()
    };
    let long = served.say(&call(5000, 5000)).await;
    assert_eq!(long.header("grpc-status"), Some("11"), "{}", long.head);
    let half = served.say(&call(100, 3)).await;
    assert_eq!(half.header("grpc-status"), Some("4"), "{}", half.head);

    // It speaks HTTP/2 and then nothing: the agent does not wait until it asks whether anybody is there.
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let ended = tokio::time::timeout(PATIENCE / 3, idle.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "whoever is not recognised keeps no place");
    served.end().await;
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_so_over_rest_and_by_the_service() {
    let access = AccessSettings { requests_per_second: Some(1), ..settings(None).access };
    let served = Served::start_with(Settings { access, ..settings(None) }, Limits::default()).await;
    let call = format!(
        "POST /kilter.v1.Agent/GetHealth HTTP/1.1\r\nhost: x\r\n{READER}\r\ncontent-type: application/grpc\r\n\
         te: trailers\r\nconnection: close\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0"
    );
    let often = async {
        let (mut refused, mut exhausted) = (None, None);
        while refused.is_none() || exhausted.is_none() {
            let asked = futures::future::join_all((0..8).map(|_| served.get("/api/v1/health"))).await;
            refused = refused.or(asked.into_iter().find(|answer| answer.status == 429));
            let asked = futures::future::join_all((0..8).map(|_| served.say(call.as_bytes()))).await;
            let is_exhausted = |answer: &Answer| answer.header("grpc-status") == Some("8");
            exhausted = exhausted.or(asked.into_iter().find(is_exhausted));
        }
        refused
    };
    let refused =
        tokio::time::timeout(PATIENCE, often).await.expect("eight requests in a second are too many");
    let refused = refused.unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("`token operator` asks too often"));
    let other = served.say(&request("GET", "/api/v1/health", &[ADMIN], "")).await;
    assert_eq!(other.status, 200, "others are served");
    served.end().await;
}

#[tokio::test]
async fn a_long_description_is_refused_and_the_agent_starts_again() {
    let served = Served::start().await;
    let item = json!({ "kind": "netns", "value": { "name": "left" } });
    let body = json!({ "items": [item], "description": "x".repeat(2 << 20) });
    let refused = served.send("POST", "/api/v1/apply", &body).await;
    assert_eq!((refused.status, &refused.json()["reason"]), (400, &json!("INVALID")));
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "the description has 2097152 bytes");
    assert_eq!(served.get("/api/v1/items/linux/netns/left").await.status, 404, "nothing was done");
    let audit = served.say(&request("GET", "/api/v1/audit", &[ADMIN], "")).await.json();
    assert_eq!(audit["broken"], Value::Null, "{audit}");
    Audit::open(&served.folder.path().join("audit.log")).expect("the records can be read again");
    served.end().await;
}

#[tokio::test]
async fn what_is_cancelled_is_recorded_with_its_transaction() {
    let served = Served::start().await;
    let confirm = Some(Confirm { within: PATIENCE * 10, probes: Vec::new(), joint: None });
    served.house.apply_with("cli", &["a/1"], Options { confirm, ..Options::default() }).await.unwrap();
    let ended = served.send("POST", "/api/v1/confirmation/cancel", &json!({})).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
    let text = std::fs::read_to_string(served.folder.path().join("audit.log")).unwrap();
    let mut records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = records.rfind(|record| record["what"] == "CancelConfirmation").unwrap();
    assert_eq!(last["txn"], ended.json()["transaction"]["seq"], "{text}");
    assert_eq!(
        (&last["ended"], &ended.json()["transaction"]["outcome"]),
        (&json!("applied"), &json!("APPLIED"))
    );
    served.end().await;
}

#[tokio::test]
async fn a_probe_that_is_a_command_needs_an_admin() {
    let served = Served::start().await;
    let confirm = json!({ "within": "1m", "probes": [{ "command": "true" }] });
    let body = json!({ "items": [{ "kind": "netns", "value": { "name": "left" } }], "confirm": confirm });
    let refused = served.send("POST", "/api/v1/apply", &body).await;
    assert_eq!((refused.status, &refused.json()["reason"]), (403, &json!("FORBIDDEN")));
    assert_eq!(served.get("/api/v1/items/linux/netns/left").await.status, 404, "nothing was done");
    let text = std::fs::read_to_string(served.folder.path().join("audit.log")).unwrap();
    assert!(text.contains("may not run commands of this machine as probes"), "{text}");
    let allowed = served.say(&request("POST", "/api/v1/apply", &[ADMIN], &body.to_string())).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text());
    served.end().await;
}

#[tokio::test]
async fn the_page_is_entered_once_by_its_token_and_writes_from_its_own_origin_alone() {
    let served = Served::start().await;
    let page = served.say(&request("GET", "/", &[], "")).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let script = page.text().split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let script = served.say(&request("GET", &script.replace("./", "/"), &[], "")).await;
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));

    let token = served.door.invite().unwrap();
    let enter = request("GET", &format!("/?token={token}"), &[], "");
    let entered = served.say(&enter).await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let session = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(served.say(&enter).await.header("set-cookie"), None, "a token is good once");

    let cookie = format!("cookie: {session}");
    assert_eq!(served.say(&request("GET", "/api/v1/items", &[&cookie], "")).await.status, 200);
    let write = |headers: &[&str]| {
        let headers: Vec<&str> = [&[cookie.as_str()], headers].concat();
        request("POST", "/api/v1/resync", &headers, "{}")
    };
    let ours = ["x-kilter: 1", "origin: http://localhost", "sec-fetch-site: same-origin"];
    assert_eq!(served.say(&write(&ours)).await.status, 200);
    assert_eq!(served.say(&write(&[])).await.status, 403, "without the header of the page");
    let others = ["x-kilter: 1", "origin: http://localhost:8080", "sec-fetch-site: same-site"];
    assert_eq!(served.say(&write(&others)).await.status, 403, "a page of another port");
    served.end().await;
}

/// Certificates of an authority that is trusted, and of one that is not.
struct Certificates {
    settings: TlsSettings,
    authority: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Certificates {
    fn make(folder: &std::path::Path) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        let issuer = rcgen::Issuer::new(params, key);
        let own = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&own, &issuer).unwrap();
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let settings = TlsSettings {
            certificate: file("own.pem", certificate.pem()),
            key: file("own.key", own.serialize_pem()),
            client_authorities: Some(file("authority.pem", authority.pem())),
        };
        Self { settings, authority, issuer }
    }

    /// A client that trusts this authority, with a certificate of a name from an authority, or with none.
    fn client(&self, shown: Option<(&str, &Self)>) -> tokio_rustls::TlsConnector {
        tokio_rustls::TlsConnector::from(Arc::new(self.trust(shown)))
    }

    fn trust(&self, shown: Option<(&str, &Self)>) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match shown {
            None => builder.with_no_client_auth(),
            Some((name, signer)) => {
                let key = rcgen::KeyPair::generate().unwrap();
                let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
                params.distinguished_name.push(rcgen::DnType::CommonName, name);
                let certificate = params.signed_by(&key, &signer.issuer).unwrap();
                let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        }
    }

    /// What speaks HTTP/2 over an encrypted connection, as a browser does.
    async fn speak(&self, served: &Served, name: &str) -> Channel {
        let mut config = self.trust(Some((name, self)));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (client, address) = (tokio_rustls::TlsConnector::from(Arc::new(config)), served.address);
        let connector = service_fn(move |_| {
            let client = client.clone();
            async move {
                let host = rustls::pki_types::ServerName::try_from("localhost").unwrap();
                client.connect(host, TcpStream::connect(address).await?).await.map(TokioIo::new)
            }
        });
        // The connector encrypts; the address is what `:authority` says.
        let endpoint = Endpoint::from_static("http://localhost:7480");
        endpoint.connect_with_connector(connector).await.unwrap()
    }
}

/// Asks over an encrypted connection; `None` if there is none, or it ends without an answer.
async fn ask_encrypted(served: &Served, client: tokio_rustls::TlsConnector, bytes: &[u8]) -> Option<Answer> {
    let stream = TcpStream::connect(served.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut stream = client.connect(name, stream).await.ok()?;
    // The refusal of a certificate comes with the first thing that is read.
    stream.write_all(bytes).await.ok()?;
    let mut first = [0; 1];
    match stream.read(&mut first).await {
        Ok(1) => {
            let mut rest = Vec::from(first);
            let _ = stream.read_to_end(&mut rest).await;
            Some(exchange(std::io::Cursor::new(rest), b"").await)
        }
        _ => None,
    }
}

#[tokio::test]
async fn an_unknown_certificate_cannot_connect_and_a_known_one_has_its_role() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Certificates::make(folder.path());
    let others = tempfile::tempdir().unwrap();
    let theirs = Certificates::make(others.path());
    let served = Served::start_with(settings(Some(ours.settings.clone())), Limits::default()).await;
    let look = request("GET", "/api/v1/items", &[], "");
    let known = ask_encrypted(&served, ours.client(Some(("ops", &ours))), &look).await;
    assert_eq!(known.map(|answer| answer.status), Some(200));
    let nameless = ask_encrypted(&served, ours.client(Some(("eve", &ours))), &look).await;
    assert_eq!(nameless.map(|answer| answer.status), Some(401), "certified, and nobody gave it a role");
    assert!(ask_encrypted(&served, ours.client(None), &look).await.is_none(), "no certificate");
    // It trusts our authority and shows a certificate of another one.
    let foreign = ours.client(Some(("ops", &theirs)));
    assert!(ask_encrypted(&served, foreign, &look).await.is_none(), "a certificate of another authority");
    let write = request("POST", "/api/v1/resync", &[], "{}");
    let ambient = ask_encrypted(&served, ours.client(Some(("ops", &ours))), &write).await;
    assert_eq!(
        ambient.map(|answer| answer.status),
        Some(403),
        "a browser would send the certificate by itself"
    );
    served.end().await;
}

#[tokio::test]
async fn the_page_writes_over_an_encrypted_connection_from_its_own_origin_alone() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Certificates::make(folder.path());
    let served = Served::start_with(settings(Some(ours.settings.clone())), Limits::default()).await;
    let mut page = ours.speak(&served, "ops").await;
    let mut write = async |origin: &str| {
        let asked = axum::http::Request::post("/api/v1/resync")
            .header("origin", origin)
            .header("sec-fetch-site", "same-origin")
            .header("x-kilter", "1")
            .header("content-type", "application/json")
            .body(tonic::body::Body::new("{}".to_owned()))
            .unwrap();
        assert!(asked.headers().get("host").is_none(), "a browser says it in the address alone");
        let answer = page.ready().await.unwrap().call(asked).await.unwrap();
        assert_eq!(answer.version(), axum::http::Version::HTTP_2);
        answer.status().as_u16()
    };
    assert_eq!(write("https://localhost:7480").await, 200);
    assert_eq!(write("https://localhost:7481").await, 403, "a page of another port");
    assert_eq!(write("https://evil.example").await, 403);
    served.end().await;
}

#[tokio::test]
async fn nobody_but_this_machine_is_served_without_encryption() {
    let bare = Settings { address: Some("0.0.0.0:0".parse().unwrap()), ..settings(None) };
    let refused = Listeners::of(&bare, Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("hint: give certificates"), "{refused}");
}
