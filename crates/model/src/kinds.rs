//! The list of kinds: one line for each word that may stand after `kind:`, one line for each kind of the scheduler.

use kilter_scheduler::{Descriptor, PatternError, RegisterError, Registry, describe};

use crate::declare::DocumentKind;
use crate::linux::address::AddressKind;
use crate::linux::existing::ExistingKind;
use crate::linux::fdb::FdbKind;
use crate::linux::link::AnyLinkKind;
use crate::linux::neighbour::NeighbourKind;
use crate::linux::netns::NetnsKind;
use crate::linux::nftables::NftablesKind;
use crate::linux::port::PortKind;
use crate::linux::qdisc::QdiscKind;
use crate::linux::reach::ReachKind;
use crate::linux::route::RouteKind;
use crate::linux::rule::RuleKind;
use crate::linux::sysctl::SysctlKind;
use crate::linux::tap::Tun;
use crate::linux::unnumbered::UnnumberedKind;
use crate::linux::up::UpKind;
use crate::linux::{
    Bond, Bridge, Dummy, Existing, Fdb, Ifb, Loopback, Macvlan, Macvtap, Neighbour, Netns, Nftables, Qdisc,
    Route, Rule, Sysctl, Tap, Veth, Vlan, Vrf, Vxlan,
};

/// What may be declared: every word that may stand after `kind:`.
pub const KINDS: &[DocumentKind] = &[
    DocumentKind::item::<Netns>(),
    DocumentKind::link::<Veth>(),
    DocumentKind::link::<Bridge>(),
    DocumentKind::link::<Vxlan>(),
    DocumentKind::link::<Tap>(),
    DocumentKind::link::<Tun>(),
    DocumentKind::link::<Macvlan>(),
    DocumentKind::link::<Macvtap>(),
    DocumentKind::link::<Ifb>(),
    DocumentKind::link::<Dummy>(),
    DocumentKind::link::<Vlan>(),
    DocumentKind::link::<Vrf>(),
    DocumentKind::link::<Bond>(),
    DocumentKind::link::<Loopback>(),
    DocumentKind::item::<Existing>(),
    DocumentKind::item::<Route>(),
    DocumentKind::item::<Rule>(),
    DocumentKind::item::<Neighbour>(),
    DocumentKind::item::<Fdb>(),
    DocumentKind::item::<Sysctl>(),
    DocumentKind::item::<Nftables>(),
    DocumentKind::item::<Qdisc>(),
];

/// The descriptors of the kinds as the scheduler knows them. All kinds of links are one, `linux.link`.
pub fn descriptors() -> Result<Vec<Box<dyn Descriptor>>, PatternError> {
    Ok(vec![
        describe(NetnsKind)?,
        describe(AnyLinkKind)?,
        describe(ExistingKind)?,
        describe(UpKind)?,
        describe(PortKind)?,
        describe(AddressKind)?,
        describe(UnnumberedKind)?,
        describe(ReachKind)?,
        describe(RouteKind)?,
        describe(RuleKind)?,
        describe(NeighbourKind)?,
        describe(FdbKind)?,
        describe(SysctlKind)?,
        describe(NftablesKind)?,
        describe(QdiscKind)?,
    ])
}

/// Registers every kind.
pub fn register(registry: &mut Registry) -> Result<(), RegisterError> {
    for descriptor in descriptors().expect("the patterns of our kinds are well formed") {
        registry.register(descriptor)?;
    }
    Ok(())
}

/// What no document declares by itself: it is derived from a link.
const ONLY_DERIVED: &[&str] =
    &["linux/up/", "linux/port/", "linux/address/", "linux/reach/", "linux/unnumbered/"];

/// Whether the item of this key can only be derived from another one.
pub fn is_only_derived(key: &str) -> bool {
    ONLY_DERIVED.iter().any(|prefix| key.starts_with(prefix))
}

/// The kind of that word.
pub fn find(word: &str) -> Option<&'static DocumentKind> {
    KINDS.iter().find(|kind| kind.word == word)
}
