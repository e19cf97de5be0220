//! Which listings of whole kinds are still believed to the letter.
//!
//! Decided here: when a full read may be asked for as "is it as you listed it?". **Guarantees**: as long as a listing is
//! kept, taking it in once more would change nothing.

use crate::operation::Listing;
use crate::registry::KindId;

/// The last listing of each kind, as long as nothing about the kind was learnt in another way.
#[derive(Default)]
pub(crate) struct Listings(Vec<Option<Listing>>);

impl Listings {
    pub(crate) fn get(&self, kind: KindId) -> Option<Listing> {
        self.0.get(kind.index()).copied().flatten()
    }

    pub(crate) fn keep(&mut self, kind: KindId, listing: Listing) {
        if self.0.len() <= kind.index() {
            self.0.resize(kind.index() + 1, None);
        }
        self.0[kind.index()] = Some(listing);
    }

    pub(crate) fn forget(&mut self, kind: KindId) {
        if let Some(listing) = self.0.get_mut(kind.index()) {
            *listing = None;
        }
    }
}
