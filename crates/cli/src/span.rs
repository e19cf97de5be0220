//! Spans of time as people write them: `90s`, `2m`, `1h30m`, `500ms`.

use std::time::Duration;

/// Reads a span of time.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    const ALLOWED: &str = "a span is like `90s`, `2m`, `1h30m` or `500ms`";
    let mut span = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(ALLOWED.to_owned());
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| ALLOWED.to_owned())?;
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(ALLOWED.to_owned()),
        };
        let part = number.checked_mul(millis).ok_or("that is longer than anybody waits")?;
        span = span.saturating_add(Duration::from_millis(part));
        rest = after;
    }
    Ok(span)
}

/// A span as the wire says it.
pub(crate) fn wire(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "2", "m", "2 m", "-1s", "99999999999999999999s", "9999999999999999999h"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
