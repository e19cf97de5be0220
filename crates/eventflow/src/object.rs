//! Objects of the cluster: which resources there are, how an object is named, and the few fields that are read of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// A resource of the cluster that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Resource {
    /// `CustomResourceDefinition`.
    Definition,
    /// `Namespace`.
    Namespace,
    /// `EventFlow`, the composite.
    EventFlow,
    /// `EventActivation`, what makes an application's events visible in a namespace.
    EventActivation,
    /// Knative `Broker`: the sink.
    Broker,
    /// Knative `Trigger`: who reads from a Broker.
    Trigger,
    /// Knative `Channel`: where the events of a source come out.
    Channel,
    /// Knative `Subscription`: carries events from a Channel to a Broker.
    Subscription,
    /// Knative `Service`: the adapter of a source.
    Source,
    /// Istio's `Policy`, for meshes of its day.
    Policy,
    /// Istio's `PeerAuthentication`, its successor.
    PeerAuthentication,
    /// `Application`: what offers services.
    Application,
    /// `ServiceInstance`: what a user ordered.
    ServiceInstance,
    /// `ConfigMap`: holds a record of the service broker.
    ConfigMap,
}

/// Where a resource is found in the API.
struct Place {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

impl Resource {
    /// Every resource that the controller watches, in the order in which the lists are read.
    pub const ALL: [Self; 13] = [
        Self::Definition,
        Self::Namespace,
        Self::EventFlow,
        Self::EventActivation,
        Self::Broker,
        Self::Trigger,
        Self::Channel,
        Self::Subscription,
        Self::Source,
        Self::Policy,
        Self::PeerAuthentication,
        Self::Application,
        Self::ServiceInstance,
    ];

    fn place(self) -> Place {
        let (group, version, kind, plural) = match self {
            Self::Definition => {
                ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
            }
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::EventFlow => ("eventing.kyma-project.io", "v1alpha1", "EventFlow", "eventflows"),
            Self::EventActivation => {
                ("applicationconnector.kyma-project.io", "v1alpha1", "EventActivation", "eventactivations")
            }
            Self::Broker => ("eventing.knative.dev", "v1", "Broker", "brokers"),
            Self::Trigger => ("eventing.knative.dev", "v1", "Trigger", "triggers"),
            Self::Channel => ("messaging.knative.dev", "v1", "Channel", "channels"),
            Self::Subscription => ("messaging.knative.dev", "v1", "Subscription", "subscriptions"),
            Self::Source => ("serving.knative.dev", "v1", "Service", "services"),
            Self::Policy => ("authentication.istio.io", "v1alpha1", "Policy", "policies"),
            Self::PeerAuthentication => {
                ("security.istio.io", "v1", "PeerAuthentication", "peerauthentications")
            }
            Self::Application => {
                ("applicationconnector.kyma-project.io", "v1alpha1", "Application", "applications")
            }
            Self::ServiceInstance => {
                ("servicecatalog.k8s.io", "v1beta1", "ServiceInstance", "serviceinstances")
            }
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
        };
        Place { group, version, kind, plural }
    }

    /// Its API group; empty for the core.
    pub fn group(self) -> &'static str {
        self.place().group
    }

    /// The version of the group.
    pub fn version(self) -> &'static str {
        self.place().version
    }

    /// What one of them is called.
    pub fn kind(self) -> &'static str {
        self.place().kind
    }

    /// What many of them are called.
    pub fn plural(self) -> &'static str {
        self.place().plural
    }

    /// Group and version, as objects say them.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// The name of the definition that installs it; `None` for what every cluster has.
    pub fn definition(self) -> Option<String> {
        match self {
            Self::Definition | Self::Namespace | Self::ConfigMap => None,
            Self::EventFlow
            | Self::EventActivation
            | Self::Broker
            | Self::Trigger
            | Self::Channel
            | Self::Subscription
            | Self::Source
            | Self::Policy
            | Self::PeerAuthentication
            | Self::Application
            | Self::ServiceInstance => Some(format!("{}.{}", self.plural(), self.group())),
        }
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Definition | Self::Namespace | Self::Application)
    }
}

/// Names an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id {
    /// Of which resource it is.
    pub resource: Resource,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Id {
    /// Names an object in a namespace.
    pub fn new(resource: Resource, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.resource.kind();
        match self.namespace.as_str() {
            "" => write!(f, "{kind} {}", self.name),
            namespace => write!(f, "{kind} {namespace}/{}", self.name),
        }
    }
}

/// How an object stands, as its `Ready` condition tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// `True`, `False` or anything else for unknown.
    pub status: Option<bool>,
    /// The reason it gives.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// An object of the cluster. Cloning is cheap: the content is shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    id: Id,
    content: Arc<Json>,
    /// Who else wrote it last.
    rival: Option<Arc<str>>,
    /// Under which of our names we own fields of it.
    ours: BTreeSet<Arc<str>>,
}

impl Object {
    /// An object out of its JSON. Of who owns which field, only our own names and the last one who is not us are kept.
    pub fn new(resource: Resource, mut content: Json) -> Self {
        let owners = &content["metadata"]["managedFields"];
        let (rival, ours) = (rival(owners), ours(owners));
        if let Some(meta) = content.get_mut("metadata").and_then(Json::as_object_mut) {
            meta.remove("managedFields");
        }
        let text = |field: &str| content["metadata"][field].as_str().unwrap_or_default().to_owned();
        let id = Id { resource, namespace: text("namespace"), name: text("name") };
        Self { id, content: Arc::new(content), rival, ours }
    }

    /// Its name.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The whole content.
    pub fn json(&self) -> &Json {
        &self.content
    }

    /// Who else wrote it last, if the cluster tells.
    pub fn rival(&self) -> Option<&str> {
        self.rival.as_deref()
    }

    /// Whether we own fields of it under this name.
    pub fn is_owned_by(&self, owner: &str) -> bool {
        self.ours.contains(owner)
    }

    fn meta(&self, field: &str) -> &Json {
        &self.content["metadata"][field]
    }

    /// The identity that no other object ever has.
    pub fn uid(&self) -> &str {
        self.meta("uid").as_str().unwrap_or_default()
    }

    /// The version of its content.
    pub fn version(&self) -> &str {
        self.meta("resourceVersion").as_str().unwrap_or_default()
    }

    /// Counts the changes of what is asked of it.
    pub fn generation(&self) -> i64 {
        self.meta("generation").as_i64().unwrap_or_default()
    }

    /// Whether it is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.meta("deletionTimestamp").is_string()
    }

    /// Who must let go of it before it is gone.
    pub fn finalizers(&self) -> BTreeSet<&str> {
        self.meta("finalizers").as_array().into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// One of its labels.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.meta("labels")[name].as_str()
    }

    /// Its annotations.
    pub fn annotations(&self) -> Option<&Map<String, Json>> {
        self.meta("annotations").as_object()
    }

    /// One of its annotations.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.meta("annotations")[name].as_str()
    }

    /// Where events for it are sent, once it says so.
    pub fn address(&self) -> Option<&str> {
        self.content["status"]["address"]["url"].as_str().filter(|url| !url.is_empty())
    }

    /// How it stands, if it has looked at what is asked of it at present; `None` if it says nothing yet.
    pub fn readiness(&self) -> Option<Readiness> {
        let ready = self.condition("Ready")?;
        let seen = self.content["status"]["observedGeneration"].as_i64();
        if seen.is_some_and(|seen| seen < self.generation()) {
            let message = "it has not looked at its latest change yet".to_owned();
            return Some(Readiness { status: None, reason: "AwaitingStatus".to_owned(), message });
        }
        Some(ready)
    }

    /// One of its conditions.
    pub fn condition(&self, name: &str) -> Option<Readiness> {
        let conditions = self.content["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|condition| condition["type"] == name)?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        let status = match found["status"].as_str() {
            Some("True") => Some(true),
            Some("False") => Some(false),
            _ => None,
        };
        Some(Readiness { status, reason: text("reason"), message: text("message") })
    }
}

/// Our own names among those who own fields.
fn ours(owners: &Json) -> BTreeSet<Arc<str>> {
    let names = owners.as_array().into_iter().flatten().filter_map(|entry| entry["manager"].as_str());
    names.filter(|name| name.starts_with(crate::names::OURS)).map(Arc::from).collect()
}

/// The one who last wrote a field and is not us. Times are written so that their texts are in order.
fn rival(owners: &Json) -> Option<Arc<str>> {
    let others = owners.as_array()?.iter().filter_map(|entry| {
        let name = entry["manager"].as_str().filter(|name| !name.starts_with(crate::names::OURS))?;
        Some((entry["time"].as_str().unwrap_or_default(), name))
    });
    others.max().map(|(_, name)| name.into())
}
