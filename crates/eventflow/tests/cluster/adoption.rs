//! Migration: what an older controller and an older service broker left is taken over, and nothing is lost on the way.

use kilter_eventflow::names;
use kilter_eventflow::object::{Object, Resource};
use serde_json::json;

use crate::between::Between;
use crate::knative;
use crate::platform::{Office, offer};
use crate::server::{JSON, MERGE, stays, until};
use crate::shop::Shop;

impl Shop {
    /// What an older controller left for a service.
    async fn leave_subscription(&self, name: &str, service: &str) {
        let labels = json!({
            names::BROKER_NAMESPACE_LABEL: self.namespace,
            names::APPLICATION_LABEL: "crm",
            "application-service-id": service,
        });
        let channel =
            json!({"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "Channel", "name": "crm-channel"});
        let sink = format!("http://default-broker.{}.svc.cluster.local", self.namespace);
        let body = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"channel": channel, "subscriber": {"uri": sink}},
        });
        self.create(Resource::Subscription, &self.integration, body).await;
    }

    /// What an older controller made of a namespace.
    async fn leave_sink(&self) {
        let labels = json!({"metadata": {"labels": {names::INJECTION_LABELS[0]: "enabled"}}});
        let place = format!("/api/v1/namespaces/{}", self.namespace);
        self.cluster.call("PATCH", &place, MERGE, Some(&labels)).await;
        until("Knative has made the Broker", || async {
            self.broker().await.is_some_and(|broker| broker.address().is_some())
        })
        .await;
        let policy = json!({
            "metadata": {"name": names::policy(&self.namespace), "labels": {names::BROKER_LABEL: "default"}},
            "spec": {"mtls": {"mode": "PERMISSIVE"}},
        });
        self.create(Resource::PeerAuthentication, &self.namespace, policy).await;
    }

    /// An instance that an older service broker provisioned.
    pub(crate) async fn leave_instance(&self, name: &str) {
        let spec = json!({
            "externalID": format!("id-of-{name}"),
            "serviceClassRef": {"name": "orders-id"},
            "servicePlanRef": {"name": "orders-id-plan"},
        });
        self.create(
            Resource::ServiceInstance,
            &self.namespace,
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
        let instance = self.get(Resource::ServiceInstance, &self.namespace, name).await.expect("it exists");
        knative::set_status(&self.cluster.server, &instance, json!({"provisionStatus": "Provisioned"})).await;
    }

    async fn delivery(&self, name: &str) -> Option<Object> {
        self.get(Resource::Subscription, &self.integration, name).await
    }
}

fn is_ours(object: &Object) -> bool {
    object.label(names::MANAGED_BY) == Some(names::OURS)
}

#[tokio::test]
async fn subscriptions_and_policies_of_an_older_controller_are_taken_over() {
    let shop = Shop::open("adopt").await;
    shop.leave_sink().await;
    shop.leave_subscription("brokersub-a1b2c", "orders-id").await;
    shop.leave_subscription("brokersub-d3e4f", "payments-id").await;
    let name = names::policy(&shop.namespace);
    let policy = || shop.get(Resource::PeerAuthentication, &shop.namespace, &name);
    let uid = |object: Option<Object>| object.expect("it exists").uid().to_owned();
    let before = (uid(shop.broker().await), uid(shop.delivery("brokersub-a1b2c").await), uid(policy().await));
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    shop.until_says("f1", "PolicyReady", "True").await;
    until("the second delivery of every event has ended", || async {
        shop.delivery("brokersub-d3e4f").await.is_none()
    })
    .await;
    let delivery = shop.delivery("brokersub-a1b2c").await.expect("it is taken over");
    assert!(is_ours(&delivery) && is_ours(&policy().await.expect("it is taken over")));
    assert_eq!(
        delivery.json()["spec"]["channel"]["apiVersion"],
        "messaging.knative.dev/v1alpha1",
        "what can never be changed stays as it was"
    );
    let after = (uid(shop.broker().await), uid(Some(delivery)), uid(policy().await));
    assert_eq!(after, before, "nothing was made anew");
    assert!(shop.subscription().await.is_none());
    running.stop().await;
    let again = shop.run();
    again.until_begun(&shop.namespace, "f1").await;
    stays("at rest over a restart", || async { again.counts.total() == 0 }).await;
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    assert!(shop.delivery("brokersub-a1b2c").await.is_none() && policy().await.is_none());
    // The label was set by somebody else too: it stays, and with it the Broker that it asks for.
    let label = async || {
        let namespace = shop.get(Resource::Namespace, "", &shop.namespace).await.expect("it exists");
        namespace.label(names::INJECTION_LABELS[0]).map(str::to_owned)
    };
    assert_eq!(label().await.as_deref(), Some("enabled"));
    assert_eq!(uid(shop.broker().await), before.0, "it is kept");
    let events = format!("/api/v1/namespaces/{}/events", shop.namespace);
    until("it is told why the Broker is kept", || async {
        let told = shop.cluster.call("GET", &events, JSON, None).await;
        told["items"].as_array().is_some_and(|all| all.iter().any(|it| it["reason"] == "Retained"))
    })
    .await;
    // Whoever takes the label off while a flow is there hands it over.
    shop.create_flow("f2", "crm").await;
    shop.until_says("f2", "Ready", "True").await;
    let bare = json!({"metadata": {"labels": {names::INJECTION_LABELS[0]: null}}});
    let place = format!("/api/v1/namespaces/{}", shop.namespace);
    shop.cluster.call("PATCH", &place, MERGE, Some(&bare)).await;
    until("the label is set again", || async { label().await.as_deref() == Some("enabled") }).await;
    shop.delete_flow("f2").await;
    shop.until_gone("f2").await;
    assert_eq!(label().await, None);
    assert!(shop.broker().await.is_none());
    again.stop().await;
}

#[tokio::test]
async fn no_broker_is_deleted_under_an_instance_without_a_flow_and_flows_follow_from_instances() {
    let shop = Shop::open("migrate").await;
    offer(&shop).await;
    shop.leave_instance("old").await;
    shop.leave_subscription("brokersub-a1b2c", "orders-id").await;
    let running = shop.run();
    shop.create_flow("f1", "crm").await;
    shop.until_says("f1", "Ready", "True").await;
    let sink = shop.broker().await.expect("it exists").uid().to_owned();
    shop.delete_flow("f1").await;
    shop.until_gone("f1").await;
    let keeps = || async {
        let broker = shop.broker().await;
        broker.is_some_and(|it| it.uid() == sink && !it.is_deleting())
            && shop.delivery("brokersub-a1b2c").await.is_some()
    };
    stays("the instance that nobody adopted yet has its events", keeps).await;
    // The service broker comes, and adopts.
    let office = Office::open(&shop, Between::open).await;
    shop.until_says("event-flow-old", "Ready", "True").await;
    assert!(keeps().await);
    assert_eq!(office.until_ended("id-of-old").await, "succeeded");
    assert!(shop.get(Resource::EventActivation, &shop.namespace, "orders-id").await.is_some());
    // A flow that is deleted follows from the record.
    let uid = shop.flow("event-flow-old").await.expect("it exists").uid().to_owned();
    shop.delete_flow("event-flow-old").await;
    until("the flow is made again", || async {
        shop.flow("event-flow-old").await.is_some_and(|flow| flow.uid() != uid)
    })
    .await;
    drop(office);
    // Neither flows nor records are in a backup: they follow from the instance.
    let record = format!("/api/v1/namespaces/{}/configmaps/{}", shop.integration, names::record("id-of-old"));
    shop.cluster.call("DELETE", &record, JSON, None).await;
    shop.delete_flow("event-flow-old").await;
    shop.until_gone("event-flow-old").await;
    let office = Office::open(&shop, Between::open).await;
    shop.until_says("event-flow-old", "Ready", "True").await;
    let order = crate::platform::order(&shop.namespace, "old");
    assert_eq!(office.until_ended("id-of-old").await, "succeeded");
    assert_eq!(office.put("id-of-old", &order).await.code, 200, "it is the same order");
    // The platform takes the instance away.
    assert_eq!(office.delete("id-of-old").await.code, 202);
    shop.delete(Resource::ServiceInstance, &shop.namespace, "old").await;
    assert_eq!(office.until_ended("id-of-old").await, "410");
    until("the last flow takes the Broker with it", || async { shop.broker().await.is_none() }).await;
    assert!(shop.delivery("brokersub-a1b2c").await.is_none());
    running.stop().await;
}
