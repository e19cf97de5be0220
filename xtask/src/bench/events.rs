//! The table of `--check` for the event loop: measurements beside the budget of the loop's own time.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

const MICROSECONDS_PER_EVENT: f64 = 3.0;

/// The table: one row per JSON line, in the order they were made.
pub(super) fn table(lines: &[(char, u64, String)]) -> Result<String> {
    let mut text = format!(
        "{:<5}{:>10}{:>16}{:>18}{:>14}{:>16}\n",
        "case", "n", "events/CPU-s", "own us/event", "peak MiB", "history events"
    );
    for (case, size, line) in lines {
        let value: Value = serde_json::from_str(line).with_context(|| format!("not a JSON line: {line}"))?;
        let number = |field: &str| {
            value[field].as_f64().with_context(|| format!("no number `{field}` in the JSON line: {line}"))
        };
        let own = number("overhead_us_per_event")?;
        let mark = if own > MICROSECONDS_PER_EVENT { " over" } else { "" };
        writeln!(
            text,
            "{case:<5}{size:>10}{:>16.0}{:>18}{:>14.1}{:>16.0}",
            number("events_per_cpu_second")?,
            format!("{own:.2}{mark}"),
            number("peak_rss_kb")? / 1024.0,
            number("history_events")?
        )
        .context("could not write the table")?;
    }
    writeln!(text, "budget: {MICROSECONDS_PER_EVENT} us/event besides the scheduler").context("no table")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(own: f64) -> String {
        format!(
            r#"{{"overhead_us_per_event":{own},"events_per_cpu_second":500000.4,"peak_rss_kb":2048,"history_events":7}}"#
        )
    }

    #[test]
    fn what_is_over_the_budget_is_marked() {
        let table = table(&[('a', 10, line(2.9)), ('b', 10, line(3.1))]).unwrap();
        let rows: Vec<&str> = table.lines().collect();
        assert!(rows[1].contains("2.90") && !rows[1].contains("over"), "{table}");
        assert!(rows[2].contains("3.10 over") && rows[2].contains("500000"), "{table}");
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = table(&[('a', 10, "{}".to_owned())]).unwrap_err().to_string();
        assert!(error.contains("`overhead_us_per_event`"), "{error}");
    }
}
