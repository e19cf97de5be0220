//! Adoption: what older controllers and service brokers left, and how it becomes ours.
//!
//! Decided here: which Subscriptions are the one of a namespace and a source, whatever made them, and which instances
//! still wait for their flow. An instance that waits protects what its namespace shares: nothing of that is taken down
//! before every instance has a flow, so a Broker is never deleted under somebody who was not counted.

use serde_json::{Map, Value as Json};

use crate::mirror::Mirror;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::osb::catalog::{Offer, offers};
use crate::osb::decide;
use crate::osb::record::{Asked, Record};
use crate::settings::Settings;

/// Every Subscription that carries the events of a source to a namespace, by name, on its way out or not.
///
/// An older controller made one for each service, under generated names; the labels tell what they are. Ours is known by its
/// name, too: somebody may have changed its labels.
pub(crate) fn deliveries<'a>(
    namespace: &'a str,
    source: &'a str,
    mirror: &'a Mirror,
    settings: &'a Settings,
) -> impl Iterator<Item = &'a Object> {
    let own = names::subscription(namespace, source);
    let carries = move |it: &&Object| {
        let is_labelled = || {
            it.id().name.starts_with(names::SUBSCRIPTION_PREFIX)
                && it.label(names::BROKER_NAMESPACE_LABEL) == Some(namespace)
                && it.label(names::APPLICATION_LABEL) == Some(source)
        };
        it.id().name == own || is_labelled()
    };
    mirror.inside(Resource::Subscription, &settings.integration).filter(carries)
}

/// The Subscription of a namespace and a source: the one that has our name, or else the first that is there, or else
/// the one that is to be made.
pub(crate) fn delivery(namespace: &str, source: &str, mirror: &Mirror, settings: &Settings) -> Id {
    let own = Id::new(
        Resource::Subscription,
        settings.integration.as_str(),
        names::subscription(namespace, source),
    );
    if mirror.get(&own).is_some() {
        return own;
    }
    let first = deliveries(namespace, source, mirror, settings).find(|it| !it.is_deleting());
    first.map_or(own, |first| first.id().clone())
}

/// What else delivers the same events once more, and is not on its way out.
pub(crate) fn duplicates<'a>(
    of: &'a Id,
    namespace: &'a str,
    source: &'a str,
    mirror: &'a Mirror,
    settings: &'a Settings,
) -> impl Iterator<Item = &'a Object> {
    deliveries(namespace, source, mirror, settings).filter(move |it| it.id() != of && !it.is_deleting())
}

/// A service instance, as far as a flow follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    /// The identity that the platform gave it.
    pub(crate) instance: String,
    /// Its service.
    pub(crate) service_id: String,
    /// Its plan.
    pub(crate) plan_id: String,
}

/// What an instance ordered; `None` unless the platform says that it is provisioned, and does not remove it.
pub(crate) fn ordered(instance: &Object) -> Option<Ordered> {
    let (spec, status) = (&instance.json()["spec"], &instance.json()["status"]);
    let is_there = status["provisionStatus"] == "Provisioned" && status["currentOperation"] != "Deprovision";
    if !is_there || instance.is_deleting() {
        return None;
    }
    let plan = [
        &spec["servicePlanRef"]["name"],
        &spec["clusterServicePlanRef"]["name"],
        &spec["servicePlanExternalID"],
        &spec["clusterServicePlanExternalID"],
    ];
    Some(Ordered {
        instance: external(instance)?.to_owned(),
        service_id: service_of(instance)?.to_owned(),
        plan_id: plan.into_iter().find_map(Json::as_str)?.to_owned(),
    })
}

/// The service that an instance is of.
pub(crate) fn service_of(instance: &Object) -> Option<&str> {
    let spec = &instance.json()["spec"];
    let fields = [
        &spec["serviceClassRef"]["name"],
        &spec["clusterServiceClassRef"]["name"],
        &spec["serviceClassExternalID"],
        &spec["clusterServiceClassExternalID"],
    ];
    fields.into_iter().find_map(Json::as_str)
}

/// The identity that the platform gave an instance.
pub(crate) fn external(instance: &Object) -> Option<&str> {
    instance.json()["spec"]["externalID"].as_str()
}

/// Whether a flow is the one of an instance: it was made for it, or nobody said for which and it has its name.
pub(crate) fn is_flow_of(flow: &Object, instance: &Object) -> bool {
    match (flow.annotation(names::INSTANCE_ANNOTATION), external(instance)) {
        (Some(mark), Some(id)) => mark == id,
        _ => flow.id().name == names::flow(&instance.id().name),
    }
}

/// The name of the instance that the platform gave this identity, as far as the cluster shows it.
pub(crate) fn name_of(instance: &str, namespace: &str, mirror: &Mirror) -> Option<String> {
    let mut all = mirror.inside(Resource::ServiceInstance, namespace);
    let found = all.find(|it| external(it) == Some(instance) && !it.is_deleting())?;
    Some(found.id().name.clone())
}

/// An instance of a service with events that has no flow yet.
pub(crate) fn waiting<'a>(namespace: &'a str, mirror: &'a Mirror) -> Option<&'a Object> {
    let has_flow = |instance: &Object| {
        mirror.inside(Resource::EventFlow, namespace).any(|flow| is_flow_of(flow, instance))
    };
    let is_offered = |ordered: &Ordered| {
        let mut all = mirror.of(Resource::Application).flat_map(offers);
        all.any(|offer| offer.service_id == ordered.service_id)
    };
    mirror
        .inside(Resource::ServiceInstance, namespace)
        .filter(|instance| !has_flow(instance))
        .find(|instance| ordered(instance).is_some_and(|ordered| is_offered(&ordered)))
}

/// The records of the instances that the platform has and that have none in this namespace: an older service broker made
/// them, or the records were lost.
pub(crate) fn strangers(mirror: &Mirror, namespace: &str, now: u64) -> Vec<Record> {
    let all: Vec<Offer> = mirror.of(Resource::Application).flat_map(offers).collect();
    let stranger = |instance: &Object| {
        let ordered = ordered(instance)?;
        let id = Id::new(Resource::ConfigMap, namespace, names::record(&ordered.instance));
        if mirror.get(&id).is_some() {
            return None;
        }
        let offer = all.iter().find(|offer| offer.service_id == ordered.service_id)?;
        let asked = Asked {
            service_id: ordered.service_id,
            plan_id: ordered.plan_id,
            organization_guid: String::new(),
            space_guid: String::new(),
            namespace: instance.id().namespace.clone(),
            parameters: Map::new(),
        };
        let name = instance.id().name.clone();
        let fresh = decide::fresh(&ordered.instance, asked, name, offer.source.clone(), offer.title.clone());
        Some(decide::adopt(fresh, now))
    };
    mirror.of(Resource::ServiceInstance).filter_map(stranger).collect()
}
