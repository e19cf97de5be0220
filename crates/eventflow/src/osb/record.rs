//! What is known about one service instance, and what was promised about it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// How far an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It is being made.
    Provisioning,
    /// It is there.
    Provisioned,
    /// It could not be made; nothing of it is left.
    ProvisionFailed,
    /// It is being removed.
    Deprovisioning,
    /// It could not be removed.
    DeprovisionFailed,
    /// It is gone, and remembered for a while.
    Deprovisioned,
}

impl Stage {
    /// Its name where it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::ProvisionFailed => "provision-failed",
            Self::Deprovisioning => "deprovisioning",
            Self::DeprovisionFailed => "deprovision-failed",
            Self::Deprovisioned => "deprovisioned",
        }
    }

    /// Whether an operation is under way.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Provisioning | Self::Deprovisioning)
    }
}

/// What was asked for: two requests that are equal here are the same request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The service.
    pub service_id: String,
    /// Its plan.
    pub plan_id: String,
    /// The organization of the platform.
    pub organization_guid: String,
    /// The space of the platform.
    pub space_guid: String,
    /// The namespace that the events are for.
    pub namespace: String,
    /// Parameters.
    #[serde(default)]
    pub parameters: Map<String, Json>,
}

impl Asked {
    /// Whether somebody who asks for `other` asks for the same. Of an instance that was adopted, nobody told us its
    /// organization and its space.
    pub fn is_same(&self, other: &Self) -> bool {
        let agree = |own: &str, other: &str| own.is_empty() || own == other;
        agree(&self.organization_guid, &other.organization_guid)
            && agree(&self.space_guid, &other.space_guid)
            && (&self.service_id, &self.plan_id, &self.namespace, &self.parameters)
                == (&other.service_id, &other.plan_id, &other.namespace, &other.parameters)
    }
}

/// The record of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its identity, as the platform gave it.
    pub instance: String,
    /// What was asked for.
    pub asked: Asked,
    /// The name that the platform shows.
    pub name: String,
    /// The application whose events it wants.
    pub source: String,
    /// What the service is called.
    pub title: String,
    /// Who asked for it, as the platform told.
    #[serde(default)]
    pub originator: Option<Json>,
    /// How far it is.
    pub stage: Stage,
    /// The last operation.
    pub operation: String,
    /// Counts the operations.
    pub operations: u64,
    /// What there is to say about the last operation.
    #[serde(default)]
    pub description: String,
    /// When the stage began: seconds since 1970.
    pub since: u64,
    /// Why it cannot be made: what was made of it is taken back, and then it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doomed: Option<String>,
    /// Why the last attempt to go on with it failed; it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitch: Option<String>,
}

impl Record {
    /// Goes on to another stage with an operation of its own.
    pub fn begin(&mut self, stage: Stage, now: u64) {
        self.operations += 1;
        let verb = if stage == Stage::Deprovisioning { "deprovision" } else { "provision" };
        self.operation = format!("{verb}-{}", self.operations);
        self.stage = stage;
        self.description = String::new();
        self.doomed = None;
        self.hitch = None;
        self.since = now;
    }

    /// Ends the operation.
    pub fn end(&mut self, stage: Stage, description: impl Into<String>, now: u64) {
        self.stage = stage;
        self.description = description.into();
        self.doomed = None;
        self.hitch = None;
        self.since = now;
    }
}
