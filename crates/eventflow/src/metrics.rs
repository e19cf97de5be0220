//! Numbers about the flows and the requests, in the form that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use kilter_scheduler::Timestamp;

use crate::condition::{FlowStatus, Truth};
use crate::counts::Counts;
use crate::mirror::Mirror;
use crate::object::{Object, Resource};
use crate::osb::record::Record;
use crate::standing::written;

/// What the numbers are, for whoever reads them.
pub(crate) const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is told about the flows that there are.
#[derive(Clone, Debug, Default, PartialEq)]
struct Flows {
    /// How many there are, by what `Ready` says.
    ready: BTreeMap<&'static str, u64>,
    /// For how long the one that waits the longest is not ready, in seconds.
    pending: u64,
    /// For how long the one that is held the longest is on its way out, in seconds.
    held: u64,
}

fn age(moment: &str, now: Timestamp) -> u64 {
    let Ok(moment) = moment.parse::<jiff::Timestamp>() else { return 0 };
    let now = i64::try_from(now.0 / 1_000_000_000).unwrap_or_default();
    u64::try_from(now - moment.as_second()).unwrap_or_default()
}

fn look(flows: &[(&Object, FlowStatus)], now: Timestamp) -> Flows {
    let mut seen = Flows::default();
    for (flow, status) in flows {
        let ready = status.condition("Ready");
        let word = match ready.map(|ready| ready.status) {
            Some(Truth::True) => "True",
            Some(Truth::False) => "False",
            Some(Truth::Unknown) | None => "Unknown",
        };
        *seen.ready.entry(word).or_default() += 1;
        let deleted = flow.json()["metadata"]["deletionTimestamp"].as_str();
        if let Some(deleted) = deleted {
            seen.held = seen.held.max(age(deleted, now));
        } else if word != "True" {
            let created = flow.json()["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
            let since = ready.map_or(created, |ready| ready.last_transition_time.as_str());
            seen.pending = seen.pending.max(age(since, now));
        }
    }
    seen
}

fn family<K: Display>(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (K, u64)>,
) {
    let suffix = if kind == "counter" { "_total" } else { "" };
    // Writing to a text cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (key, value) in values {
        let _ = match label {
            "" => writeln!(text, "{name}{suffix} {value}"),
            label => writeln!(text, "{name}{suffix}{{{label}=\"{key}\"}} {value}"),
        };
    }
}

/// Every number, as text.
pub(crate) fn text(counts: &Counts, mirror: &Mirror, now: Timestamp) -> String {
    let flows: Vec<(&Object, FlowStatus)> =
        mirror.of(Resource::EventFlow).map(|flow| (flow, written(flow))).collect();
    let seen = look(&flows, now);
    let mut text = String::new();
    let name = |name: &str| format!("kilter_eventflow_{name}");
    family(&mut text, &name("flows"), "gauge", "Flows, by what Ready says.", "ready", seen.ready);
    let pending = "Seconds for which the flow that waits the longest is not ready.";
    family(&mut text, &name("oldest_pending_seconds"), "gauge", pending, "", [("", seen.pending)]);
    let held = "Seconds for which the flow that is held the longest is on its way out.";
    family(&mut text, &name("oldest_finalizer_seconds"), "gauge", held, "", [("", seen.held)]);
    requests(&mut text, counts);
    text.push_str("# EOF\n");
    text
}

/// Every number of a service broker, as text: its instances by stage, and what platforms were answered.
pub(crate) fn broker_text(counts: &Counts, records: &[Record], now: u64) -> String {
    let mut stages: BTreeMap<&'static str, u64> = BTreeMap::new();
    records.iter().for_each(|record| *stages.entry(record.stage.name()).or_default() += 1);
    let under_way = records.iter().filter(|record| record.stage.is_under_way());
    let oldest = under_way.map(|record| now.saturating_sub(record.since)).max().unwrap_or_default();
    let mut text = String::new();
    let name = |name: &str| format!("kilter_eventflow_broker_{name}");
    family(&mut text, &name("instances"), "gauge", "Instances, by how far they are.", "stage", stages);
    let help = "Seconds for which the order that waits the longest is under way.";
    family(&mut text, &name("oldest_order_seconds"), "gauge", help, "", [("", oldest)]);
    family(&mut text, &name("answers"), "counter", "Answers to platforms.", "code", counts.answers());
    requests(&mut text, counts);
    text.push_str("# EOF\n");
    text
}

fn requests(text: &mut String, counts: &Counts) {
    let sent = counts.requests().into_iter().chain(counts.upkeep());
    family(text, "kilter_eventflow_requests", "counter", "Requests to the cluster.", "verb", sent);
    let rejections = counts.rejections().into_iter().map(|(class, count)| (class.name(), count));
    let help = "Requests that were rejected.";
    family(text, "kilter_eventflow_rejections", "counter", help, "class", rejections);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_one_that_waits_the_longest_and_the_one_that_is_held_the_longest_are_told() {
        let mut mirror = Mirror::default();
        for (name, ready, since, deleted) in [
            ("a", "True", "1970-01-01T00:00:00Z", None),
            ("b", "Unknown", "1970-01-01T00:01:00Z", None),
            ("c", "False", "1970-01-01T00:01:30Z", None),
            ("d", "False", "1970-01-01T00:00:00Z", Some("1970-01-01T00:01:20Z")),
        ] {
            let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": since}]);
            let meta = json!({"name": name, "namespace": "shop", "uid": name, "deletionTimestamp": deleted});
            let content = json!({"metadata": meta, "status": {"conditions": conditions}});
            mirror.see(Object::new(Resource::EventFlow, content));
        }
        let text = text(&Counts::default(), &mirror, Timestamp(100_000_000_000));
        for line in [
            "kilter_eventflow_flows{ready=\"False\"} 2",
            "kilter_eventflow_flows{ready=\"True\"} 1",
            "kilter_eventflow_oldest_pending_seconds 40",
            "kilter_eventflow_oldest_finalizer_seconds 20",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
        }
    }
}
