//! Orders in the combined status: what the service broker has yet to do about an instance, and why it has not.

use jiff::Timestamp;

use crate::adoption::external;
use crate::combined::{Line, Together, sort};
use crate::object::Object;
use crate::osb::record::{Record, Stage};
use crate::osb::{flow_id, why};

/// Adds to each line why its order is not finished; an order that has no line gets one.
pub(crate) fn add(lines: &mut Vec<Line>, records: &[Record], instances: &[Object], flows: &[Object]) {
    for record in records {
        let flow = flows.iter().find(|flow| *flow.id() == flow_id(record));
        let under_way = || record.stage.is_under_way().then(|| "it is under way".to_owned());
        let Some(order) = why(record, flow).or_else(under_way) else { continue };
        let is_it = |it: &&Object| {
            it.id().namespace == record.asked.namespace && external(it) == Some(record.instance.as_str())
        };
        let instance = instances.iter().find(is_it).map(|it| it.id().name.clone());
        let of_it = |line: &&mut Line| {
            let same = match &instance {
                Some(_) => line.instance == instance,
                None => flow.is_some_and(|flow| line.flow.as_ref() == Some(&flow.id().name)),
            };
            line.namespace == record.asked.namespace && same
        };
        match lines.iter_mut().find(of_it) {
            Some(line) => line.order = Some(order),
            None => lines.push(alone(record, order)),
        }
    }
    sort(lines);
}

/// What is told about an order that neither an instance nor a flow stands for.
fn alone(record: &Record, order: String) -> Line {
    let status = match record.stage {
        Stage::Provisioning | Stage::Provisioned => Together::Provisioning,
        Stage::Deprovisioning | Stage::Deprovisioned => Together::Deprovisioning,
        Stage::ProvisionFailed | Stage::DeprovisionFailed => Together::Failed,
    };
    let since = i64::try_from(record.since).ok().and_then(|it| Timestamp::from_second(it).ok());
    Line {
        namespace: record.asked.namespace.clone(),
        instance: Some(record.name.clone()),
        flow: None,
        status,
        reason: String::new(),
        message: String::new(),
        since: since.map(|it| it.to_string()).unwrap_or_default(),
        source: Some(record.source.clone()),
        sink: None,
        conditions: Vec::new(),
        order: Some(order),
    }
}
