//! The combined status: how a service instance and its flow stand together, for whoever looks at both.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::adoption::{is_flow_of, service_of};
use crate::client::Server;
use crate::condition::{Condition, FlowStatus, Truth};
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::orders;
use crate::osb::catalog::offers;
use crate::osb::read_record;
use crate::osb::record::Record;
use crate::read;
use crate::request::{Class, Rejected};
use crate::standing::written;
use crate::watch::Extent;

/// For how long a flow may say nothing definite before that is a failure, in seconds.
const GRACE: i64 = 300;

/// How both stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Together {
    /// It is being made, or changed.
    Provisioning,
    /// It is being removed.
    Deprovisioning,
    /// Events are delivered.
    Running,
    /// Something is wrong.
    Failed,
}

impl Together {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Provisioning => "Provisioning",
            Self::Deprovisioning => "Deprovisioning",
            Self::Running => "Running",
            Self::Failed => "Failed",
        }
    }
}

/// What is told about one instance, or about a flow that no instance stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The namespace.
    pub namespace: String,
    /// The service instance; none if only the flow is there.
    pub instance: Option<String>,
    /// The flow; none if the service has no events.
    pub flow: Option<String>,
    /// How both stand together.
    pub status: Together,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people: what the one that is not ready says.
    pub message: String,
    /// When the one that says why began to say whether it is ready.
    pub since: String,
    /// The application whose events the flow wants.
    pub source: Option<String>,
    /// Where the events of the flow go, once that is known.
    pub sink: Option<String>,
    /// What the flow says about its parts.
    pub conditions: Vec<Condition>,
    /// Why the service broker has not finished what was ordered, or could not; none if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// What one of both says about itself.
#[derive(Clone, Debug, Default)]
struct Said {
    ready: Option<bool>,
    reason: String,
    message: String,
    /// When it last said something else.
    since: String,
    deleting: bool,
}

fn of_flow(flow: &Object) -> Said {
    let status: FlowStatus = written(flow);
    let created = flow.json()["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    let deleting = flow.is_deleting();
    let Some(ready) = status.condition("Ready") else {
        return Said { since: created.to_owned(), deleting, ..Said::default() };
    };
    Said {
        ready: match ready.status {
            Truth::True => Some(true),
            Truth::False => Some(false),
            Truth::Unknown => None,
        },
        reason: ready.reason.clone(),
        message: ready.message.clone(),
        since: ready.last_transition_time.clone(),
        deleting,
    }
}

fn of_instance(instance: &Object) -> Said {
    let ready = instance.condition("Ready");
    let (reason, message) =
        ready.as_ref().map_or_else(Default::default, |it| (it.reason.clone(), it.message.clone()));
    let since = instance.json()["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
    Said { ready: ready.and_then(|it| it.status), reason, message, since, deleting: instance.is_deleting() }
}

/// Whether something that says nothing definite still may.
fn may_wait(since: &str, now: Timestamp) -> bool {
    since.parse::<Timestamp>().is_ok_and(|since| now.as_second() - since.as_second() < GRACE)
}

fn alone(said: &Said, now: Timestamp) -> Together {
    match said.ready {
        _ if said.deleting => Together::Deprovisioning,
        Some(true) => Together::Running,
        None if may_wait(&said.since, now) => Together::Provisioning,
        Some(false) | None => Together::Failed,
    }
}

/// How an instance and a flow stand together, and which of both says why.
///
/// `has_events` says whether a flow belongs to the instance: one that is missing is no smaller failure than one that fails.
fn judge(
    instance: Option<&Object>,
    flow: Option<&Object>,
    has_events: bool,
    now: Timestamp,
) -> (Together, Said) {
    let flow = flow.map(of_flow);
    let Some(instance) = instance else {
        let flow = flow.unwrap_or_default();
        return (alone(&flow, now), flow);
    };
    let operation = instance.json()["status"]["currentOperation"].as_str().unwrap_or_default();
    let said = of_instance(instance);
    match operation {
        "Deprovision" => return (Together::Deprovisioning, said),
        "" => {}
        _ => return (Together::Provisioning, said),
    }
    let own = alone(&said, now);
    match flow {
        Some(flow) if own == Together::Running => (alone(&flow, now), flow),
        None if own == Together::Running && has_events => {
            let missing = Said {
                ready: None,
                reason: "FlowMissing".to_owned(),
                message: "there is no flow for the instance".to_owned(),
                ..said
            };
            (alone(&missing, now), missing)
        }
        _ => (own, said),
    }
}

/// Asks a cluster how every instance and every flow stands at present.
pub async fn ask(server: &Server) -> Result<Vec<Line>, Rejected> {
    let applications = server.all(Resource::Application).await?;
    let (instances, flows) =
        (server.all(Resource::ServiceInstance).await?, server.all(Resource::EventFlow).await?);
    let records = match server.list(&Extent::labelled(Resource::ConfigMap, "", names::RECORD_LABEL)).await {
        Ok(list) => list.objects,
        // Whoever may not read what the service broker keeps is told the rest.
        Err(rejected) if rejected.class() == Class::Unauthorised => Vec::new(),
        Err(rejected) => return Err(rejected),
    };
    let records: Vec<Record> = records.iter().filter_map(read_record).collect();
    let mut lines = lines(&applications, &instances, &flows, Timestamp::now());
    orders::add(&mut lines, &records, &instances, &flows);
    Ok(lines)
}

/// The flows of one cluster, to be found by the instance that they are for.
struct Flows<'a> {
    named: BTreeMap<(&'a str, &'a str), &'a Object>,
    marked: BTreeMap<(&'a str, &'a str), &'a Object>,
}

impl<'a> Flows<'a> {
    fn new(flows: &'a [Object]) -> Self {
        let named = flows.iter().map(|flow| ((flow.id().namespace.as_str(), flow.id().name.as_str()), flow));
        let marked = flows.iter().filter_map(|flow| {
            let mark = flow.annotation(names::INSTANCE_ANNOTATION)?;
            Some(((flow.id().namespace.as_str(), mark), flow))
        });
        Self { named: named.collect(), marked: marked.collect() }
    }

    fn of(&self, instance: &Object) -> Option<&'a Object> {
        let namespace = instance.id().namespace.as_str();
        let marked = instance.json()["spec"]["externalID"].as_str();
        let marked = marked.and_then(|id| self.marked.get(&(namespace, id)));
        let name = names::flow(&instance.id().name);
        let named = || self.named.get(&(namespace, name.as_str()));
        marked.or_else(named).copied().filter(|flow| is_flow_of(flow, instance))
    }
}

/// How every instance and every flow stands, by namespace and name.
pub fn lines(applications: &[Object], instances: &[Object], flows: &[Object], now: Timestamp) -> Vec<Line> {
    let known = Flows::new(flows);
    let services: BTreeSet<String> =
        applications.iter().flat_map(offers).map(|offer| offer.service_id).collect();
    let mut taken: BTreeSet<&Id> = BTreeSet::new();
    let mut lines = Vec::new();
    let mut push = |instance: Option<&Object>, flow: Option<&Object>| {
        let Some(any) = instance.or(flow) else { return };
        let has_events = instance.and_then(service_of).is_some_and(|service| services.contains(service));
        let (status, said) = judge(instance, flow, has_events, now);
        let name = |object: &Object| object.id().name.clone();
        let FlowStatus { sink_uri, conditions, .. } = flow.map(written).unwrap_or_default();
        lines.push(Line {
            namespace: any.id().namespace.clone(),
            instance: instance.map(name),
            flow: flow.map(name),
            status,
            reason: said.reason,
            message: said.message,
            since: said.since,
            source: flow.map(|flow| read::source(flow).to_owned()),
            sink: sink_uri,
            conditions,
            order: None,
        });
    };
    for instance in instances {
        let flow = known.of(instance);
        push(Some(instance), flow);
        taken.extend(flow.map(Object::id));
    }
    flows.iter().filter(|flow| !taken.contains(flow.id())).for_each(|flow| push(None, Some(flow)));
    sort(&mut lines);
    lines
}

/// By namespace and name.
pub(crate) fn sort(lines: &mut [Line]) {
    lines.sort_by(|one, other| {
        let place =
            |line: &Line| (line.namespace.clone(), line.instance.clone().or_else(|| line.flow.clone()));
        place(one).cmp(&place(other))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn object(resource: Resource, name: &str, ready: Option<&str>, operation: Option<&str>) -> Object {
        let conditions: Vec<Json> = ready
            .map(|ready| {
                let since = "2026-01-01T00:00:00Z";
                json!({"type": "Ready", "status": ready, "reason": format!("{name}Says"), "lastTransitionTime": since})
            })
            .into_iter()
            .collect();
        let created = "2026-01-01T00:00:00Z";
        let meta = json!({"namespace": "shop", "name": name, "creationTimestamp": created});
        let status = json!({"conditions": conditions, "currentOperation": operation});
        Object::new(resource, json!({"metadata": meta, "status": status}))
    }

    #[test]
    fn rows_are_taken_from_top_to_bottom() {
        let soon: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let late: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        for (ready, operation, flow, now, status, reason) in [
            (Some("True"), Some("Provision"), Some("True"), soon, Together::Provisioning, "oSays"),
            (Some("True"), Some("Update"), Some("True"), soon, Together::Provisioning, "oSays"),
            (Some("True"), Some("Deprovision"), Some("True"), soon, Together::Deprovisioning, "oSays"),
            (Some("True"), None, Some("True"), soon, Together::Running, "event-flow-oSays"),
            (Some("False"), None, Some("True"), soon, Together::Failed, "oSays"),
            (Some("True"), None, Some("False"), soon, Together::Failed, "event-flow-oSays"),
            (Some("True"), None, Some("Unknown"), soon, Together::Provisioning, "event-flow-oSays"),
            (Some("True"), None, Some("Unknown"), late, Together::Failed, "event-flow-oSays"),
            (Some("True"), None, None, soon, Together::Running, "oSays"),
            (None, None, None, soon, Together::Provisioning, ""),
        ] {
            let instance = object(Resource::ServiceInstance, "o", ready, operation);
            let flow = flow.map(|ready| object(Resource::EventFlow, "event-flow-o", Some(ready), None));
            let lines = lines(&[], &[instance], flow.as_slice(), now);
            assert_eq!(
                (lines[0].status, lines[0].reason.as_str()),
                (status, reason),
                "{ready:?} {operation:?}"
            );
            assert_eq!(lines.len(), 1);
        }
    }

    #[test]
    fn a_flow_that_no_instance_stands_for_is_told_of_too() {
        let flow = object(Resource::EventFlow, "by-hand", Some("True"), None);
        let lines = lines(&[], &[], &[flow], "2026-01-01T00:01:00Z".parse().unwrap());
        assert_eq!((lines[0].status, lines[0].flow.as_deref()), (Together::Running, Some("by-hand")));
    }

    fn with(object: &Object, change: impl FnOnce(&mut Json)) -> Object {
        let mut content = object.json().clone();
        change(&mut content);
        Object::new(object.id().resource, content)
    }

    #[test]
    fn a_flow_is_that_of_the_instance_it_was_made_for_whatever_it_is_called() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let instance = object(Resource::ServiceInstance, "o", Some("True"), None);
        let instance = with(&instance, |it| it["spec"]["externalID"] = "guid".into());
        let mark = |flow: &Object, id: &str| {
            with(flow, |it| it["metadata"]["annotations"] = json!({names::INSTANCE_ANNOTATION: id}))
        };
        let flow = mark(&object(Resource::EventFlow, "event-flow-guid", Some("True"), None), "guid");
        let told = lines(&[], std::slice::from_ref(&instance), &[flow], now);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].flow.as_deref(), Some("event-flow-guid"));
        let of_another = mark(&object(Resource::EventFlow, "event-flow-o", Some("True"), None), "other");
        let told = lines(&[], &[instance], &[of_another], now);
        assert_eq!(told.len(), 2, "it only has its name: {told:?}");
    }

    #[test]
    fn an_instance_of_a_service_with_events_does_not_run_without_a_flow() {
        let soon: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let late: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let services = json!([{"id": "orders-id", "entries": [{"type": "Events"}]}]);
        let application = json!({"metadata": {"name": "crm"}, "spec": {"services": services}});
        let application = Object::new(Resource::Application, application);
        let instance = object(Resource::ServiceInstance, "o", Some("True"), None);
        for (class, now, status, reason) in [
            ("orders-id", soon, Together::Provisioning, "FlowMissing"),
            ("orders-id", late, Together::Failed, "FlowMissing"),
            ("another-id", late, Together::Running, "oSays"),
        ] {
            let instance = with(&instance, |it| it["spec"]["serviceClassRef"] = json!({"name": class}));
            let told = lines(std::slice::from_ref(&application), &[instance], &[], now);
            assert_eq!((told[0].status, told[0].reason.as_str()), (status, reason), "{class}");
        }
    }
}
