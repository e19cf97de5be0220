//! Names and marks that others see: finalizers, labels, annotations, names of objects.

/// Our finalizer on an EventFlow.
pub const FINALIZER: &str = "eventing.kyma-project.io/event-flow-controller";

/// The finalizer of the proposal, which is not qualified: it is honoured, and never set.
pub const BARE_FINALIZER: &str = "event-flow-controller";

/// The labels on a namespace on which Knative makes its Broker: the first one is that of its early releases.
pub const INJECTION_LABELS: [&str; 2] = ["knative-eventing-injection", "eventing.knative.dev/injection"];

/// The value of the injection labels.
pub const ENABLED: &str = "enabled";

/// What marks a Broker that Knative made because of the label: no user did.
pub const INJECTED_LABEL: &str = "eventing.knative.dev/namespaceInjected";

/// The label that says who keeps an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// What that label says on our objects.
pub const OURS: &str = "kilter-eventflow";

/// The label on a record of the service broker.
pub const RECORD_LABEL: &str = "eventing.kyma-project.io/record";

/// The annotation on an EventFlow that names the service instance that it was made for.
pub const INSTANCE_ANNOTATION: &str = "eventing.kyma-project.io/instance";

/// The name of the service broker in a cluster.
pub const SERVICE_BROKER: &str = "kilter-eventflow-broker";

/// The annotation on a Broker with which a flow claims it; the name of the flow follows. It changes the version of the
/// Broker, so that whoever decided to delete it before the claim fails.
pub const CLAIM_PREFIX: &str = "claim.eventing.kyma-project.io/";

/// The label on a Channel that names its source, and on a Subscription too.
pub const APPLICATION_LABEL: &str = "application-name";

/// The label on a Subscription that names the namespace of its Broker.
pub const BROKER_NAMESPACE_LABEL: &str = "broker-namespace";

/// What the name of a Subscription to a source begins with, whoever made it.
pub const SUBSCRIPTION_PREFIX: &str = "brokersub-";

/// The label on what belongs to a Broker.
pub const BROKER_LABEL: &str = "eventing.knative.dev/broker";

/// The name of the shared Broker.
pub const DEFAULT: &str = "default";

/// The name of the Subscription of a namespace to a source: the same for ever, whatever their lengths.
pub fn subscription(namespace: &str, source: &str) -> String {
    format!("{SUBSCRIPTION_PREFIX}{}", digest(&format!("{namespace}/{source}")))
}

/// The name of the policy of a namespace.
pub fn policy(namespace: &str) -> String {
    shortened(&format!("{namespace}-broker"))
}

/// The name of the EventFlow of a service instance.
pub fn flow(instance: &str) -> String {
    shortened(&format!("event-flow-{instance}"))
}

/// The name of the record of a service instance: identities may hold letters that names may not.
pub fn record(instance: &str) -> String {
    format!("service-instance-{}", digest(instance))
}

/// The annotation with which a flow claims a Broker. The part after the slash has at most 63 letters.
pub fn claim(flow: &str) -> String {
    if flow.len() <= 63 {
        return format!("{CLAIM_PREFIX}{flow}");
    }
    format!(
        "{CLAIM_PREFIX}{}-{}",
        flow[..flow.floor_char_boundary(40)].trim_end_matches(['-', '.']),
        digest(flow)
    )
}

/// A name that fits into 253 letters: what is longer is cut and gets a digest of the whole.
fn shortened(name: &str) -> String {
    if name.len() <= 253 {
        return name.to_owned();
    }
    format!("{}-{}", name[..name.floor_char_boundary(236)].trim_end_matches(['-', '.']), digest(name))
}

/// A few letters that stand for a text.
pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_distinct_and_legal() {
        let (one, other) = ("a".repeat(253), format!("{}b", "a".repeat(252)));
        assert_ne!(flow(&one), flow(&other));
        assert!(flow(&one).len() <= 253);
        assert_eq!(flow("orders"), "event-flow-orders");
        assert!(claim(&flow(&one)).len() <= CLAIM_PREFIX.len() + 63);
        assert_ne!(claim(&flow(&one)), claim(&flow(&other)));
    }

    #[test]
    fn a_subscription_is_named_by_namespace_and_source() {
        assert_eq!(subscription("shop", "crm"), subscription("shop", "crm"));
        assert_ne!(subscription("shop", "crm"), subscription("shopc", "rm"));
    }
}
