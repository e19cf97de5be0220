//! `sysctl`: a kernel parameter of a namespace. It exists anyway; declaring it gives it a value.

use kilter_scheduler::{FieldError, Key, Kind, Needs};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::keys;
use super::names::NetnsName;
use crate::declare::Declare;

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Sysctl {
    /// The dotted name, below `net`; a dot inside a part is written `/`: `net.ipv4.conf.eth0/100.forwarding`.
    #[schemars(schema_with = "crate::linux::texts::sysctl_name")]
    pub name: String,
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The value, as the kernel shows it.
    #[serde(deserialize_with = "number_or_text")]
    #[schemars(schema_with = "crate::linux::texts::sysctl_value")]
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

impl Sysctl {
    /// The link that the parameter belongs to, if it does.
    pub fn link(&self) -> Option<String> {
        let parts: Vec<&str> = self.name.split('.').collect();
        match parts.as_slice() {
            ["net", "ipv4" | "ipv6", "conf" | "neigh", link, ..] if !matches!(*link, "all" | "default") => {
                Some(link.replace('/', "."))
            }
            _ => None,
        }
    }
}

impl Declare for Sysctl {
    const WORD: &'static str = "sysctl";
    const ABOUT: &'static str = "A kernel parameter of a namespace.";

    fn key(&self) -> Key {
        Key::from(format!("linux/sysctl/{}/{}", self.netns, self.name))
    }

    /// The kernel separates numbers by tabs; one blank is meant.
    fn normalise(&mut self) {
        self.value = self.value.split_whitespace().collect::<Vec<_>>().join(" ");
    }

    fn check(&self) -> Vec<FieldError> {
        Vec::new()
    }
}

/// Describes `linux.sysctl`.
pub struct SysctlKind;

impl Kind for SysctlKind {
    type Value = Sysctl;
    const NAME: &'static str = "linux.sysctl";
    const KEYS: &'static [&'static str] = &["linux/sysctl/*/**"];

    /// The namespace, and the link if the parameter is one of a link.
    fn needs(&self, _key: &Key, sysctl: &Sysctl, needs: &mut Needs) {
        keys::need_netns(&sysctl.netns, needs);
        if let Some(link) = sysctl.link() {
            needs.on(format_args!("linux/link/{}/{link}", sysctl.netns));
        }
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }

    /// There are thousands; only what is declared is read.
    fn correlates(&self) -> bool {
        true
    }
}
