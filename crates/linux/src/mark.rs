//! Marks: how what is ours is told from what is not. See `docs/adr` for why each mark is what it is.
//!
//! | what | mark |
//! |---|---|
//! | link | its index lies in a range that the kernel does not assign by itself |
//! | address, route, rule, neighbour | the protocol number of the settings |
//! | borrowed address | the number after that |
//! | namespace | a second name of its loopback |
//! | nftables table | its comment |
//!
//! **Why** not an alias or a second name for links: the kernel takes neither while it creates a link, so a crash between
//! two requests would leave a link of ours without its mark. The index is given with the creation, never changes while
//! the link stays in its namespace, and leaves alias, names and group to the user.

use std::sync::atomic::{AtomicU32, Ordering};

/// The first index of ours. The kernel counts up from 1 and gets here after a thousand million links.
pub(crate) const FIRST_INDEX: u32 = 0x4b00_0000;
/// The last index of ours.
pub(crate) const LAST_INDEX: u32 = 0x4bff_ffff;

/// The second name of the loopback in a namespace that we made.
pub(crate) const NETNS_MARK: &str = "kilter-netns";

/// What the file of a namespace contains before the namespace is mounted on it.
pub(crate) const NETNS_FILE_MARK: &str = "kilter\n";

/// What the comment of an nftables table of ours begins with; the digest of its content follows.
pub(crate) const NFTABLES_MARK: &str = "kilter ";

/// Whether a link with this index is ours.
pub(crate) fn is_ours(index: u32) -> bool {
    (FIRST_INDEX..=LAST_INDEX).contains(&index)
}

/// Gives out indexes for new links, each once in the machine, so that one also says which link a peer is.
#[derive(Debug)]
pub(crate) struct Indexes {
    next: AtomicU32,
}

impl Indexes {
    /// Begins anywhere in the range: what an earlier run has made is unlikely to be in the way, and [`Self::seen`]
    /// makes sure of what is known.
    pub(crate) fn starting(seed: u64) -> Self {
        let span = u64::from(LAST_INDEX - FIRST_INDEX) / 2;
        let offset = u32::try_from(seed % span).unwrap_or(0);
        Self { next: AtomicU32::new(FIRST_INDEX + offset) }
    }

    /// An index that was not given out before.
    pub(crate) fn next(&self) -> u32 {
        let next = |index: u32| Some(if index >= LAST_INDEX { FIRST_INDEX } else { index + 1 });
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(FIRST_INDEX)
    }

    /// A link with this index exists.
    pub(crate) fn seen(&self, index: u32) {
        if is_ours(index) && index < LAST_INDEX {
            self.next.fetch_max(index + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_stay_in_their_range_and_above_what_was_seen() {
        let indexes = Indexes::starting(0);
        assert_eq!(indexes.next(), FIRST_INDEX);
        indexes.seen(FIRST_INDEX + 40);
        assert_eq!(indexes.next(), FIRST_INDEX + 41);
        indexes.seen(7);
        assert_eq!(indexes.next(), FIRST_INDEX + 42);
        indexes.next.store(LAST_INDEX, Ordering::Relaxed);
        assert_eq!((indexes.next(), indexes.next()), (LAST_INDEX, FIRST_INDEX));
        assert!(is_ours(LAST_INDEX) && !is_ours(LAST_INDEX + 1) && !is_ours(FIRST_INDEX - 1));
    }
}
