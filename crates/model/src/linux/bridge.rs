//! `bridge`: a switch in the kernel. Its ports are derived items: the bridge does not wait for them.

use kilter_scheduler::FieldError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compare::{Compared, error, twice};
use super::link::LinkKind;
use super::names::Name;
use super::port::PortOptions;
use crate::declare::DeclareLink;

/// What only a bridge has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Bridge {
    /// Runs the spanning tree protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stp: Option<bool>,
    /// The priority of the bridge in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub priority: Option<u16>,
    /// How long a port listens and learns before it forwards, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 30))]
    pub forward_delay: Option<u32>,
    /// The time between spanning-tree messages, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub hello_time: Option<u32>,
    /// For how long a spanning-tree message counts, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 6, max = 40))]
    pub max_age: Option<u32>,
    /// For how long a learnt hardware address is remembered, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub ageing_time: Option<u32>,
    /// Forwards multicast only where a member is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast_snooping: Option<bool>,
    /// Keeps VLANs apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan_filtering: Option<bool>,
    /// Which reserved group addresses are forwarded, as a mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub group_forward_mask: Option<u16>,
    /// The ports: links in the same namespace. Each is an item of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<BridgePort>,
}

/// A port as a bridge lists it: the name of a link, or the long form with options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// The link.
    pub link: Name,
    /// How the bridge treats it.
    pub options: PortOptions,
}

/// The long form.
#[derive(Serialize, Deserialize)]
struct PortFields {
    link: Name,
    #[serde(flatten)]
    options: PortOptions,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Short(Name),
    Long(PortFields),
}

impl Serialize for BridgePort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.options.is_empty() {
            return self.link.serialize(serializer);
        }
        PortFields { link: self.link.clone(), options: self.options.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BridgePort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Form::deserialize(deserializer)? {
            Form::Short(link) => Self { link, options: PortOptions::default() },
            Form::Long(PortFields { link, options }) => Self { link, options },
        })
    }
}

impl JsonSchema for BridgePort {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BridgePort".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut long = json_schema!({ "type": "object", "properties": {}, "required": ["link"] });
        let mut link = super::texts::link_name(generator);
        link.insert("description".to_owned(), "The link.".into());
        let options = PortOptions::json_schema(generator);
        if let Some(properties) = long.get_mut("properties").and_then(|all| all.as_object_mut()) {
            properties.insert("link".to_owned(), link.into());
            let more = options.get("properties").and_then(|all| all.as_object());
            properties.extend(more.into_iter().flatten().map(|(name, one)| (name.clone(), one.clone())));
        }
        json_schema!({ "anyOf": [super::texts::link_name(generator), long] })
    }
}

impl DeclareLink for Bridge {
    const WORD: &'static str = "bridge";
    const ABOUT: &'static str = "A switch in the kernel; its ports are links in the same namespace.";

    fn into_kind(self) -> LinkKind {
        LinkKind::Bridge(self)
    }
}

impl Bridge {
    pub(super) fn check(&self, name: &Name, errors: &mut Vec<FieldError>) {
        let links: Vec<&Name> = self.ports.iter().map(|port| &port.link).collect();
        twice("ports", &links, errors);
        for (at, _) in links.iter().enumerate().filter(|(_, link)| **link == name) {
            errors.push(error(format!("ports[{at}]"), "names the bridge itself"));
        }
    }

    /// The kernel changes every option of a bridge while it runs.
    pub(super) fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.optional("stp", &self.stp, &new.stp);
        compared.optional("priority", &self.priority, &new.priority);
        compared.optional("forward-delay", &self.forward_delay, &new.forward_delay);
        compared.optional("hello-time", &self.hello_time, &new.hello_time);
        compared.optional("max-age", &self.max_age, &new.max_age);
        compared.optional("ageing-time", &self.ageing_time, &new.ageing_time);
        compared.optional("multicast-snooping", &self.multicast_snooping, &new.multicast_snooping);
        compared.optional("vlan-filtering", &self.vlan_filtering, &new.vlan_filtering);
        compared.optional("group-forward-mask", &self.group_forward_mask, &new.group_forward_mask);
    }
}
