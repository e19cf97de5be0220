//! Long lists, page by page.
//!
//! Decided here: how large a page may be, and what leads to the next one: the last key of a list by key, the first position
//! of a list that goes back in time. Whoever asks need not know which.

use kilter_api::v1::{Problem, Reason};

/// As much as one page holds.
pub(super) const LARGEST: usize = 10_000;

/// How many are asked for, with both ways to say it; zero says nothing.
pub(super) fn size(last: u32, page_size: u32) -> Option<usize> {
    let page = (page_size > 0).then(|| (page_size as usize).min(LARGEST));
    let last = (last > 0).then_some(last as usize);
    page.into_iter().chain(last).min()
}

/// The position before which a page ends; none for the newest page.
pub(super) fn before(token: &str) -> Result<Option<u64>, Problem> {
    if token.is_empty() {
        return Ok(None);
    }
    token.parse().map(Some).map_err(|_| {
        Problem::new(Reason::Invalid, format!("`{token}` leads to no page"))
            .with_hint("take the `next_page_token` of the page before")
    })
}

/// Cuts a list by key to a page; the key after which the next one begins, if there is one.
pub(super) fn cut<T>(list: &mut Vec<T>, size: usize, key: impl Fn(&T) -> &String) -> Option<String> {
    (list.len() > size).then(|| {
        list.truncate(size);
        list.last().map(|last| key(last).clone()).unwrap_or_default()
    })
}

/// Cuts a list that goes back in time, the oldest first, to the newest; what leads to the page before, if there is one.
pub(super) fn cut_newest<T>(list: &mut Vec<T>, size: Option<usize>, seq: impl Fn(&T) -> u64) -> String {
    let older = list.len().saturating_sub(size.unwrap_or(usize::MAX));
    let Some(first) = list.get(older).map(&seq).filter(|_| older > 0) else { return String::new() };
    // What belongs to one position is told whole.
    let older = list.partition_point(|one| seq(one) < first);
    list.drain(..older);
    if older == 0 { String::new() } else { first.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_both_sizes_counts_and_none_means_all() {
        assert_eq!([size(0, 0), size(3, 0), size(0, 4), size(3, 4)], [None, Some(3), Some(4), Some(3)]);
        assert_eq!(size(0, u32::MAX), Some(LARGEST));
        assert_eq!(
            size(u32::MAX, 0),
            Some(u32::MAX as usize),
            "who asks for so many of the newest gets them"
        );
    }

    #[test]
    fn what_belongs_to_one_position_is_not_torn() {
        let mut list = vec![1, 2, 2, 2, 3];
        assert_eq!(cut_newest(&mut list, Some(2), |seq| *seq), "2");
        assert_eq!(list, [2, 2, 2, 3]);
        let mut list = vec![2, 2];
        assert_eq!(cut_newest(&mut list, Some(1), |seq| *seq), "", "nothing is before it");
        assert_eq!(list, [2, 2]);
        assert_eq!(cut_newest(&mut Vec::<u64>::new(), Some(1), |seq| *seq), "");
        assert_eq!(before("").unwrap(), None);
        assert_eq!(before("7").unwrap(), Some(7));
        assert!(before("seven").is_err());
    }
}
