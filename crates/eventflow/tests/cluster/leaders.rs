//! Several controllers: one leads, and the next one begins only when the one before it has stopped.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kilter_eventflow::client::Server;
use kilter_eventflow::run::RunError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::server::{Cluster, until};
use crate::shop::{Running, Shop};

/// A lease that does not lapse because the machine has a lot to do.
const LONG: Duration = Duration::from_secs(30);

/// A lease that is waited for until it lapses.
const SHORT: Duration = Duration::from_secs(12);

/// A way to a cluster. While it is blocked, whatever is sent on it stays where it is.
struct Way {
    port: u16,
    open: watch::Sender<bool>,
    _task: JoinSet<()>,
}

impl Way {
    async fn to(cluster: &Cluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let (open, is_open) = watch::channel(true);
        let (mut task, target) = (JoinSet::new(), cluster.port);
        task.spawn(async move {
            let mut carried = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.expect("somebody comes");
                let far = TcpStream::connect(("127.0.0.1", target)).await.expect("the cluster is there");
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                carried.spawn(carry(near_in, far_out, is_open.clone()));
                carried.spawn(carry(far_in, near_out, is_open.clone()));
            }
        });
        Self { port, open, _task: task }
    }

    fn server(&self) -> Server {
        Cluster::behind(self.port)
    }

    fn block(&self) {
        self.open.send_replace(false);
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// Whether everything that the first one wrote, or wanted to, was before everything of the second one.
fn took_turns(first: &Running, second: &Running) -> bool {
    let (first, second) = (first.between.writes(), second.between.writes());
    first.iter().max().zip(second.iter().min()).is_some_and(|(last, next)| last < next)
}

#[tokio::test]
async fn of_two_controllers_one_leads_and_the_other_takes_over_when_it_is_told() {
    let shop = Shop::open("lead").await;
    let first = shop.run_as("first", shop.cluster.again(), LONG);
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let second = shop.run_as("second", shop.cluster.again(), LONG);
    shop.create_flow("f2", "crm").await;
    shop.until_says("f2", "Ready", "True").await;
    assert_eq!(second.counts.total(), 0, "who does not lead does not write");
    first.stop().await;
    shop.delete_flow("f1").await;
    shop.delete_flow("f2").await;
    shop.until_gone("f1").await;
    shop.until_gone("f2").await;
    assert!(second.counts.total() > 0 && shop.broker().await.is_none());
    second.stop().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_its_lease_stops_before_the_next_one_begins() {
    let shop = Shop::open("lapse").await;
    let way = Way::to(&shop.cluster).await;
    let first = shop.run_as("first", way.server(), SHORT);
    shop.create_flow("f", "crm").await;
    shop.until_says("f", "Ready", "True").await;
    let second = shop.run_as("second", shop.cluster.again(), SHORT);
    // From here on, the first one can write, and cannot know whether it may.
    way.block();
    let looks = AtomicU32::new(0);
    until("the second one has written", || async {
        // There is always something to write.
        let look = looks.fetch_add(1, Ordering::Relaxed);
        if look.is_multiple_of(8) {
            shop.create_flow(&format!("f{look}"), "crm").await;
        }
        second.counts.total() > 0
    })
    .await;
    assert!(took_turns(&first, &second), "there are never two who write");
    assert!(matches!(first.ended().await, Err(RunError::Deposed)));
    second.stop().await;
}
