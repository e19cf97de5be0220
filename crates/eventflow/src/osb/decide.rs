//! Who may ask what when: the table of idempotency and concurrency, as pure functions of the record.
//!
//! A rejection of the 4xx kind leaves everything as it is, so that no platform has to clean up after it. A deletion is
//! taken at every stage: a platform that does not know what became of its request deletes.

use crate::osb::record::{Asked, Record, Stage};

/// What follows from a question about an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The record changes to this, and an operation begins.
    Begin(Box<Record>),
    /// The operation goes on.
    GoesOn(String),
    /// It is so already.
    Done,
    /// The same identity stands for something else.
    Differs,
    /// Another operation is under way.
    Busy,
    /// It cannot be asked in this stage; why.
    Refused(&'static str),
    /// It cannot be asked of an instance that is of no use; why.
    Unusable(&'static str),
    /// It is not asked of this instance: it is of another service.
    Foreign,
    /// There is no such instance.
    Unknown,
    /// It is gone.
    Gone,
}

/// Somebody asks for an instance. `fresh` is the record that it would begin with.
pub fn provision(known: Option<&Record>, fresh: Record, now: u64) -> Decision {
    let Some(known) = known else { return begin(fresh, Stage::Provisioning, now) };
    let is_same = known.asked.is_same(&fresh.asked);
    match (known.stage, is_same) {
        (Stage::Provisioning, true) => Decision::GoesOn(known.operation.clone()),
        (Stage::Provisioned, true) => Decision::Done,
        (Stage::ProvisionFailed, true) | (Stage::Deprovisioned, _) => {
            let operations = known.operations;
            begin(Record { operations, ..fresh }, Stage::Provisioning, now)
        }
        (Stage::Provisioning | Stage::Provisioned | Stage::ProvisionFailed, false) => Decision::Differs,
        (Stage::Deprovisioning, _) => Decision::Busy,
        (Stage::DeprovisionFailed, _) => Decision::Refused("it has to be removed first"),
    }
}

/// What an update may change: nothing but what names no plan and no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The service that the instance is said to be of.
    pub service_id: String,
    /// The plan that is asked for.
    pub plan_id: Option<String>,
    /// Whether parameters are given.
    pub has_parameters: bool,
}

/// Somebody asks for a change of an instance.
pub fn update(known: Option<&Record>, asked: &Update) -> Decision {
    let Some(known) = known else { return Decision::Unknown };
    match known.stage {
        Stage::Provisioning | Stage::Deprovisioning => Decision::Busy,
        Stage::Deprovisioned => Decision::Gone,
        _ if known.asked.service_id != asked.service_id => Decision::Foreign,
        Stage::ProvisionFailed | Stage::DeprovisionFailed => Decision::Unusable("the instance is not usable"),
        Stage::Provisioned if asked.has_parameters => Decision::Refused("an instance has no parameters"),
        Stage::Provisioned => match &asked.plan_id {
            Some(plan) if *plan != known.asked.plan_id => {
                Decision::Refused("the plan of an instance cannot be changed")
            }
            _ => Decision::Done,
        },
    }
}

/// Somebody asks for the end of an instance.
pub fn deprovision(known: Option<&Record>, now: u64) -> Decision {
    let Some(known) = known else { return Decision::Gone };
    match known.stage {
        Stage::Deprovisioning => Decision::GoesOn(known.operation.clone()),
        Stage::Deprovisioned => Decision::Gone,
        Stage::Provisioning | Stage::Provisioned | Stage::ProvisionFailed | Stage::DeprovisionFailed => {
            begin(known.clone(), Stage::Deprovisioning, now)
        }
    }
}

/// The record of an instance that others made: what belongs to it is made, or taken over.
pub fn adopt(fresh: Record, now: u64) -> Record {
    let mut record = fresh;
    record.begin(Stage::Provisioning, now);
    record
}

fn begin(mut record: Record, stage: Stage, now: u64) -> Decision {
    record.begin(stage, now);
    Decision::Begin(Box::new(record))
}

/// What is to be said about an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// `in progress`, `succeeded` or `failed`.
    pub state: &'static str,
    /// Why, for people.
    pub description: String,
}

/// The state of an operation that is under way.
pub(crate) const IN_PROGRESS: &str = "in progress";

/// What has become of the last operation, or of the one that is named; `None` if the instance is gone.
pub fn progress(known: &Record, operation: Option<&str>) -> Option<Progress> {
    if known.stage == Stage::Deprovisioned {
        return None;
    }
    let tell = |state, description: &str| Some(Progress { state, description: description.to_owned() });
    if operation.is_some_and(|operation| operation != known.operation) {
        return tell("failed", "another operation has taken its place");
    }
    match known.stage {
        Stage::Provisioning | Stage::Deprovisioning => tell(IN_PROGRESS, &known.description),
        Stage::Provisioned => tell("succeeded", &known.description),
        Stage::ProvisionFailed | Stage::DeprovisionFailed => tell("failed", &known.description),
        Stage::Deprovisioned => None,
    }
}

/// A record that nobody has asked anything about yet.
pub fn fresh(instance: &str, asked: Asked, name: String, source: String, title: String) -> Record {
    Record {
        instance: instance.to_owned(),
        asked,
        name,
        source,
        title,
        originator: None,
        stage: Stage::Provisioning,
        operation: String::new(),
        operations: 0,
        description: String::new(),
        since: 0,
        doomed: None,
        hitch: None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Map;

    use super::*;

    /// The record of an instance `i` that is called `o`, in this stage.
    pub(crate) fn record(stage: Stage) -> Record {
        let text = |it: &str| it.to_owned();
        let asked = Asked {
            service_id: text("orders-id"),
            plan_id: text("plan"),
            organization_guid: String::new(),
            space_guid: String::new(),
            namespace: text("shop"),
            parameters: Map::new(),
        };
        Record { stage, ..fresh("i", asked, text("o"), text("crm"), text("Orders")) }
    }
}
