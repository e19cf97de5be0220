//! Leading: of several controllers one acts, the one that holds the lease.
//!
//! Time is measured by what we see change, never by what others write: their clocks may be wrong.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::client::Server;
use crate::request::{Class, Rejected};

/// How long a lease lasts that nobody renews, unless something else is said.
const LASTS: Duration = Duration::from_secs(15);

/// The right to act.
pub struct Lease {
    server: Server,
    namespace: String,
    name: String,
    /// Who we are.
    identity: String,
    /// How long it lasts if nobody renews it.
    lasts: Duration,
    /// What we saw last, and when that was new.
    seen: Option<(String, Instant)>,
    /// When we began to renew it the last time that this went well.
    renewed: Instant,
}

impl Lease {
    /// The lease of this name in a namespace, not yet held.
    pub fn new(server: Server, namespace: &str, name: &str, identity: &str) -> Self {
        let text = str::to_owned;
        Self {
            server,
            namespace: text(namespace),
            name: text(name),
            identity: text(identity),
            lasts: LASTS,
            seen: None,
            renewed: Instant::now(),
        }
    }

    /// The same lease, lasting for another time. Everybody who shares it has to say the same.
    pub fn lasting(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    fn folder(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.folder(), self.name)
    }

    /// Waits until the lease is ours.
    pub async fn take(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(rejected) => tracing::warn!("failed to take the lease: {rejected}"),
            }
            tokio::time::sleep(self.lasts / 8).await;
        }
    }

    /// Renews the lease; ends when it is lost, or when it was not renewed for two thirds of its time.
    ///
    /// **Guarantees** that it has ended before anybody else takes it, however long the server lets us wait.
    pub async fn keep(&mut self) {
        loop {
            tokio::time::sleep(self.lasts / 3).await;
            let latest = self.renewed + self.lasts * 2 / 3;
            match tokio::time::timeout_at(latest, self.attempt()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) | Err(_) => return,
                Ok(Err(rejected)) => tracing::warn!("failed to renew the lease: {rejected}"),
            }
        }
    }

    /// Takes or renews the lease; whether it is ours.
    async fn attempt(&mut self) -> Result<bool, Rejected> {
        let begun = Instant::now();
        self.server.count("lease");
        let is_ours = self.write().await?;
        if is_ours {
            self.renewed = begun;
        }
        Ok(is_ours)
    }

    async fn write(&mut self) -> Result<bool, Rejected> {
        let known = match self.server.call("GET", &self.path(), JSON, None).await {
            Ok(known) => known,
            Err(rejected) if rejected.class() == Class::Missing => {
                let body = self.body(None);
                return won(self.server.call("POST", &self.folder(), JSON, Some(&body)).await);
            }
            Err(rejected) => return Err(rejected),
        };
        let holder = known["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && !self.has_lapsed(&known) {
            return Ok(false);
        }
        let body = self.body(Some(&known));
        won(self.server.call("PUT", &self.path(), JSON, Some(&body)).await)
    }

    /// Whether nobody has touched the lease for as long as it lasts, as far as we saw.
    fn has_lapsed(&mut self, known: &Json) -> bool {
        let version = known["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if seen == version => since.elapsed() >= self.lasts,
            _ => {
                self.seen = Some((version.to_owned(), Instant::now()));
                false
            }
        }
    }

    fn body(&self, known: Option<&Json>) -> Json {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let mut body = known.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": {"leaseTransitions": 0},
            })
        });
        let spec = &mut body["spec"];
        if spec["holderIdentity"].as_str() != Some(&self.identity) {
            let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
            spec["leaseTransitions"] = (transitions + i64::from(known.is_some())).into();
            spec["acquireTime"] = now.clone().into();
            spec["holderIdentity"] = self.identity.clone().into();
        }
        spec["leaseDurationSeconds"] = self.lasts.as_secs().max(1).into();
        spec["renewTime"] = now.into();
        body
    }

    /// Gives the lease up, so that nobody has to wait for it.
    pub async fn give_up(&mut self) {
        let Ok(mut known) = self.server.call("GET", &self.path(), JSON, None).await else { return };
        if known["spec"]["holderIdentity"].as_str() == Some(&self.identity) {
            known["spec"]["holderIdentity"] = "".into();
            if let Err(rejected) = self.server.call("PUT", &self.path(), JSON, Some(&known)).await {
                tracing::warn!("failed to give up the lease: {rejected}");
            }
        }
    }
}

const JSON: &str = "application/json";

/// Whether a write of the lease was the first.
fn won(written: Result<Json, Rejected>) -> Result<bool, Rejected> {
    match written {
        Ok(_) => Ok(true),
        Err(rejected) if rejected.class() == Class::Conflict => Ok(false),
        Err(rejected) => Err(rejected),
    }
}
