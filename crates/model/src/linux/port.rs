//! `port`: a link belongs to a bridge, a bond or a VRF. Derived from whichever of the two declares it, so that
//! neither waits for the other, and under the key of the link, so that it cannot belong to two.

use kilter_scheduler::{Key, Kind, Needs, Transition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, Reading};
use super::names::{Name, NetnsName};

/// A link that belongs to a bridge, a bond or a VRF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The namespace of both links.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    pub link: Name,
    /// The bridge, bond or VRF.
    pub master: Name,
    /// How the bridge treats the port.
    #[serde(flatten)]
    pub options: PortOptions,
    /// That the port was read; what is declared has none.
    #[serde(rename = "~reading", default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
}

/// How a bridge treats a port. What is left out is left as it is; what is not said any more gets back what
/// it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PortOptions {
    /// The cost of the port in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub cost: Option<u32>,
    /// The priority of the port in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63))]
    pub priority: Option<u16>,
    /// Sends frames back through the port they came in by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// Refuses spanning-tree messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpdu_guard: Option<bool>,
    /// Never lets the port become the root port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_block: Option<bool>,
    /// Forgets a multicast group as soon as its member leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_leave: Option<bool>,
    /// Learns hardware addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<bool>,
    /// Sends frames for unknown stations through the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood: Option<bool>,
    /// Sends frames for unknown multicast groups through the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast_flood: Option<bool>,
    /// Sends broadcast frames through the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast_flood: Option<bool>,
    /// Keeps isolated ports from reaching each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<bool>,
    /// Answers ARP and neighbour discovery on behalf of the stations behind the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_suppression: Option<bool>,
}

impl PortOptions {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The options that get another value if these are to become others.
    pub fn given(&self, new: &Self) -> Vec<&'static str> {
        let mut compared = Compared::gathering();
        self.compare(new, &mut compared);
        compared.given()
    }

    fn compare(&self, new: &Self, compared: &mut Compared<'_>) {
        compared.optional("cost", &self.cost, &new.cost);
        compared.optional("priority", &self.priority, &new.priority);
        compared.optional("hairpin", &self.hairpin, &new.hairpin);
        compared.optional("bpdu-guard", &self.bpdu_guard, &new.bpdu_guard);
        compared.optional("root-block", &self.root_block, &new.root_block);
        compared.optional("fast-leave", &self.fast_leave, &new.fast_leave);
        compared.optional("learning", &self.learning, &new.learning);
        compared.optional("flood", &self.flood, &new.flood);
        compared.optional("multicast-flood", &self.multicast_flood, &new.multicast_flood);
        compared.optional("broadcast-flood", &self.broadcast_flood, &new.broadcast_flood);
        compared.optional("isolated", &self.isolated, &new.isolated);
        compared.optional("neighbour-suppression", &self.neighbour_suppression, &new.neighbour_suppression);
    }
}

/// Describes `linux.port`.
pub struct PortKind;

impl Kind for PortKind {
    type Value = Port;
    const NAME: &'static str = "linux.port";
    const KEYS: &'static [&'static str] = &["linux/port/*/*"];

    fn needs(&self, _key: &Key, port: &Port, needs: &mut Needs) {
        needs.on(format_args!("linux/link/{}/{}", port.netns, port.link));
        needs.on(format_args!("linux/link/{}/{}", port.netns, port.master));
    }

    /// The kernel moves a link from one bridge to another in one step.
    fn transition(&self, _key: &Key, old: &Port, new: &Port) -> Transition {
        let mut compared = Compared::giving_back(old.reading.as_ref());
        compared.field(&old.master, &new.master);
        old.options.compare(&new.options, &mut compared);
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }
}
