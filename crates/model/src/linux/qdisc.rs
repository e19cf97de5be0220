//! `qdisc`: how packets wait for a link. One place on a link has one queueing discipline.

use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error};
use super::names::{Name, NetnsName};
use crate::declare::Declare;

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
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub link: Name,
    /// Where it is attached: `root` if left out, or a class `1:10` of another one.
    #[serde(default = "root", skip_serializing_if = "is_root")]
    #[schemars(schema_with = "crate::linux::texts::qdisc_parent")]
    pub parent: Name,
    /// Its handle, for classes and filters to refer to: `1:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::qdisc_handle")]
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
    /// It was read; what is declared is not.
    #[serde(skip)]
    #[schemars(skip)]
    pub read: bool,
}

fn root() -> Name {
    Name::const_new("root")
}

fn is_root(parent: &Name) -> bool {
    parent == "root"
}

impl Discipline {
    /// The options that it has.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Pfifo | Self::Bfifo | Self::FqCodel => &["limit"],
            Self::Tbf => &["limit", "rate", "burst"],
            Self::Htb => &["default-class"],
            Self::Netem => &["limit", "delay", "loss"],
            Self::Mq | Self::Noqueue | Self::Ingress | Self::Clsact => &[],
        }
    }

    /// Whether it takes what comes in, and not what goes out.
    fn is_incoming(self) -> bool {
        matches!(self, Self::Ingress | Self::Clsact)
    }
}

impl Declare for Qdisc {
    const WORD: &'static str = "qdisc";
    const ABOUT: &'static str = "How packets wait for a link: a queueing discipline.";

    fn key(&self) -> Key {
        Key::from(format!("linux/qdisc/{}/{}/{}", self.netns, self.link, self.parent))
    }

    fn normalise(&mut self) {
        if self.discipline.is_incoming() && self.parent == "root" {
            self.parent = Name::const_new("ingress");
        }
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let said = [
            ("limit", self.limit.is_some()),
            ("rate", self.rate.is_some()),
            ("burst", self.burst.is_some()),
            ("default-class", self.default_class.is_some()),
            ("delay", self.delay.is_some()),
            ("loss", self.loss.is_some()),
        ];
        let has = self.discipline.options();
        for (path, _) in said.iter().filter(|(path, is_said)| *is_said && !has.contains(path)) {
            errors.push(error(*path, "is for another discipline"));
        }
        if self.discipline == Discipline::Tbf {
            for (path, _) in said[..3].iter().filter(|(_, is_said)| !is_said) {
                errors.push(error("discipline", format!("`tbf` needs `{path}`")));
            }
        }
        if self.discipline.is_incoming() != (self.parent == "ingress") {
            errors.push(error(
                "parent",
                "`ingress` is the place of `ingress` and `clsact`, and of nothing else",
            ));
        }
        if self.discipline.is_incoming() && self.handle.is_some() {
            errors.push(error("handle", "of `ingress` and `clsact` is always `ffff:`"));
        }
        errors
    }
}

/// Describes `linux.qdisc`.
pub struct QdiscKind;

impl Kind for QdiscKind {
    type Value = Qdisc;
    const NAME: &'static str = "linux.qdisc";
    const KEYS: &'static [&'static str] = &["linux/qdisc/*/*/*"];

    fn validate(&self, _key: &Key, qdisc: &Qdisc) -> Vec<FieldError> {
        qdisc.check()
    }

    /// The link, and for a class, the discipline at the root that has it.
    fn needs(&self, _key: &Key, qdisc: &Qdisc, needs: &mut Needs) {
        let Qdisc { netns, link, parent, .. } = qdisc;
        needs.on(format_args!("linux/link/{netns}/{link}"));
        if parent.contains(':') {
            needs.on(format_args!("linux/qdisc/{netns}/{link}/root"));
        }
    }

    fn transition(&self, _key: &Key, old: &Qdisc, new: &Qdisc) -> Transition {
        let mut compared = Compared::after(old.read);
        compared.fixed("discipline", &old.discipline, &new.discipline);
        compared.fixed_optional("handle", &old.handle, &new.handle);
        compared.fixed_optional("default-class", &old.default_class, &new.default_class);
        compared.until_fixed("limit", &old.limit, &new.limit);
        compared.until_fixed("rate", &old.rate, &new.rate);
        compared.until_fixed("burst", &old.burst, &new.burst);
        compared.until_fixed("delay", &old.delay, &new.delay);
        compared.until_fixed("loss", &old.loss, &new.loss);
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }

    /// Nothing marks a discipline as ours: only what is declared is read.
    fn correlates(&self) -> bool {
        true
    }
}
