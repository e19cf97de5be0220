//! Where records are kept: one ConfigMap for each instance, in the namespace of the service broker.
//!
//! **Why** in the cluster: what a platform was promised is there before it is answered, whoever of us is killed; and two
//! of us that decide at once are told by the version that one of them was late.

use std::sync::Arc;

use serde_json::json;

use crate::counts::Counts;
use crate::names;
use crate::object::{Id, Object, Resource};
use crate::osb::record::Record;
use crate::request::{Api, Class, Rejected, Request, Sent};
use crate::send::send;

/// The records of a service broker.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) namespace: String,
}

impl Store {
    /// The object that holds the record of an instance.
    pub(crate) fn id(&self, instance: &str) -> Id {
        Id::new(Resource::ConfigMap, self.namespace.as_str(), names::record(instance))
    }

    pub(crate) async fn send(&self, request: Request) -> Result<Sent, Rejected> {
        send(&*self.api, &self.counts, request).await
    }

    /// The record of an instance, with the version of the object that holds it.
    pub(crate) async fn read(&self, instance: &str) -> Result<Option<(Record, String)>, Rejected> {
        match self.send(Request::Read { id: self.id(instance) }).await {
            Ok(Sent::Object(object)) => {
                Ok(record(&object).map(|record| (record, object.version().to_owned())))
            }
            Ok(Sent::Gone) => Ok(None),
            Err(rejected) if rejected.class() == Class::Missing => Ok(None),
            Err(rejected) => Err(rejected),
        }
    }

    /// Writes a record, new or in the place of that version; `None` if somebody was faster.
    pub(crate) async fn write(
        &self,
        record: &Record,
        version: Option<&str>,
    ) -> Result<Option<Sent>, Rejected> {
        let id = self.id(&record.instance);
        let text = serde_json::to_string(record).unwrap_or_default();
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": id.name, "namespace": id.namespace, "labels": {names::RECORD_LABEL: "instance"}},
            "data": {"record": text},
        });
        let request = match version {
            Some(version) => {
                body["metadata"]["resourceVersion"] = version.into();
                Request::Replace { id, body }
            }
            None => Request::Create { id, body },
        };
        match self.send(request).await {
            Ok(sent) => Ok(Some(sent)),
            Err(rejected) if matches!(rejected.class(), Class::Conflict | Class::Missing) => Ok(None),
            Err(rejected) => Err(rejected),
        }
    }
}

/// The record that an object holds.
pub(crate) fn record(object: &Object) -> Option<Record> {
    serde_json::from_str(object.json()["data"]["record"].as_str()?).ok()
}
