//! A clock that moves only when told.

use std::time::Duration;

use kilter_scheduler::Timestamp;

/// Virtual time. It starts at one hour after the epoch, so that nothing works by accident because time is zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now: Timestamp,
}

impl Default for Clock {
    fn default() -> Self {
        Self { now: Timestamp::default().after(Duration::from_secs(3600)) }
    }
}

impl Clock {
    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves forward by a span.
    pub fn advance(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// Moves forward to a moment; a moment in the past changes nothing.
    pub fn advance_to(&mut self, moment: Timestamp) {
        self.now = self.now.max(moment);
    }
}

/// Reads a span such as `500ms`, `3s` or `2m`.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is not a span of time"))?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        _ => Err(format!("`{text}` is not a span of time: the unit is one of ms, s, m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_only_forward() {
        let mut clock = Clock::default();
        let start = clock.now();
        clock.advance(Duration::from_secs(2));
        clock.advance_to(start);
        assert_eq!(clock.now().since(start), Duration::from_secs(2));
    }

    #[test]
    fn spans_have_a_number_and_a_unit() {
        assert_eq!(parse_span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_span("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(parse_span("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_span("3").is_err());
        assert!(parse_span("s").is_err());
    }
}
