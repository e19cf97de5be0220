//! How cases and sizes are written on the command line.

use anyhow::{Context, Result, bail};

/// Reads `a`, `a..h` (both ends included) or `a,c,f`, and mixtures: `a..c,f`; `end` is the last case there is.
pub(super) fn cases(text: &str, end: char) -> Result<Vec<char>> {
    let mut cases = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (letter(first, text, end)?, letter(last, text, end)?);
        if first > last {
            bail!("case range `{part}` runs backwards, hint: `{last}..{first}`");
        }
        cases.extend(first..=last);
    }
    Ok(cases)
}

fn letter(text: &str, whole: &str, end: char) -> Result<char> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(letter), None) if ('a'..=end).contains(&letter) => Ok(letter),
        _ => bail!(
            "`{text}` in `{whole}` is not a case, hint: a letter from a to {end}, a range `a..{end}` or a list `a,b`"
        ),
    }
}

/// Reads `10000` or `1_000,10_000`.
pub(super) fn sizes(text: &str) -> Result<Vec<u64>> {
    text.split(',').map(|part| size(part, text)).collect()
}

fn size(text: &str, whole: &str) -> Result<u64> {
    let size = text
        .replace('_', "")
        .parse()
        .with_context(|| format!("`{text}` in `{whole}` is not a size, hint: `10000` or `1000,10000`"))?;
    if size == 0 {
        bail!("a size of 0 measures nothing, hint: `10000`");
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_letters_ranges_and_lists() {
        assert_eq!(cases("a", 'h').unwrap(), ['a']);
        assert_eq!(cases("b..d", 'h').unwrap(), ['b', 'c', 'd']);
        assert_eq!(cases("a,c..d,h", 'h').unwrap(), ['a', 'c', 'd', 'h']);
    }

    #[test]
    fn what_is_not_a_case_is_named() {
        for wrong in ["", "z", "ab", "a..", "a,,b", "A"] {
            assert!(cases(wrong, 'h').is_err(), "{wrong}");
        }
        assert!(cases("a..c", 'b').unwrap_err().to_string().contains("from a to b"));
        assert!(cases("d..b", 'h').unwrap_err().to_string().contains("`b..d`"));
    }

    #[test]
    fn sizes_are_whole_numbers_above_zero() {
        assert_eq!(sizes("1_000,10000").unwrap(), [1000, 10_000]);
        for wrong in ["", "0", "ten", "1,,2", "-1", "1.5"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
