//! What platforms are offered: every service of an application that has events, with one plan.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::names;
use crate::object::Object;

/// One service with its one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The identity of the service: the one that the application gave it.
    pub service_id: String,
    /// The identity of its plan.
    pub plan_id: String,
    /// A name without spaces.
    pub name: String,
    /// What it is called.
    pub title: String,
    /// What it is.
    pub description: String,
    /// The application.
    pub source: String,
}

/// What an application offers.
pub fn offers(application: &Object) -> Vec<Offer> {
    let services = application.json()["spec"]["services"].as_array();
    let offer = |service: &Json| {
        let text = |field: &str| service[field].as_str().filter(|text| !text.is_empty());
        let entries = service["entries"].as_array();
        let has_events = entries.is_some_and(|entries| entries.iter().any(|entry| entry["type"] == "Events"));
        let id = text("id").filter(|_| has_events)?;
        let title = text("displayName").or_else(|| text("name")).unwrap_or(id);
        Some(Offer {
            service_id: id.to_owned(),
            plan_id: format!("{id}-plan"),
            name: text("name").map_or_else(|| id.to_owned(), slug),
            title: title.to_owned(),
            description: text("description").unwrap_or(title).to_owned(),
            source: application.id().name.clone(),
        })
    };
    services.into_iter().flatten().filter_map(offer).collect()
}

/// What all applications offer together. The names of services differ, as the API wants it: those that two services share
/// get the name of their application, and if that is not enough a part of their identity.
pub fn catalog<'a>(applications: impl Iterator<Item = &'a Object>) -> Vec<Offer> {
    let mut all: Vec<Offer> = applications.flat_map(offers).collect();
    for tell_apart in [of_application, of_identity] {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        all.iter().for_each(|offer| *counts.entry(offer.name.clone()).or_default() += 1);
        for offer in all.iter_mut().filter(|offer| counts[&offer.name] > 1) {
            offer.name = tell_apart(offer);
        }
    }
    all
}

fn of_application(offer: &Offer) -> String {
    format!("{}-{}", offer.name, offer.source)
}

fn of_identity(offer: &Offer) -> String {
    format!("{}-{}", offer.name, names::digest(&offer.service_id))
}

/// A name as the API wants it: no spaces.
fn slug(name: &str) -> String {
    let keep = |letter: char| if letter.is_alphanumeric() || "-._".contains(letter) { letter } else { '-' };
    name.chars().map(keep).collect()
}

/// The catalog as platforms read it.
pub fn to_json(offers: &[Offer], polling: u64) -> Json {
    // An instance takes no parameters, and the schema says so.
    let nothing = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "additionalProperties": false});
    let service = |offer: &Offer| {
        json!({
            "id": offer.service_id,
            "name": offer.name,
            "description": offer.description,
            "bindable": false,
            "instances_retrievable": true,
            "bindings_retrievable": false,
            "plan_updateable": false,
            "metadata": {"displayName": offer.title},
            "plans": [{
                "id": offer.plan_id,
                "name": "default",
                "description": "The events of the application, delivered to the namespace.",
                "free": true,
                "bindable": false,
                "maximum_polling_duration": polling,
                "schemas": {"service_instance": {"create": {"parameters": nothing}, "update": {"parameters": nothing}}},
            }],
        })
    };
    json!({"services": offers.iter().map(service).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Resource;

    #[test]
    fn only_services_with_events_are_offered() {
        let content = json!({"metadata": {"name": "crm"}, "spec": {"services": [
            {"id": "a", "name": "Orders of today", "displayName": "Orders", "entries": [{"type": "Events"}]},
            {"id": "b", "name": "api", "entries": [{"type": "API"}]},
        ]}});
        let offers = offers(&Object::new(Resource::Application, content));
        assert_eq!(offers.len(), 1);
        assert_eq!((offers[0].name.as_str(), offers[0].plan_id.as_str()), ("Orders-of-today", "a-plan"));
        assert_eq!(to_json(&offers, 600)["services"][0]["plans"][0]["id"], "a-plan");
    }

    #[test]
    fn no_two_services_have_the_same_name() {
        let application = |name: &str, ids: &[&str]| {
            let service = |id: &&str| json!({"id": id, "name": "orders", "entries": [{"type": "Events"}]});
            let services: Vec<Json> = ids.iter().map(service).collect();
            Object::new(
                Resource::Application,
                json!({"metadata": {"name": name}, "spec": {"services": services}}),
            )
        };
        let names = |all: &[Object]| -> Vec<String> {
            catalog(all.iter()).into_iter().map(|offer| offer.name).collect()
        };
        assert_eq!(names(&[application("crm", &["a"])]), ["orders"], "one that is alone keeps its name");
        let told = names(&[application("crm", &["a"]), application("erp", &["b", "c"])]);
        assert_eq!(told[0], "orders-crm");
        assert!(told[1].starts_with("orders-erp-") && told[2].starts_with("orders-erp-"), "{told:?}");
        assert_ne!(told[1], told[2]);
    }
}
