//! `qdisc`: how packets wait for a link. One place on a link has one queueing discipline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Name, NetnsName};

/// Which discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First come, first served, counted in packets.
    Pfifo,
    /// First come, first served, counted in bytes.
    Bfifo,
    /// A bucket of tokens limits the rate.
    Tbf,
    /// A tree of classes shares the rate.
    Htb,
    /// Fair queues that keep delay short.
    FqCodel,
    /// Delay, loss and disorder on purpose.
    Netem,
    /// One queue per hardware queue.
    Mq,
    /// Nothing waits.
    Noqueue,
    /// A place for filters on what comes in.
    Ingress,
    /// A place for filters on what comes in and goes out.
    Clsact,
}

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Qdisc {
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    #[schemars(schema_with = "crate::linux::shape::link_name")]
    pub link: Name,
    /// Where it is attached: `root` if left out, or a class `1:10` of another one.
    #[serde(default = "root", skip_serializing_if = "is_root")]
    #[schemars(schema_with = "crate::linux::shape::qdisc_parent")]
    pub parent: Name,
    /// Its handle, for classes and filters to refer to: `1:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::shape::qdisc_handle")]
    pub handle: Option<Name>,
    /// Which discipline.
    pub discipline: Discipline,
    /// How much may wait: packets (`pfifo`, `netem`, `fq-codel`) or bytes (`bfifo`, `tbf`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub limit: Option<u32>,
    /// The rate in bytes per second; `tbf` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rate: Option<u64>,
    /// The size of the bucket in bytes; `tbf` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub burst: Option<u32>,
    /// The class of packets that no filter picks; `htb` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub default_class: Option<u16>,
    /// The delay in microseconds; `netem` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub delay: Option<u32>,
    /// How many of a million packets are lost; `netem` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub loss: Option<u32>,
}

fn root() -> Name {
    Name::const_new("root")
}

fn is_root(parent: &Name) -> bool {
    parent == "root"
}
