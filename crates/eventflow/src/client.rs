//! The cluster over HTTP: sends requests, lists and watches.
//!
//! Decided here: how a request becomes a call of the API, and what its answer means. Everything is JSON with the few
//! fields that we read; there are no generated types.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{AsyncBufRead, FutureExt as _};
use kube::client::Client;
use kube::core::Status;
use serde_json::{Value as Json, json};

use crate::counts::Counts;
use crate::object::{Id, Object, Resource};
use crate::request::{Api, Class, Rejected, Request, Sent};
use crate::watch::Extent;

/// The field owner of everything in a status: another one than that of specs, so that old servers keep both.
const STATUS_OWNER: &str = "kilter-eventflow-status";

/// How long a request may take; one that is overdue is tried again as any that failed.
const DEADLINE: Duration = Duration::from_secs(15);

/// A cluster that is reached over its API server.
#[derive(Clone)]
pub struct Server {
    client: Client,
    counts: Arc<Counts>,
}

/// What a list says.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) objects: Vec<Object>,
    pub(crate) version: String,
}

/// Why a cluster could not be found.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a service account says where it is.
    #[error("failed to find the cluster, hint: set KUBECONFIG, or run inside of it")]
    Unknown(#[source] Box<kube::config::InferConfigError>),
    /// What says where it is cannot be used.
    #[error("failed to make a client of the cluster")]
    Unusable(#[source] Box<kube::Error>),
}

impl Server {
    /// The cluster that a kubeconfig names, or the one that we run in.
    pub async fn connect() -> Result<Self, ConnectError> {
        let config = kube::Config::infer().await.map_err(|error| ConnectError::Unknown(Box::new(error)))?;
        let client = Client::try_from(config).map_err(|error| ConnectError::Unusable(Box::new(error)))?;
        Ok(Self::new(client))
    }

    /// A cluster behind a client.
    pub fn new(client: Client) -> Self {
        Self { client, counts: Arc::default() }
    }

    /// The same cluster, with its lists and watches counted there.
    #[must_use]
    pub fn counted(self, counts: &Arc<Counts>) -> Self {
        Self { counts: Arc::clone(counts), ..self }
    }

    pub(crate) fn count(&self, verb: &'static str) {
        self.counts.kept_up(verb);
    }

    /// Calls a path of the API with a body of this type; the answer is JSON.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Json>,
    ) -> Result<Json, Rejected> {
        let request = http(method, path, content_type, body)?;
        let answer = tokio::time::timeout(DEADLINE, self.client.request::<Json>(request)).await;
        answer.map_err(|_| unanswered("no answer in time"))?.map_err(|error| rejection(&error))
    }

    /// Everything of a resource; nothing if it is not installed.
    pub async fn all(&self, resource: Resource) -> Result<Vec<Object>, Rejected> {
        match self.list(&Extent::from(resource)).await {
            Ok(list) => Ok(list.objects),
            Err(rejected) if rejected.class() == Class::NotInstalled => Ok(Vec::new()),
            Err(rejected) => Err(rejected),
        }
    }

    /// Everything of an extent.
    pub(crate) async fn list(&self, extent: &Extent) -> Result<List, Rejected> {
        let resource = extent.resource;
        let mut list = List { objects: Vec::new(), version: String::new() };
        let mut next = String::new();
        loop {
            let path =
                format!("{}?limit=500{}{next}", collection(resource, &extent.namespace), extent.selector());
            self.count("list");
            let page = self.call("GET", &path, JSON, None).await?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            list.objects.extend(items.into_iter().map(|item| Object::new(resource, item)));
            let meta = &page["metadata"];
            list.version = meta["resourceVersion"].as_str().unwrap_or_default().to_owned();
            match meta["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => next = format!("&continue={}", escape(token)),
                None => return Ok(list),
            }
        }
    }

    /// The changes of an extent after a version, one line of JSON each, until the server ends it.
    pub(crate) async fn watch(
        &self,
        extent: &Extent,
        version: &str,
    ) -> Result<impl AsyncBufRead + Unpin + use<>, Rejected> {
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion={}{}",
            collection(extent.resource, &extent.namespace),
            escape(version),
            extent.selector()
        );
        let request = http("GET", &path, JSON, None)?;
        self.count("watch");
        let stream = tokio::time::timeout(DEADLINE, self.client.request_stream(request)).await;
        let stream =
            stream.map_err(|_| unanswered("no answer in time"))?.map_err(|error| rejection(&error))?;
        Ok(Box::pin(stream))
    }

    async fn carry_out(&self, request: Request) -> Result<Sent, Rejected> {
        let resource = request.id().resource;
        let answer = match request {
            Request::Apply { id, owner, body } => {
                let path = format!("{}?fieldManager={owner}&force=true", place(&id));
                self.call("PATCH", &path, APPLY, Some(&body)).await?
            }
            Request::Status { id, body } => {
                let path = format!("{}/status?fieldManager={STATUS_OWNER}&force=true", place(&id));
                self.call("PATCH", &path, APPLY, Some(&body)).await?
            }
            Request::Patch { id, owner, patch } => {
                let path = format!("{}?fieldManager={owner}", place(&id));
                self.call("PATCH", &path, MERGE, Some(&patch)).await?
            }
            Request::Delete { id, uid, version } => {
                let preconditions = json!({"uid": uid, "resourceVersion": version});
                let body = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": "Background",
                    "preconditions": preconditions,
                });
                self.call("DELETE", &place(&id), JSON, Some(&body)).await?
            }
            Request::Create { id, body } => {
                self.call("POST", &collection(resource, &id.namespace), JSON, Some(&body)).await?
            }
            Request::Replace { id, body } => self.call("PUT", &place(&id), JSON, Some(&body)).await?,
            Request::Announce { id, body } => {
                let events = format!("/api/v1/namespaces/{}/events", escape(&id.namespace));
                self.call("POST", &events, JSON, Some(&body)).await?;
                return Ok(Sent::Gone);
            }
            Request::Read { id } => self.call("GET", &place(&id), JSON, None).await?,
        };
        // The answer to a deletion is the object while finalizers hold it, and a status once it is gone.
        if answer["kind"] == "Status" {
            return Ok(Sent::Gone);
        }
        Ok(Sent::Object(Object::new(resource, answer)))
    }
}

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

impl Api for Server {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Sent, Rejected>> {
        self.carry_out(request).boxed()
    }
}

/// The path of a resource, in a namespace or in all of them.
pub fn collection(resource: Resource, namespace: &str) -> String {
    let root = match resource.group() {
        "" => format!("/api/{}", resource.version()),
        group => format!("/apis/{group}/{}", resource.version()),
    };
    match namespace {
        "" => format!("{root}/{}", resource.plural()),
        namespace => format!("{root}/namespaces/{}/{}", escape(namespace), resource.plural()),
    }
}

fn place(id: &Id) -> String {
    format!("{}/{}", collection(id.resource, &id.namespace), escape(&id.name))
}

/// A text as a part of a path or of a query.
pub(crate) fn escape(text: &str) -> String {
    let keeps = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let escaped = text
        .bytes()
        .map(|byte| if keeps(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    escaped.collect()
}

fn http(
    method: &str,
    path: &str,
    content_type: &str,
    body: Option<&Json>,
) -> Result<http::Request<Vec<u8>>, Rejected> {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("accept", "application/json")
        .body(bytes)
        .map_err(|error| unanswered(&error.to_string()))
}

fn unanswered(message: &str) -> Rejected {
    Rejected { message: message.to_owned(), ..Rejected::default() }
}

/// What the server said, or why it said nothing.
fn rejection(error: &kube::Error) -> Rejected {
    let kube::Error::Api(status) = error else { return unanswered(&kilter_southbound::flatten(error)) };
    of_status(status)
}

fn of_status(status: &Status) -> Rejected {
    let details = status.details.as_ref();
    let causes = details.into_iter().flat_map(|details| &details.causes);
    let after = details.map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    // The reason that the client makes up for an answer that is not one of the API is not one.
    let is_made_up = status.reason.contains(' ');
    Rejected {
        code: status.code,
        reason: if is_made_up { String::new() } else { status.reason.clone() },
        message: status.message.clone(),
        causes: causes.map(|cause| cause.reason.clone()).collect(),
        retry_after: after.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_version_namespace_and_name() {
        let id = Id::new(Resource::Broker, "shop", "default");
        assert_eq!(place(&id), "/apis/eventing.knative.dev/v1/namespaces/shop/brokers/default");
        assert_eq!(place(&Id::new(Resource::Namespace, "", "shop")), "/api/v1/namespaces/shop");
        assert_eq!(escape("a b/c="), "a%20b%2Fc%3D");
    }
}
