//! What an instance is made of: its EventActivation and its EventFlow, and whose they are.

use serde_json::{Value as Json, json};

use crate::names;
use crate::object::{Id, Object, Resource};
use crate::osb::record::Record;
use crate::read::source;

/// Who owns the EventActivations.
pub(crate) const ACTIVATION_OWNER: &str = "kilter-eventflow-activation";

/// Who owns the flows.
pub(crate) const FLOW_OWNER: &str = "kilter-eventflow-flow";

/// The EventFlow of an instance.
pub(crate) fn flow_id(record: &Record) -> Id {
    Id::new(Resource::EventFlow, record.asked.namespace.as_str(), names::flow(&record.name))
}

/// The EventActivation of an instance, which it shares with the others of its service in a namespace.
pub(crate) fn activation_id(record: &Record) -> Id {
    Id::new(Resource::EventActivation, record.asked.namespace.as_str(), record.asked.service_id.as_str())
}

/// Whether a flow may stand for an instance: it was made for it, or nobody said for which and it is the same.
pub(crate) fn may_be_of(flow: &Object, record: &Record) -> bool {
    let is_marked = flow.annotation(names::INSTANCE_ANNOTATION).is_some();
    is_of(flow, record) || !is_marked && source(flow) == record.source
}

/// Whether a flow was made for an instance.
pub(crate) fn is_of(flow: &Object, record: &Record) -> bool {
    flow.annotation(names::INSTANCE_ANNOTATION) == Some(record.instance.as_str())
}

/// Everything that we own of the flow of an instance.
pub(crate) fn flow(record: &Record) -> Json {
    let id = flow_id(record);
    json!({
        "apiVersion": id.resource.api_version(),
        "kind": id.resource.kind(),
        "metadata": {
            "name": id.name,
            "namespace": id.namespace,
            "annotations": {names::INSTANCE_ANNOTATION: record.instance},
        },
        "spec": {"source": record.source},
    })
}

/// Everything that we own of the EventActivation of an instance.
pub(crate) fn activation(record: &Record) -> Json {
    let id = activation_id(record);
    json!({
        "apiVersion": id.resource.api_version(),
        "kind": id.resource.kind(),
        "metadata": {"name": id.name, "namespace": id.namespace, "labels": {names::MANAGED_BY: names::OURS}},
        "spec": {"displayName": record.title, "sourceId": record.source},
    })
}
