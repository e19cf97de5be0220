//! Laying one value over another, field by field.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// The value with the overlay laid over it: lists append, maps are merged member by member, anything else that the
/// overlay says overrides. What the overlay leaves open (`null`) stays. `None` if the result is not such a value.
///
/// ```
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Tap {
///     mtu: Option<u32>,
///     addresses: Vec<String>,
/// }
/// let own = Tap { mtu: Some(1500), addresses: vec!["10.0.0.1/24".to_owned()] };
/// let overlay = Tap { mtu: None, addresses: vec!["10.0.1.1/24".to_owned()] };
/// let merged = kilter_scheduler::merge_fields(&own, &overlay).expect("lists of addresses may grow");
/// assert_eq!(merged.mtu, Some(1500));
/// assert_eq!(merged.addresses, ["10.0.0.1/24", "10.0.1.1/24"]);
/// ```
pub fn merge_fields<T: Serialize + DeserializeOwned>(value: &T, overlay: &T) -> Option<T> {
    let (mut value, overlay) = (serde_json::to_value(value).ok()?, serde_json::to_value(overlay).ok()?);
    // A work list instead of recursion: values are of any depth.
    let mut open = vec![(&mut value, overlay)];
    while let Some((value, overlay)) = open.pop() {
        match (value, overlay) {
            (_, Json::Null) => {}
            (Json::Array(list), Json::Array(more)) => list.extend(more),
            (Json::Object(map), Json::Object(mut over)) => {
                for name in over.keys() {
                    map.entry(name).or_insert(Json::Null);
                }
                for (name, member) in map.iter_mut() {
                    open.extend(over.remove(name).map(|over| (member, over)));
                }
            }
            (
                value @ (Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Array(_)
                | Json::Object(_)),
                overlay,
            ) => *value = overlay,
        }
    }
    serde_json::from_value(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(value: Json, overlay: Json) -> Json {
        merge_fields(&value, &overlay).unwrap()
    }

    #[test]
    fn lists_append_and_scalars_override_at_any_depth() {
        let value = json!({"a": 1, "list": [1], "deep": {"b": 1, "list": ["x"]}});
        let overlay = json!({"a": 2, "list": [2], "deep": {"c": 3, "list": ["y"]}});
        let expected = json!({"a": 2, "list": [1, 2], "deep": {"b": 1, "list": ["x", "y"], "c": 3}});
        assert_eq!(merged(value, overlay), expected);
    }

    #[test]
    fn what_the_overlay_leaves_open_stays() {
        assert_eq!(merged(json!({"a": 1}), json!({"a": null})), json!({"a": 1}));
        assert_eq!(merged(json!({"a": null}), json!({"a": 1})), json!({"a": 1}));
        assert_eq!(merged(json!([1]), json!("text")), json!("text"));
    }

    #[test]
    fn a_result_of_another_shape_is_none() {
        assert_eq!(merge_fields(&[1, 2], &[3, 4]), None);
    }
}
