//! `fdb`: where frames for a hardware address go: an entry in the table of a bridge port, or of a VXLAN.

use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Compared, error};
use super::names::{Mac, Name, NetnsName};
use crate::declare::Declare;

/// Whose table the entry is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FdbTable {
    /// That of the link itself.
    #[default]
    Own,
    /// That of the bridge that the link is a port of.
    Bridge,
}

/// How long an entry of a bridge lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FdbState {
    /// Forever; frames for it are the bridge's own.
    #[default]
    Permanent,
    /// Forever; frames for it leave by the link.
    Static,
}

/// An entry of a forwarding table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Fdb {
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub link: Name,
    /// The hardware address; all zeros is everything that has no entry.
    pub mac: Mac,
    /// Whose table the entry is in; the link's own if left out.
    #[serde(default, skip_serializing_if = "is_own")]
    pub table: FdbTable,
    /// The VLAN that the entry is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<u16>,
    /// The remote end of the tunnel; VXLAN only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::ip")]
    pub remote: Option<IpAddr>,
    /// The UDP port of the remote end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The network identifier to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<u32>,
    /// How long the entry lives; `permanent` if left out.
    #[serde(default, skip_serializing_if = "is_permanent")]
    pub state: FdbState,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_own(table: &FdbTable) -> bool {
    *table == FdbTable::Own
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_permanent(state: &FdbState) -> bool {
    *state == FdbState::Permanent
}

impl Fdb {
    /// Whether there may be several entries for the address, told apart by their remote end.
    pub fn is_flood(&self) -> bool {
        self.mac.is_zero() || self.mac.is_multicast()
    }
}

impl Declare for Fdb {
    const WORD: &'static str = "fdb";
    const ABOUT: &'static str =
        "Where frames for a hardware address go, in the table of a bridge port or a VXLAN.";

    fn key(&self) -> Key {
        let table = match self.table {
            FdbTable::Own => "own",
            FdbTable::Bridge => "bridge",
        };
        let vlan = self.vlan.map_or_else(|| "-".to_owned(), |vlan| vlan.to_string());
        let remote = self
            .remote
            .filter(|_| self.is_flood())
            .map_or_else(|| "-".to_owned(), |remote| remote.to_string());
        Key::from(format!("linux/fdb/{}/{}/{table}/{}/{vlan}/{remote}", self.netns, self.link, self.mac))
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let tunnel = [("port", self.port.is_some()), ("vni", self.vni.is_some())];
        if self.remote.is_none() {
            for (path, _) in tunnel.iter().filter(|(_, is_said)| *is_said) {
                errors.push(error(*path, "needs `remote`"));
            }
        }
        if self.table == FdbTable::Bridge && self.remote.is_some() {
            errors.push(error("remote", "is for the table of a VXLAN, not of a bridge"));
        }
        if self.mac.is_zero() && self.remote.is_none() {
            errors.push(error("mac", "is all zeros, everything else, which needs `remote`"));
        }
        errors
    }
}

/// Describes `linux.fdb`.
pub struct FdbKind;

impl Kind for FdbKind {
    type Value = Fdb;
    const NAME: &'static str = "linux.fdb";
    const KEYS: &'static [&'static str] = &["linux/fdb/*/*/*/*/*/*"];

    fn validate(&self, _key: &Key, fdb: &Fdb) -> Vec<FieldError> {
        fdb.check()
    }

    /// The link, and for the table of its bridge, the binding to it.
    fn needs(&self, _key: &Key, fdb: &Fdb, needs: &mut Needs) {
        needs.on(format_args!("linux/link/{}/{}", fdb.netns, fdb.link));
        if fdb.table == FdbTable::Bridge {
            needs.on(format_args!("linux/port/{}/{}", fdb.netns, fdb.link));
        }
    }

    fn transition(&self, _key: &Key, old: &Fdb, new: &Fdb) -> Transition {
        let mut compared = Compared::default();
        if new.is_flood() {
            compared.fixed("port", &old.port, &new.port);
            compared.fixed("vni", &old.vni, &new.vni);
        }
        compared.field(&old.remote, &new.remote);
        compared.field(&old.port, &new.port);
        compared.field(&old.vni, &new.vni);
        compared.field(&old.state, &new.state);
        compared.transition()
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.link"]
    }

    /// Nothing marks an entry as ours: only what is declared is read.
    fn correlates(&self) -> bool {
        true
    }
}
