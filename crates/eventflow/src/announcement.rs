//! Kubernetes Events: what is told about a flow when it becomes ready, or is so no longer, or waits for something else.

use serde_json::json;

use crate::condition::{self, FlowStatus, Truth};
use crate::names;
use crate::object::Object;
use crate::request::Request;
use kilter_scheduler::Timestamp;

/// The Event that a new status is worth; none if `Ready` says the same for the same reason.
pub(crate) fn announcement(
    flow: &Object,
    before: &FlowStatus,
    after: &FlowStatus,
    now: Timestamp,
) -> Option<Request> {
    let ready = after.condition("Ready")?;
    let known = before.condition("Ready").map(|known| (known.status, known.reason.as_str()));
    if known == Some((ready.status, ready.reason.as_str())) {
        return None;
    }
    let is_failure = ready.status == Truth::False && !flow.is_deleting();
    let (reason, message) = match ready.status {
        Truth::True => ("Ready", "events are delivered"),
        Truth::False | Truth::Unknown => (ready.reason.as_str(), ready.message.as_str()),
    };
    Some(event(flow, if is_failure { "Warning" } else { "Normal" }, reason, message, now))
}

/// An Event about an object.
pub(crate) fn event(about: &Object, kind: &str, reason: &str, message: &str, now: Timestamp) -> Request {
    let (id, moment) = (about.id(), condition::instant(now));
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": id.namespace, "generateName": format!("{}.", id.name)},
        "involvedObject": {
            "apiVersion": id.resource.api_version(),
            "kind": id.resource.kind(),
            "namespace": id.namespace,
            "name": id.name,
            "uid": about.uid(),
            "resourceVersion": about.version(),
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": names::OURS},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    });
    Request::Announce { id: id.clone(), body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::object::Resource;

    fn status(status: Truth, reason: &str, message: &str) -> FlowStatus {
        let ready = Condition {
            name: "Ready".to_owned(),
            status,
            severity: String::new(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: String::new(),
        };
        FlowStatus { conditions: vec![ready], ..FlowStatus::default() }
    }

    #[test]
    fn only_another_answer_or_another_reason_is_announced() {
        let flow = Object::new(Resource::EventFlow, json!({"metadata": {"name": "f", "namespace": "shop"}}));
        let told = |before: &FlowStatus, after: &FlowStatus| {
            let request = announcement(&flow, before, after, Timestamp::default())?;
            let Request::Announce { body, .. } = request else { panic!("{request:?} is no Event") };
            Some(format!("{} {}", body["type"], body["reason"]))
        };
        let (waits, ready) = (status(Truth::Unknown, "WaitingForSink", "a"), status(Truth::True, "", ""));
        let broken = status(Truth::False, "Unhealthy", "");
        assert_eq!(told(&FlowStatus::default(), &waits).as_deref(), Some("\"Normal\" \"WaitingForSink\""));
        assert_eq!(told(&waits, &status(Truth::Unknown, "WaitingForSink", "b")), None);
        assert_eq!(told(&waits, &ready).as_deref(), Some("\"Normal\" \"Ready\""));
        assert_eq!(told(&ready, &broken).as_deref(), Some("\"Warning\" \"Unhealthy\""));
        assert_eq!(told(&ready, &ready), None);
    }
}
