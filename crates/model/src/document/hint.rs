//! "Did you mean": the closest of the words that are allowed.

/// The allowed word that is closest to what was written, if one is close enough to have been meant.
pub fn closest<'a>(written: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written: Vec<char> = written.to_lowercase().chars().collect();
    if written.len() > 64 {
        return None;
    }
    let enough = (written.len() / 3).max(1);
    let distances =
        allowed.into_iter().map(|word| (distance(&written, &word.chars().collect::<Vec<_>>()), word));
    distances.filter(|(distance, _)| *distance <= enough).min().map(|(_, word)| word)
}

/// How many letters have to be added, dropped, changed or swapped with their neighbour.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut row = vec![at + 1];
        for (to, wanted) in other.iter().enumerate() {
            let change = last[to] + usize::from(letter != wanted);
            let mut best = change.min(last[to + 1] + 1).min(row[to] + 1);
            let is_swap = at > 0 && to > 0 && *letter == other[to - 1] && one[at - 1] == *wanted;
            if is_swap {
                best = best.min(before[to - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

/// A list of words for people: `` `a`, `b` or `c` ``.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_is_meant() {
        let words = ["bridge", "bond", "veth", "vlan", "vxlan"];
        for (written, meant) in [
            ("brigde", Some("bridge")),
            ("Bridge", Some("bridge")),
            ("vlna", Some("vlan")),
            ("vxlans", Some("vxlan")),
            ("bonds", Some("bond")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(closest(written, words), meant, "{written}");
        }
    }

    #[test]
    fn a_swap_is_one_step() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (one, other, expected) in
            [("ab", "ba", 1), ("abc", "abc", 0), ("", "ab", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(&chars(one), &chars(other)), expected, "{one} {other}");
        }
    }
}
