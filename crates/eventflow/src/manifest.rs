//! What is installed in a cluster: the definition of `EventFlow`, and the controller and the service broker with their
//! rights.

use serde_json::{Value as Json, json};

use crate::names;
use crate::object::Resource;

/// What can be chosen about an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The namespace in which both run.
    pub namespace: String,
    /// The image that holds `kilter`.
    pub image: String,
    /// How many copies of each run; one of them leads.
    pub replicas: u32,
}

impl Default for Installation {
    fn default() -> Self {
        Self { namespace: "kilter-system".to_owned(), image: "kilter:latest".to_owned(), replicas: 2 }
    }
}

/// Why a manifest could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to write a manifest as YAML")]
pub struct WriteError(#[from] serde_saphyr::ser::Error);

/// Everything that is installed, in order.
pub fn manifests(installation: &Installation) -> Vec<Json> {
    let Installation { namespace, .. } = installation;
    let meta = json!({"name": namespace, "labels": labels(names::OURS)});
    let mut all = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}), definition()];
    all.extend(controller(namespace).manifests(installation));
    all.extend(broker(namespace).manifests(installation));
    all.push(service(namespace));
    all
}

/// Manifests as one stream of YAML documents.
pub fn to_yaml(manifests: &[Json]) -> Result<String, WriteError> {
    let mut text = String::new();
    for manifest in manifests {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(manifest)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn labels(name: &str) -> Json {
    json!({"app.kubernetes.io/name": name})
}

fn meta(name: &str, namespace: Option<&str>) -> Json {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace, "labels": labels(name)}),
        None => json!({"name": name, "labels": labels(name)}),
    }
}

/// The definition of `EventFlow`. The source of a flow cannot be changed: its subscription would have to move.
pub fn definition() -> Json {
    let flow = Resource::EventFlow;
    let text = |description: &str| json!({"type": "string", "description": description});
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": text("What the condition is about."),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "severity": text("Info if the condition does not decide about Ready."),
            "reason": text("Why, in one word."),
            "message": text("Why, for people."),
            "lastTransitionTime": {"type": "string", "description": "When its status last changed."},
        },
    });
    let conditions = json!({
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    });
    let source = json!({
        "type": "string",
        "minLength": 1,
        // It is the value of labels, and a part of names.
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        "description": "The application whose events are wanted.",
        "x-kubernetes-validations":
            [{"rule": "self == oldSelf", "message": "the source of a flow cannot be changed"}],
    });
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "required": ["source"], "properties": {"source": source}},
            "status": {
                "type": "object",
                "properties": {
                    "SinkURI": text("Where the events of the flow go."),
                    "conditions": conditions,
                    "observedGeneration": {"type": "integer", "format": "int64"},
                },
            },
        },
    });
    let ready = |field: &str| format!(".status.conditions[?(@.type==\"Ready\")].{field}");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": flow.definition()},
        "spec": {
            "group": flow.group(),
            "scope": "Namespaced",
            "names": {
                "kind": flow.kind(),
                "plural": flow.plural(),
                "singular": "eventflow",
                "shortNames": ["ef"],
            },
            "versions": [{
                "name": flow.version(),
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    column("Source", ".spec.source"),
                    column("Ready", &ready("status")),
                    column("Reason", &ready("reason")),
                ],
            }],
        },
    })
}

fn rule(resources: &[Resource], suffix: &str, verbs: &[&str]) -> Vec<Json> {
    let each = resources.iter().map(|resource| {
        let name = format!("{}{suffix}", resource.plural());
        json!({"apiGroups": [resource.group()], "resources": [name], "verbs": verbs})
    });
    each.collect()
}

/// A program that runs in the cluster, with an account of its own.
struct Part {
    name: &'static str,
    /// What it may do anywhere.
    rules: Vec<Json>,
    /// What it may do in its own namespace.
    local: Vec<Json>,
    /// How it is started.
    arguments: Json,
    /// Secrets that it reads, by where they are mounted.
    secrets: &'static [(&'static str, &'static str)],
}

const ROLES: &str = "rbac.authorization.k8s.io";

/// The lease that copies share.
fn leases() -> Json {
    let verbs = ["get", "create", "update"];
    json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs})
}

/// The controller: reads what it watches, writes what it keeps, and nothing else.
fn controller(namespace: &str) -> Part {
    let mut rules = rule(&Resource::ALL, "", &["get", "list", "watch"]);
    rules.extend(rule(&[Resource::EventFlow, Resource::Namespace], "", &["patch"]));
    rules.extend(rule(&[Resource::EventFlow], "/status", &["patch"]));
    rules.push(json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}));
    let kept = [Resource::Broker, Resource::Subscription, Resource::Policy, Resource::PeerAuthentication];
    rules.extend(rule(&kept, "", &["create", "patch", "delete"]));
    Part {
        name: names::OURS,
        rules,
        local: vec![leases()],
        arguments: json!(["eventflow", "run", "--lease-namespace", namespace, "--listen", "0.0.0.0:9157"]),
        secrets: &[],
    }
}

/// The service broker: makes flows and activations, and keeps records in its own namespace.
fn broker(namespace: &str) -> Part {
    let made = [Resource::EventFlow, Resource::EventActivation];
    let read = [Resource::Definition, Resource::Application, Resource::ServiceInstance];
    let mut rules = rule(&read, "", &["get", "list", "watch"]);
    rules.extend(rule(&made, "", &["get", "list", "watch", "create", "patch", "delete"]));
    let kept = ["get", "list", "watch", "create", "update", "delete"];
    let mut local = rule(&[Resource::ConfigMap], "", &kept);
    local.push(leases());
    let place = ["--listen", "0.0.0.0:8080", "--credentials", "/etc/kilter-platform/credentials"];
    let mut arguments = vec!["eventflow", "broker", "--namespace", namespace, "--lease-namespace", namespace];
    arguments.extend(place);
    Part {
        name: names::SERVICE_BROKER,
        rules,
        local,
        arguments: json!(arguments),
        secrets: &[(names::SERVICE_BROKER, "/etc/kilter-platform")],
    }
}

/// Where platforms find the service broker.
fn service(namespace: &str) -> Json {
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(names::SERVICE_BROKER, Some(namespace)),
        "spec": {"selector": labels(names::SERVICE_BROKER), "ports": ports},
    })
}

impl Part {
    fn manifests(&self, installation: &Installation) -> Vec<Json> {
        let here = Some(installation.namespace.as_str());
        vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(self.name, here)}),
            self.role("ClusterRole", None, &self.rules),
            self.binding("ClusterRole", None, &installation.namespace),
            self.role("Role", here, &self.local),
            self.binding("Role", here, &installation.namespace),
            self.deployment(installation),
        ]
    }

    fn role(&self, kind: &str, of: Option<&str>, rules: &[Json]) -> Json {
        let version = format!("{ROLES}/v1");
        json!({"apiVersion": version, "kind": kind, "metadata": meta(self.name, of), "rules": rules})
    }

    fn binding(&self, role: &str, of: Option<&str>, namespace: &str) -> Json {
        json!({
            "apiVersion": format!("{ROLES}/v1"),
            "kind": format!("{role}Binding"),
            "metadata": meta(self.name, of),
            "roleRef": {"apiGroup": ROLES, "kind": role, "name": self.name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": namespace}],
        })
    }

    fn deployment(&self, installation: &Installation) -> Json {
        let Installation { namespace, image, replicas } = installation;
        let mount = |(name, path): &(&str, &str)| json!({"name": name, "mountPath": path, "readOnly": true});
        let volume = |(name, _): &(&str, &str)| json!({"name": name, "secret": {"secretName": name}});
        let container = json!({
            "name": self.name,
            "image": image,
            "args": self.arguments,
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": self.secrets.iter().map(mount).collect::<Vec<_>>(),
        });
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta(self.name, Some(namespace)),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels(self.name)},
                "template": {
                    "metadata": {"labels": labels(self.name)},
                    "spec": {
                        "serviceAccountName": self.name,
                        "containers": [container],
                        "volumes": self.secrets.iter().map(volume).collect::<Vec<_>>(),
                    },
                },
            },
        })
    }
}
