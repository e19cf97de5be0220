//! What subscribers notice, and when.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// How long a value is.
pub(crate) const SIZE: usize = 200;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A value that was noticed: when it was committed, and how old it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noticed {
    stamp: u64,
    age: u64,
}

/// What subscribers noticed.
#[derive(Clone)]
pub(crate) struct Told {
    began: Instant,
    count: Arc<AtomicU64>,
    noticed: mpsc::UnboundedSender<Noticed>,
}

impl Told {
    /// Nobody has noticed anything yet; what is noticed comes through the channel.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Noticed>) {
        let (to, noticed) = mpsc::unbounded_channel();
        (Self { began: Instant::now(), count: Arc::default(), noticed: to }, noticed)
    }

    /// A value that says when it was committed.
    pub(crate) fn stamped(&self) -> Vec<u8> {
        let mut value = vec![b'x'; SIZE];
        value[..8].copy_from_slice(&self.elapsed().to_le_bytes());
        value
    }

    pub(crate) fn elapsed(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A value was applied.
    pub(crate) fn applied(&self, value: &[u8]) {
        let stamp = value.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // Whoever measures may have ended.
        let _ = self.noticed.send(Noticed { stamp, age: self.elapsed().saturating_sub(stamp) });
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until so many values were applied.
    pub(crate) async fn wait(&self, wanted: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.count.load(Ordering::Relaxed) < wanted {
            if Instant::now() > deadline {
                bail!("{} of {wanted} were applied", self.count.load(Ordering::Relaxed));
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        Ok(())
    }
}

/// The age at a place in the order of ages, in microseconds.
fn at(sorted: &[u64], percent: usize) -> f64 {
    (sorted.get(sorted.len() * percent / 100).copied().unwrap_or(0) as f64 / 1e3).round()
}

/// The middle and the slowest of a hundred, in microseconds.
pub(crate) fn latency(mut nanos: Vec<u64>) -> Value {
    nanos.sort_unstable();
    json!({"p50_us": at(&nanos, 50), "p99_us": at(&nanos, 99)})
}

/// The same of what was noticed; and how long it took until the last subscriber had a commit, in the middle.
pub(crate) fn latencies(noticed: &[Noticed]) -> Value {
    let mut lasts: HashMap<u64, u64> = HashMap::new();
    for one in noticed {
        let last = lasts.entry(one.stamp).or_default();
        *last = one.age.max(*last);
    }
    let mut lasts: Vec<u64> = lasts.into_values().collect();
    lasts.sort_unstable();
    let mut latency = latency(noticed.iter().map(|one| one.age).collect());
    latency["last_p50_us"] = at(&lasts, 50).into();
    latency
}

/// The ages of what was noticed.
pub(crate) fn ages(noticed: &[Noticed]) -> Vec<u64> {
    noticed.iter().map(|one| one.age).collect()
}

/// The CPU time that this process has used: that of publisher and subscribers.
pub(crate) fn process_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
