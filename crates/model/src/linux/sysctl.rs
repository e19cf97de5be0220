//! `sysctl`: a kernel parameter of a namespace. It exists anyway; declaring it gives it a value.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::names::NetnsName;

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Sysctl {
    /// The dotted name, below `net`; a dot inside a part is written `/`: `net.ipv4.conf.eth0/100.forwarding`.
    #[schemars(schema_with = "crate::linux::shape::sysctl_name")]
    pub name: String,
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The value, as the kernel shows it.
    #[serde(deserialize_with = "number_or_text")]
    #[schemars(schema_with = "crate::linux::shape::sysctl_value")]
    pub value: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Number(i64),
    Text(String),
}

fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Form::deserialize(deserializer)? {
        Form::Number(number) => number.to_string(),
        Form::Text(text) => text,
    })
}
