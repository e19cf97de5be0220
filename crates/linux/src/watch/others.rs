//! The addresses that others put on links: known, because the kernel does not tell of them when their link goes up or down.

use std::collections::HashMap;

use kilter_model::linux::Address;

/// The addresses of others by the index of their link.
#[derive(Debug, Default)]
pub(super) struct Others(HashMap<u32, Vec<Address>>);

impl Others {
    /// An address is there, or is another one than it was.
    pub(super) fn come(&mut self, index: u32, address: Address) {
        let addresses = self.0.entry(index).or_default();
        addresses.retain(|other| other.address != address.address);
        addresses.push(address);
    }

    /// An address went.
    pub(super) fn go(&mut self, index: u32, address: &Address) {
        if let Some(addresses) = self.0.get_mut(&index) {
            addresses.retain(|other| other.address != address.address);
        }
    }

    /// A link went, and its addresses with it.
    pub(super) fn forget(&mut self, index: u32) {
        self.0.remove(&index);
    }

    /// All addresses, each with the index of its link.
    pub(super) fn all(self) -> impl Iterator<Item = (u32, Address)> {
        self.0.into_iter().flat_map(|(index, on)| on.into_iter().map(move |address| (index, address)))
    }

    /// The addresses on a link.
    pub(super) fn on(&self, index: u32) -> &[Address] {
        self.0.get(&index).map_or(&[], Vec::as_slice)
    }
}
