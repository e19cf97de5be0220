//! Spans of time as people write them: `500ms`, `90s`, `2m`, `1h30m`, `30d`.
//!
//! Decided here, once: how every setting and every argument spells a span. As a module for `#[serde(with)]` it reads and
//! writes the same text.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// The units, from the smallest to the largest, in milliseconds.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Why a text is no span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// It is not written as a span.
    #[error("a span is like `90s`, `2m`, `1h30m` or `500ms`")]
    Form,
    /// It is longer than anything can take.
    #[error("that is longer than anybody waits")]
    Long,
}

/// Reads a span of time.
pub fn parse(text: &str) -> Result<Duration, SpanError> {
    let mut millis: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(SpanError::Form);
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| SpanError::Form)?;
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(SpanError::Form)?;
        let part = number.checked_mul(*size).ok_or(SpanError::Long)?;
        millis = millis.checked_add(part).ok_or(SpanError::Long)?;
        rest = after;
    }
    Ok(Duration::from_millis(millis))
}

/// Shows a span in the largest unit that tells it exactly.
pub fn shown(span: Duration) -> impl fmt::Display {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let fits = |unit: &&(&str, u64)| millis.is_multiple_of(unit.1);
    // Days are for reading: `24h` is how a day is written.
    let (unit, size) = UNITS[..4].iter().rev().find(fits).unwrap_or(&UNITS[0]);
    format!("{}{unit}", millis / size)
}

/// Writes a span as text.
pub fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&shown(*span))
}

/// Reads a span out of text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(|error| D::Error::custom(format!("`{text}` is not a span of time, hint: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "2", "m", "2 m", "-1s", "99999999999999999999s", "9999999999999999999h"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in ["0h", "250ms", "5s", "90s", "2m", "24h"] {
            assert_eq!(shown(parse(text).unwrap()).to_string(), text);
        }
    }
}
