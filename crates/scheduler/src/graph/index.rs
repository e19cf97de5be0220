//! An index of keys by prefix that costs next to nothing until it is asked.
//!
//! New keys are only noted. The first question sorts them into runs whose sizes grow geometrically, so that noting N
//! keys and asking M questions costs O(N log N + M (log² N + answers)), whatever their order.

use super::node::Id;

/// A vertex as the index knows it. Numbers are reused, so a generation tells old entries from new ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: Id,
    pub(crate) generation: u32,
}

#[derive(Default)]
pub(crate) struct KeyIndex {
    fresh: Vec<Entry>,
    runs: Vec<Vec<Entry>>,
}

impl KeyIndex {
    /// Notes a new key.
    pub(crate) fn note(&mut self, entry: Entry) {
        self.fresh.push(entry);
    }

    /// Calls `found` for every live vertex whose key starts with the prefix, in key order within a run.
    /// `key_of` gives the key of an entry, or `None` if the entry is out of date.
    pub(crate) fn find<'a>(
        &mut self,
        prefix: &str,
        key_of: impl Fn(Entry) -> Option<&'a str> + Copy,
        mut found: impl FnMut(Id),
    ) {
        self.settle(key_of);
        for run in &self.runs {
            // Entries that went out of date have no key to compare; they are skipped by widening the search.
            let start = lower_bound(run, prefix, key_of);
            for entry in &run[start..] {
                match key_of(*entry) {
                    None => {}
                    Some(key) if key.starts_with(prefix) => found(entry.id),
                    Some(key) if key < prefix => {}
                    Some(_) => break,
                }
            }
        }
    }

    /// Sorts the fresh entries into a run and merges runs of similar size.
    fn settle<'a>(&mut self, key_of: impl Fn(Entry) -> Option<&'a str> + Copy) {
        if self.fresh.is_empty() {
            return;
        }
        let mut run = std::mem::take(&mut self.fresh);
        run.retain(|entry| key_of(*entry).is_some());
        run.sort_by(|a, b| key_of(*a).cmp(&key_of(*b)));
        while let Some(last) = self.runs.pop_if(|last| last.len() <= run.len() * 2) {
            run = merge(last, run, key_of);
        }
        if !run.is_empty() {
            self.runs.push(run);
        }
    }
}

fn lower_bound<'a>(run: &[Entry], prefix: &str, key_of: impl Fn(Entry) -> Option<&'a str> + Copy) -> usize {
    let (mut low, mut high) = (0, run.len());
    while low < high {
        let middle = low + (high - low) / 2;
        // The nearest live entry at or after the middle decides for it.
        let live = (middle..high).find_map(|at| key_of(run[at]).map(|key| (at, key)));
        match live {
            Some((at, key)) if key < prefix => low = at + 1,
            Some(_) | None => high = middle,
        }
    }
    low
}

fn merge<'a>(a: Vec<Entry>, b: Vec<Entry>, key_of: impl Fn(Entry) -> Option<&'a str> + Copy) -> Vec<Entry> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let mut b = b.into_iter().filter(|entry| key_of(*entry).is_some()).peekable();
    for entry in a {
        let Some(key) = key_of(entry) else { continue };
        while let Some(next) = b.next_if(|next| key_of(*next).is_some_and(|other| other < key)) {
            merged.push(next);
        }
        merged.push(entry);
    }
    merged.extend(b);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_live_keys_by_plain_text_prefix_whatever_the_insertion_order() {
        let keys = ["b/2", "a/1", "ab", "a/10", "c", "a/2", "a/1x", "b"];
        let alive = |entry: Entry| (entry.generation == 0).then(|| keys[entry.id as usize]);
        let mut index = KeyIndex::default();
        let mut seen = Vec::new();
        for id in 0..8 {
            index.note(Entry { id, generation: u32::from(keys[id as usize] == "a/10") });
            seen.clear();
            index.find("a/1", alive, |id| seen.push(keys[id as usize]));
        }
        seen.sort_unstable();
        assert_eq!(seen, ["a/1", "a/1x"]);
        let mut all = 0;
        index.find("", alive, |_| all += 1);
        assert_eq!(all, 7);
    }
}
