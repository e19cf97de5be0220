//! How wire types are spelt in JSON and YAML: words instead of numbers, values as they are, moments as texts.
//!
//! Decided here: one shape for `-o json`, `-o yaml`, stored plans and everything else that is not protobuf.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A module that writes an enumeration as its word, without the prefix that protobuf asks for.
macro_rules! words {
    ($module:ident, $enumeration:ident, $prefix:literal) => {
        pub(crate) mod $module {
            use super::*;
            use crate::v1::$enumeration as Words;

            pub(crate) fn serialize<S: Serializer>(number: &i32, serializer: S) -> Result<S::Ok, S::Error> {
                let word = Words::try_from(*number).map_err(S::Error::custom)?;
                serializer.serialize_str(word.as_str_name().trim_start_matches($prefix))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
                let word = String::deserialize(deserializer)?;
                let spelt = word.to_uppercase().replace([' ', '-'], "_");
                let known = Words::from_str_name(&format!("{}{spelt}", $prefix));
                known
                    .map(|known| known as i32)
                    .ok_or_else(|| D::Error::custom(format!("unknown word `{word}`")))
            }
        }
    };
}

words!(state, State, "STATE_");
words!(action, Action, "ACTION_");
words!(outcome, Outcome, "OUTCOME_");
words!(reason, Reason, "REASON_");
words!(on_failure, OnFailure, "ON_FAILURE_");
words!(author, Author, "AUTHOR_");
words!(scope, Scope, "SCOPE_");
words!(edge, EdgeType, "EDGE_TYPE_");
words!(stage, RecordingStage, "RECORDING_STAGE_");

/// JSON as text: written as what it is.
pub(crate) mod json {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        if text.is_empty() {
            return serializer.serialize_none();
        }
        serde_json::from_str::<serde_json::Value>(text).map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(if value.is_null() { String::new() } else { value.to_string() })
    }
}

/// A moment as text in UTC: `2019-01-21T11:29:27.794325984Z`.
pub(crate) mod moment {
    use prost_types::Timestamp;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        moment: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        moment.as_ref().map(crate::render::moment).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let moment: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Some(Timestamp { seconds: moment.as_second(), nanos: moment.subsec_nanosecond() }))
    }
}

/// A span of time: written as seconds, read also as a text like `2m` or `1m 30s`.
pub(crate) mod span {
    use prost_types::Duration;

    use super::*;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Span {
        Seconds(f64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let seconds = |span: &Duration| span.seconds as f64 + f64::from(span.nanos) / 1e9;
        span.as_ref().map(seconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = match Option::<Span>::deserialize(deserializer)? {
            None => return Ok(None),
            Some(Span::Seconds(seconds)) => seconds,
            Some(Span::Text(text)) => {
                let span: jiff::SignedDuration =
                    text.parse().map_err(|_| D::Error::custom(format!("`{text}` is no span like `2m`")))?;
                span.as_secs_f64()
            }
        };
        let span = std::time::Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)?;
        Duration::try_from(span).map(Some).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::v1::{Action, DeclaredItem, Moment, Side, State, Step};

    #[test]
    fn words_values_and_moments_are_spelt_for_people_and_read_again() {
        let step = Step {
            key: "link/a".to_owned(),
            action: Action::Create as i32,
            after: Some(Side { state: State::Configured as i32, value: "{\"mtu\":9000}".to_owned() }),
            ..Step::default()
        };
        let json = serde_json::to_value(&step).unwrap();
        assert_eq!((&json["action"], &json["after"]["state"]), (&"CREATE".into(), &"CONFIGURED".into()));
        assert_eq!(json["after"]["value"]["mtu"], 9000);
        assert_eq!(serde_json::from_value::<Step>(json).unwrap(), step);

        let at = prost_types::Timestamp { seconds: 1_548_070_167, nanos: 794_325_984 };
        let moment = Moment { at: Some(at), ..Moment::default() };
        let json = serde_json::to_value(&moment).unwrap();
        assert_eq!(json["at"], "2019-01-21T11:29:27.794325984Z");
        assert_eq!(serde_json::from_value::<Moment>(json).unwrap(), moment);
    }

    #[test]
    fn a_span_is_a_number_of_seconds_or_a_text() {
        let read = |text: &str| {
            serde_json::from_str::<crate::v1::WaitBody>(text)
                .map(|body| body.timeout.map(|span| (span.seconds, span.nanos)))
        };
        assert_eq!(read("{\"timeout\": \"1m 30s\"}").unwrap(), Some((90, 0)));
        assert_eq!(read("{\"timeout\": 1.5}").unwrap(), Some((1, 500_000_000)));
        assert!(read("{\"timeout\": \"soon\"}").is_err());
        assert!(read("{\"timeout\": -1}").is_err());
        assert!(read("{\"timeuot\": 1}").is_err(), "a field that is not known is told");
    }

    #[test]
    fn what_is_left_out_is_as_if_it_were_not_said() {
        let item: DeclaredItem =
            serde_json::from_str("{\"kind\": \"netns\", \"value\": {\"name\": \"a\"}}").unwrap();
        assert_eq!((item.key.as_str(), item.value.as_str(), item.place), ("", "{\"name\":\"a\"}", None));
        assert!(serde_json::from_str::<Step>("{\"action\": \"EXPLODE\"}").is_err());
    }
}
