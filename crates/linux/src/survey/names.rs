//! Names for what the kernel numbers: links below, other ends, namespaces of others.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;

use kilter_model::linux::{LinkRef, Name, NetnsName};

use crate::link::read::{Seen, SeenKind, read_index_of};
use crate::netlink::message::u32_at;
use crate::netlink::{Attributes, Message, Received};
use crate::shared::Shared;
use crate::space::Space;

const GETNSID: u16 = 90;
const NSID: u16 = 1;
const NSID_OF_FD: u16 = 3;

/// Finds the names of links by their index, as seen from one namespace.
pub(super) struct Names<'a> {
    pub(super) shared: &'a Shared,
    netns: &'a NetnsName,
    pub(super) space: &'a Space,
    here: HashMap<u32, Name>,
    /// The namespaces by the number that this one has for them; filled when one is asked for.
    numbered: Option<HashMap<i32, NetnsName>>,
}

impl<'a> Names<'a> {
    pub(super) fn new(shared: &'a Shared, netns: &'a NetnsName, space: &'a Space, links: &[Seen]) -> Self {
        let here = links.iter().map(|link| (link.index, link.name.clone())).collect();
        Self { shared, netns, space, here, numbered: None }
    }

    /// The name of a link in this namespace.
    pub(super) fn here(&mut self, index: u32) -> Option<Name> {
        if let Some(name) = self.here.get(&index) {
            return Some(name.clone());
        }
        let seen = read_index_of(&mut self.space.requests(), index).ok().flatten()?;
        self.here.insert(index, seen.name.clone());
        Some(seen.name)
    }

    /// The link below, or the other end.
    pub(super) fn lower(&mut self, seen: &Seen) -> Option<LinkRef> {
        let index = seen.lower.filter(|index| *index != seen.index || seen.lower_netns.is_some())?;
        // An index of ours is the only one of its kind, wherever it is and whatever it is called for the moment.
        if let Some((netns, name)) = self.shared.link_made_with(index) {
            return Some(LinkRef::seen_from(self.netns, &NetnsName::new(netns), name));
        }
        let Some(number) = seen.lower_netns else {
            return self.here(index).map(LinkRef::here);
        };
        let netns = self.namespace(number)?;
        let space = self.shared.spaces.get(netns.as_str()).ok()?;
        let found = read_index_of(&mut space.requests(), index).ok().flatten()?;
        Some(LinkRef::seen_from(self.netns, &netns, &found.name))
    }

    /// The preferred port of a bond.
    pub(super) fn primary(&mut self, seen: &Seen) -> Option<Name> {
        if let SeenKind::Bond(_, Some(primary)) = &seen.kind { self.here(*primary) } else { None }
    }

    fn namespace(&mut self, number: i32) -> Option<NetnsName> {
        if self.numbered.is_none() {
            let names = super::namespaces(self.shared).unwrap_or_default();
            let numbers = names.into_iter().filter_map(|name| Some((self.number_of(&name)?, name)));
            self.numbered = Some(numbers.collect());
        }
        self.numbered.as_ref()?.get(&number).cloned()
    }

    /// The number that this namespace has for another one.
    fn number_of(&self, name: &NetnsName) -> Option<i32> {
        let handle = self.shared.spaces.find(name.as_str()).ok().flatten()?;
        let mut request = Message::new(GETNSID, 0).body(&[0; 4]);
        request.u32(NSID_OF_FD, u32::try_from(handle.as_raw_fd()).ok()?);
        let read = self.space.requests().read(&request, decode_number);
        read.ok().flatten().filter(|number| *number >= 0)
    }
}

/// Reads the message that tells the number of a namespace.
pub(crate) fn decode_number(received: &Received<'_>) -> Option<i32> {
    let number = Attributes::after(received.payload, 4).get(NSID)?;
    u32_at(number.payload, 0).map(u32::cast_signed)
}
