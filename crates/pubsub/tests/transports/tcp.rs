//! The own transport, and the one inside a process.

use std::sync::Arc;
use std::time::Duration;

use kilter_pubsub::Delivery;
use kilter_pubsub::transport::{Connector, Network, TcpServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::truth::{Consumer, DEADLINE, Truth, eventually, free_place, survives_a_kill};

pub(crate) fn tcp() -> Connector {
    Connector::Network(Network::new())
}

#[tokio::test]
async fn a_publisher_over_tcp_is_killed_and_nothing_is_lost() {
    let connector = tcp();
    survives_a_kill(connector, free_place, Delivery::Cursors, |hub, place| async move {
        TcpServer::bind(&hub, &place).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_consumer_in_the_same_process_needs_no_socket() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Cursors, 1);
    truth.commit(&["before"], &[]);
    let mut consumer = Consumer::start(Connector::Local(Arc::clone(&hub)), vec!["here".to_owned()], 2).await;
    consumer.agrees(&truth, &hub).await;
    truth.commit(&["after"], &["before"]);
    consumer.agrees(&truth, &hub).await;
}

#[tokio::test]
async fn a_hub_that_ends_ends_the_sessions_of_its_own_process() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Cursors, 1);
    truth.commit(&["before"], &[]);
    let mut consumer = Consumer::start(Connector::Local(Arc::clone(&hub)), vec!["here".to_owned()], 2).await;
    consumer.agrees(&truth, &hub).await;
    assert_eq!(consumer.follower.counts().await.sessions_lost, 0);
    hub.abort();
    let noticed = async { while consumer.follower.counts().await.sessions_lost == 0 {} };
    assert!(tokio::time::timeout(DEADLINE, noticed).await.is_ok(), "nobody noticed");
}

#[tokio::test]
async fn f25_a_second_distributor_at_the_same_place_is_refused_with_a_reason() {
    let truth = Truth::new();
    let (one, two) = (truth.hub(Delivery::Cursors, 1), truth.hub(Delivery::Cursors, 2));
    let server = TcpServer::bind(&one, "tcp://127.0.0.1:0").await.unwrap();
    let place = format!("tcp://{}", server.address());
    let error = TcpServer::bind(&two, &place).await.err().unwrap();
    assert!(error.to_string().contains(&place) && error.to_string().contains("hint:"), "{error}");
}

#[tokio::test]
async fn rubbish_ends_its_own_session_and_no_other() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Cursors, 1);
    let server = TcpServer::bind(&hub, "tcp://127.0.0.1:0").await.unwrap();
    let place = format!("tcp://{}", server.address());
    let mut consumer = Consumer::start(tcp(), vec![place], 2).await;
    for rubbish in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0, 0, 0, 5, 9, 9, 9, 9, 9]] {
        let mut stranger = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        stranger.write_all(rubbish).await.unwrap();
        let ended = tokio::time::timeout(DEADLINE, stranger.read(&mut [0; 64])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "the session of the stranger ends");
    }
    truth.commit(&["still served"], &[]);
    consumer.agrees(&truth, &hub).await;
    assert_eq!(consumer.follower.counts().await.sessions_lost, 0);
}

#[tokio::test]
async fn a_reader_that_stands_still_delays_nobody_and_catches_up() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Cursors, 1);
    let server = TcpServer::bind(&hub, "tcp://127.0.0.1:0").await.unwrap();
    let place = format!("tcp://{}", server.address());
    let mut slow = Consumer::start(tcp(), vec![place.clone()], 2).await;
    let mut quick = Consumer::start(tcp(), vec![place], 3).await;
    slow.agrees(&truth, &hub).await;
    // Nobody takes the events of the slow one; everything it is not told stays in the log.
    let long = "x".repeat(2000);
    for round in 0..3000 {
        truth.commit(&[&format!("{long}{}", round % 50)], &[]);
        if round % 100 == 0 {
            quick.agrees(&truth, &hub).await;
            tokio::time::sleep(Duration::from_millis(1)).await; // poll pause: lets the sockets fill
        }
    }
    quick.agrees(&truth, &hub).await;
    let (slices, bytes) = hub.with(|core, _| core.published().log_size());
    assert!(slices <= 3001 && bytes < 64 << 20);
    slow.agrees(&truth, &hub).await;
    let counts = slow.follower.counts().await;
    assert_eq!((counts.snapshots, counts.deltas, counts.mismatches), (1, 0, 0), "{counts:?}");
}

/// Carries bytes to a server until it is frozen: from then on nothing passes, and nobody is told.
struct Wire {
    place: String,
    frozen: tokio::sync::watch::Sender<bool>,
}

impl Wire {
    async fn to(server: std::net::SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("tcp://{}", listener.local_addr().unwrap());
        let (frozen, freezes) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = tokio::net::TcpStream::connect(server).await.unwrap();
                let mut freezes = freezes.clone();
                tokio::spawn(async move {
                    let (mut near, mut far) = (near, far);
                    let frozen = async { drop(freezes.wait_for(|frozen| *frozen).await) };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = frozen => std::future::pending().await,
                    }
                });
            }
        });
        Self { place, frozen }
    }
}

#[tokio::test]
async fn a_connection_that_silently_dies_is_noticed_by_both_sides() {
    let truth = Truth::new();
    let hub = truth.hub(Delivery::Cursors, 1);
    let server = TcpServer::bind(&hub, "tcp://127.0.0.1:0").await.unwrap();
    let wire = Wire::to(server.address()).await;
    truth.commit(&["before"], &[]);
    let mut consumer = Consumer::start(tcp(), vec![wire.place.clone()], 2).await;
    consumer.agrees(&truth, &hub).await;
    wire.frozen.send_replace(true);
    truth.commit(&["meanwhile"], &["before"]);
    consumer.follower.learn(vec![format!("tcp://{}", server.address())]).await;
    consumer.agrees(&truth, &hub).await;
    let counts = consumer.follower.counts().await;
    assert_eq!((counts.snapshots, counts.mismatches), (1, 0), "{counts:?}");
    // Nothing that is written into the frozen session comes back as an error.
    eventually("one session is left", || hub.with(|core, _| core.published().sessions() == 1)).await;
}

#[tokio::test]
async fn a_publisher_that_stops_sends_its_subscribers_to_the_next_one() {
    let truth = Truth::new();
    let (one, two) = (truth.hub(Delivery::Cursors, 1), truth.hub(Delivery::Cursors, 2));
    let first = TcpServer::bind(&one, "tcp://127.0.0.1:0").await.unwrap();
    let second = TcpServer::bind(&two, "tcp://127.0.0.1:0").await.unwrap();
    one.with(|core, _| core.publisher().set_peers(vec![format!("tcp://{}", second.address())]));
    truth.commit(&["before"], &[]);
    let mut consumer = Consumer::start(tcp(), vec![format!("tcp://{}", first.address())], 3).await;
    consumer.agrees(&truth, &one).await;
    one.shut_down();
    eventually("it has moved", || two.with(|core, _| core.published().sessions() == 1)).await;
    one.abort();
    truth.commit(&["after"], &["before"]);
    consumer.agrees(&truth, &two).await;
    assert_eq!(consumer.follower.counts().await.snapshots, 1);
}
