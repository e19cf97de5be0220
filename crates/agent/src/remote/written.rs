//! A remote kind as it stands in a recording, and its descriptor out of one.

use std::sync::Arc;

use kilter_scheduler::Descriptor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::{Description, RemoteDescriptor, RemoteKind};
use super::rules::{DerivedRule, NeedRule, Needed, RuleError};

/// The description without what no plan depends on.
#[derive(Serialize, Deserialize)]
struct Plain {
    kind: String,
    schema: Option<Value>,
    needs: Vec<(Needed, String, bool)>,
    derived: Vec<(String, String)>,
    recreate_on: Vec<String>,
    unreadable: bool,
}

/// What a recording holds of a kind.
pub fn written(description: &Description) -> Value {
    let plain = Plain {
        kind: description.kind.to_string(),
        schema: description.schema.clone(),
        needs: description.needs.iter().map(NeedRule::said).collect(),
        derived: description.derived.iter().map(DerivedRule::said).collect(),
        recreate_on: description.recreate_on.clone(),
        unreadable: description.unreadable,
    };
    serde_json::to_value(plain).unwrap_or_default()
}

/// The descriptor of a kind out of a recording; nobody makes it real.
pub fn replayed(written: &Value) -> Result<Box<dyn Descriptor>, String> {
    let plain: Plain = serde_json::from_value(written.clone()).map_err(|error| error.to_string())?;
    let Plain { kind, schema, needs, derived, recreate_on, unreadable } = plain;
    let needs = needs.iter().map(|(needed, text, to_create)| NeedRule::new(*needed, text, *to_create));
    let derived = derived.iter().map(|(each, item)| DerivedRule::new(each, item));
    let wrong = |error: RuleError| error.to_string();
    let description = Description {
        kind: kind.into(),
        about: String::new(),
        schema,
        needs: needs.collect::<Result<_, _>>().map_err(wrong)?,
        derived: derived.collect::<Result<_, _>>().map_err(wrong)?,
        recreate_on,
        unreadable,
        checks: false,
    };
    let kind = RemoteKind::replayed(description).map_err(|error| error.to_string())?;
    Ok(Box::new(RemoteDescriptor(Arc::new(kind))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_is_the_same_after_it_was_written_and_read() {
        let written = json!({
            "kind": "shop.shelf", "schema": { "type": "object" },
            "needs": [["on", "a/{wall}", false], ["any-of", "b/{deep.er}x", true], ["absent", "c", false]],
            "derived": [["boards.all", "{\"kind\":\"shop.shelf\",\"name\":\"{name}.{each}\"}"], ["", "{\"kind\":\"a.b\"}"]],
            "recreate_on": ["wall"], "unreadable": true,
        });
        let plain: Plain = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(plain.needs.len(), 3);
        let read = |needs: &[(Needed, String, bool)]| -> Vec<_> {
            let rules =
                needs.iter().map(|(needed, text, create)| NeedRule::new(*needed, text, *create).unwrap());
            rules.map(|rule| rule.said()).collect()
        };
        assert_eq!(read(&plain.needs), plain.needs);
        let rules = plain.derived.iter().map(|(each, item)| DerivedRule::new(each, item).unwrap().said());
        assert_eq!(rules.collect::<Vec<_>>(), plain.derived);
        assert_eq!(replayed(&written).unwrap().kind(), "shop.shelf");
        assert!(replayed(&json!({ "kind": "shop.shelf" })).is_err());
    }
}
