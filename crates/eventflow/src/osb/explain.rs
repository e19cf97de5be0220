//! Why an order is not finished: what it waits for, out of its record and of the cluster.
//!
//! Every copy of the service broker can tell, and so can whoever reads the records: what failed is written down by the
//! copy that tried, and what is on its way out is seen by all.

use crate::object::Object;
use crate::osb::objects::{flow_id, is_of};
use crate::osb::record::{Record, Stage};

/// Why an order is not finished; `None` if it is, or if nobody has got round to it yet. `flow` is the object that has the
/// name of its flow.
pub(crate) fn why(record: &Record, flow: Option<&Object>) -> Option<String> {
    let leaving = flow.filter(|flow| flow.is_deleting()).map(leaving);
    let waits = match record.stage {
        Stage::Provisioning => leaving,
        // A flow of somebody else does not hold it up.
        Stage::Deprovisioning => leaving.filter(|_| flow.is_some_and(|flow| is_of(flow, record))),
        Stage::Provisioned => None,
        Stage::ProvisionFailed | Stage::DeprovisionFailed => return Some(record.description.clone()),
        Stage::Deprovisioned => return None,
    };
    let doomed =
        record.doomed.as_ref().map(|why| format!("it is taken back, because it cannot be made: {why}"));
    let failed = record.hitch.as_ref().map(|why| format!("it is tried again, because that failed: {why}"));
    let all: Vec<String> = [doomed, waits, failed].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// What is said about a flow that has to be gone first.
fn leaving(flow: &Object) -> String {
    let held: Vec<String> = flow.finalizers().into_iter().map(|name| format!("`{name}`")).collect();
    let by = if held.is_empty() { String::new() } else { format!(", held by {}", held.join(", ")) };
    format!("waits until {} is gone, which is on its way out{by}", flow.id())
}

/// Why the order of a record is not finished, as far as the mirror shows it.
pub(crate) fn of(record: &Record, mirror: &crate::mirror::Mirror) -> Option<String> {
    why(record, mirror.get(&flow_id(record)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names;
    use crate::object::Resource;
    use crate::osb::decide::tests::record;

    fn leaving(of: &str) -> Object {
        let meta = json!({
            "namespace": "shop", "name": "event-flow-o", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/hold"], "annotations": {names::INSTANCE_ANNOTATION: of},
        });
        Object::new(Resource::EventFlow, json!({"metadata": meta}))
    }

    #[test]
    fn what_is_on_its_way_out_is_named_with_who_holds_it() {
        let said = "waits until EventFlow shop/event-flow-o is gone, which is on its way out, held by `example.com/hold`";
        for (stage, of, told) in [
            (Stage::Provisioning, "another", Some(said)),
            (Stage::Deprovisioning, "i", Some(said)),
            (Stage::Deprovisioning, "another", None),
            (Stage::Provisioned, "i", None),
            (Stage::Deprovisioned, "i", None),
        ] {
            assert_eq!(why(&record(stage), Some(&leaving(of))).as_deref(), told, "{stage:?} {of}");
        }
        assert_eq!(why(&record(Stage::Provisioning), None), None, "nobody has got round to it");
    }

    #[test]
    fn what_fails_and_what_goes_back_is_told_with_its_cause() {
        let mut order = record(Stage::Provisioning);
        order.hitch = Some("503".to_owned());
        assert_eq!(why(&order, None).as_deref(), Some("it is tried again, because that failed: 503"));
        order.doomed = Some("no such name".to_owned());
        order.hitch = None;
        let told = why(&order, Some(&leaving("i"))).unwrap();
        assert!(told.contains("no such name") && told.contains("example.com/hold"), "{told}");
        let failed = Record { description: "why".to_owned(), ..record(Stage::ProvisionFailed) };
        assert_eq!(why(&failed, None).as_deref(), Some("why"));
    }
}
