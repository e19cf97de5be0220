//! What platforms send: headers and bodies, and what is wrong with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::osb::record::Asked;

/// The least version of the API that we speak: 2.13. Every later 2.x says more, and nothing else.
const LEAST_MINOR: u32 = 13;

/// What a version header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Spoken,
    Missing,
    Foreign,
}

pub(crate) fn version(header: Option<&str>) -> Version {
    let Some(header) = header else { return Version::Missing };
    let numbers =
        header.trim().split_once('.').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()));
    match numbers {
        Some((Ok(2), Ok(minor))) if minor >= LEAST_MINOR => Version::Spoken,
        _ => Version::Foreign,
    }
}

/// What is kept of what a platform tells about its user: who it is. Whatever else it tells may be a secret.
const IDENTIFIES: [&str; 4] = ["username", "uid", "groups", "user_id"];

/// Who asked: the word for the platform, and what identifies the user to the platform.
pub(crate) fn originator(header: Option<&str>) -> Result<Option<(String, Json)>, String> {
    let Some(header) = header else { return Ok(None) };
    let wrong = || "the originating identity is not `PLATFORM BASE64-OF-JSON`".to_owned();
    let (platform, encoded) = header.trim().split_once(' ').ok_or_else(wrong)?;
    let decoded = STANDARD.decode(encoded.trim()).map_err(|_| wrong())?;
    let mut user: Map<String, Json> = serde_json::from_slice(&decoded).map_err(|_| wrong())?;
    user.retain(|field, _| IDENTIFIES.contains(&field.as_str()));
    Ok(Some((platform.to_owned(), Json::Object(user))))
}

/// What a header with these credentials would say.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    service_id: String,
    plan_id: String,
    organization_guid: String,
    space_guid: String,
    context: Map<String, Json>,
    parameters: Option<Map<String, Json>>,
    maintenance_info: Option<Json>,
}

/// A request for an instance or for its change, as far as it can be read.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) asked: Asked,
    pub(crate) platform: Option<String>,
    /// The name that the platform shows, if it tells.
    pub(crate) name: Option<String>,
    pub(crate) has_parameters: bool,
    pub(crate) has_maintenance: bool,
}

/// Reads a body. Fields that we do not know are ignored, as the API has it.
pub(crate) fn read(content_type: Option<&str>, body: &[u8]) -> Result<Question, String> {
    let is_json =
        content_type.is_some_and(|it| it.trim().to_ascii_lowercase().starts_with("application/json"));
    if !is_json {
        return Err("the body must be `application/json`".to_owned());
    }
    let body: Body =
        serde_json::from_slice(body).map_err(|error| format!("the body cannot be read: {error}"))?;
    let text = |field: &str| body.context.get(field).and_then(Json::as_str).map(str::to_owned);
    Ok(Question {
        platform: text("platform"),
        name: text("instance_name").filter(|name| !name.is_empty()),
        has_parameters: body.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()),
        has_maintenance: body.maintenance_info.is_some(),
        asked: Asked {
            namespace: text("namespace").unwrap_or_default(),
            service_id: body.service_id,
            plan_id: body.plan_id,
            organization_guid: body.organization_guid,
            space_guid: body.space_guid,
            parameters: body.parameters.unwrap_or_default(),
        },
    })
}

impl Question {
    /// The first field that a request for an instance must have and does not.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let Asked { service_id, plan_id, organization_guid, space_guid, namespace, .. } = &self.asked;
        let fields = [
            ("service_id", service_id),
            ("plan_id", plan_id),
            ("organization_guid", organization_guid),
            ("space_guid", space_guid),
            ("context.namespace", namespace),
        ];
        fields.into_iter().find(|(_, value)| value.is_empty()).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_version_from_the_least_on_is_spoken() {
        for (header, said) in [
            (Some("2.13"), Version::Spoken),
            (Some("2.99"), Version::Spoken),
            (Some("2.12"), Version::Foreign),
            (Some("3.0"), Version::Foreign),
            (Some("2"), Version::Foreign),
            (None, Version::Missing),
        ] {
            assert_eq!(version(header), said, "{header:?}");
        }
    }

    #[test]
    fn an_originator_is_a_word_and_an_object() {
        let told = r#"{"username":"ann","groups":["a"],"extra":{"token":["hush"]},"password":"hush"}"#;
        let header = format!("kubernetes {}", STANDARD.encode(told));
        let (platform, user) = originator(Some(&header)).unwrap().unwrap();
        assert_eq!(platform, "kubernetes");
        assert_eq!(user, serde_json::json!({"username": "ann", "groups": ["a"]}), "who it is, and no more");
        assert!(originator(Some(&format!("kubernetes {}", STANDARD.encode("[]")))).is_err());
        assert!(originator(Some("kubernetes")).is_err() && originator(Some("kubernetes ?")).is_err());
        assert_eq!(originator(None), Ok(None));
    }
}
