//! How an agent fares as a member of a cluster, in numbers.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use kilter_pubsub::{Nearness, SubscriberCounts};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct What {
    what: &'static str,
}

/// What is counted of delivery. Cloning is cheap: the numbers are shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    happened: Family<What, Counter>,
    lag: Gauge,
    age: Gauge<f64, AtomicU64>,
    /// What has been counted already.
    counted: Arc<Mutex<SubscriberCounts>>,
}

/// What is counted, by name.
fn named(counts: &SubscriberCounts) -> [(&'static str, u64); 13] {
    [
        ("slices", counts.slices),
        ("duplicates", counts.duplicates),
        ("gaps", counts.gaps),
        ("fetches", counts.fetches),
        ("ranges", counts.ranges),
        ("fetched-changes", counts.fetched),
        ("deltas", counts.deltas),
        ("snapshots", counts.snapshots),
        ("store-reads", counts.source_reads),
        ("mismatches", counts.mismatches),
        ("rebases", counts.rebases),
        ("garbled", counts.garbled),
        ("lost-sessions", counts.sessions_lost),
    ]
}

impl Delivery {
    pub(super) fn register(&self, registry: &mut Registry) {
        let happened = self.happened.clone();
        registry.register("cluster_delivery", "What happened between the cluster and this node", happened);
        let lag = self.lag.clone();
        registry.register("cluster_lag_revisions", "Commits of the store that this node lacks", lag);
        let age = self.age.clone();
        registry.register("cluster_age_seconds", "How long no distributor has said anything", age);
    }

    /// Takes in how near the node is to what is published.
    pub(crate) fn note(&self, near: &Nearness) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for ((what, now), (_, before)) in named(&near.counts).into_iter().zip(named(&counted)) {
            self.happened.get_or_create(&What { what }).inc_by(now.saturating_sub(before));
        }
        *counted = near.counts;
        self.lag.set(i64::try_from(near.lag).unwrap_or(i64::MAX));
        self.age.set(near.age.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_happened_is_counted_once() {
        let delivery = Delivery::default();
        let counts = SubscriberCounts { gaps: 2, ..SubscriberCounts::default() };
        let near = Nearness { counts, lag: 7, age: Duration::from_millis(1500) };
        delivery.note(&near);
        delivery.note(&near);
        let mut registry = Registry::with_prefix("kilter");
        delivery.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "kilter_cluster_delivery_total{what=\"gaps\"} 2",
            "kilter_cluster_delivery_total{what=\"deltas\"} 0",
            "kilter_cluster_lag_revisions 7",
            "kilter_cluster_age_seconds 1.5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
