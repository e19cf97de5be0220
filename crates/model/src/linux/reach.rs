//! `reach`: the network of an address is reached directly, because the address is there and its link is up.
//!
//! A property, derived with the address. **Why** an item: a route whose link is not named needs *some* address that
//! contains its gateway, on a link that is up. "Some" is a question about keys, so that both together need a key.

use ipnet::IpNet;
use kilter_scheduler::{Key, Kind, Needs, Transition};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::keys;
use super::names::{Name, NetnsName};

/// The network of an address, reached directly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The namespace of the link.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The link.
    pub link: Name,
    /// The address.
    pub address: IpNet,
}

impl Reach {
    /// What an address on a link that is up lets reach: its network, unless it is alone in it or has no route to it, and
    /// its peer.
    pub fn of(
        netns: &NetnsName,
        link: &Name,
        address: &Address,
    ) -> impl Iterator<Item = (Key, Self)> + use<> {
        let network = address.address;
        let is_wide = network.prefix_len() < network.max_prefix_len();
        let own = (is_wide && !address.no_prefix_route).then(|| keys::reach_by_address(netns, link, network));
        let peer = address.peer.map(|peer| keys::reach_by_peer(netns, link, peer));
        let reach = Self { netns: netns.clone(), link: link.clone(), address: network };
        own.into_iter().chain(peer).map(move |key| (key, reach.clone()))
    }
}

/// Describes `linux.reach`.
pub struct ReachKind;

impl Kind for ReachKind {
    type Value = Reach;
    const NAME: &'static str = "linux.reach";
    const KEYS: &'static [&'static str] = &["linux/reach/*/*/*/*/*"];

    /// The address, and the link up, whoever brings it up.
    fn needs(&self, _key: &Key, reach: &Reach, needs: &mut Needs) {
        let Reach { netns, link, address } = reach;
        needs.on(format_args!("linux/address/{netns}/{link}/{address}"));
        needs.on(format_args!("linux/up/{netns}/{link}"));
    }

    /// A network is reached or not; what that needed says nothing about it.
    fn transition(&self, _key: &Key, _old: &Reach, _new: &Reach) -> Transition {
        Transition::Same
    }

    fn is_property(&self) -> bool {
        true
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.address", "linux.up"]
    }
}
