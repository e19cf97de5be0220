//! What the northbound is held against: the drawing's CPU time, what watchers cost the loop, and that nothing is lost at
//! the rate that is meant.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// A picture of 5 000 vertices takes at most this long, in CPU milliseconds; more in proportion.
const DRAWING_MS: f64 = 2000.0;
/// A thousand watchers slow the loop by at most this much, in percent.
const WATCHERS_PERCENT: f64 = 10.0;
/// While a watcher does not read, so many changes happen in a second, but for a few percent: with fewer it proves nothing.
const CHANGES_PER_SECOND: f64 = 10_000.0;
const SHORT_PERCENT: f64 = 5.0;

/// One line for each measurement that has a budget, and whether every budget is kept.
pub(super) fn table(lines: &[(char, u64, String)]) -> Result<(String, bool)> {
    let mut text = String::new();
    let mut kept = true;
    for (case, size, line) in lines {
        let measured: Value = serde_json::from_str(line).context("a measurement is JSON")?;
        let number = |name: &str| measured[name].as_f64().with_context(|| format!("`{name}` in {line}"));
        let budgets = match case {
            'a' => vec![("drawing, CPU ms", number("cpu_ms")?, DRAWING_MS * *size as f64 / 5000.0)],
            'e' => vec![("slower with watchers, %", number("slower_percent")?, WATCHERS_PERCENT)],
            'f' => {
                let short = 100.0 * (1.0 - number("changes_per_second")? / CHANGES_PER_SECOND);
                vec![
                    ("items not told", number("missing")?, 0.0),
                    ("fewer changes/s than meant, %", short.max(0.0), SHORT_PERCENT),
                ]
            }
            _ => continue,
        };
        for (what, is, budget) in budgets {
            let verdict = if is <= budget { "within" } else { "OVER" };
            kept &= is <= budget;
            writeln!(text, "{case} {size:>9}  {what:<30} {is:>10.1}  budget {budget:>8.1}  {verdict}")?;
        }
    }
    Ok((text, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_its_budget_is_told() {
        let line = |case: char, text: &str| (case, 5000, text.to_owned());
        let verdicts = |text: &str| -> Vec<String> {
            text.lines().filter_map(|line| line.split_whitespace().next_back()).map(str::to_owned).collect()
        };
        let lines = [line('a', "{\"cpu_ms\": 2500}"), line('e', "{\"slower_percent\": 4}")];
        let (text, kept) = table(&lines).unwrap();
        assert_eq!((verdicts(&text), kept), (vec!["OVER".to_owned(), "within".to_owned()], false));
        assert!(table(&lines[1..]).unwrap().1);
        let slow = line('f', "{\"missing\": 0, \"changes_per_second\": 5000}");
        let (text, kept) = table(&[slow]).unwrap();
        assert_eq!((verdicts(&text), kept), (vec!["within".to_owned(), "OVER".to_owned()], false));
        let (_, kept) = table(&[line('f', "{\"missing\": 0, \"changes_per_second\": 9990}")]).unwrap();
        assert!(kept);
        assert!(table(&[line('a', "{}")]).is_err());
    }
}
