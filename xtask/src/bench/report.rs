//! The table of `--check`: measurements beside the budgets of DESIGN §6.
//!
//! Decided here: the budgets, and how growth between two sizes is brought to "per ten times the items". The table
//! reports; it never decides a test, because a timing depends on the machine and its neighbours.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// Cases whose CPU time per vertex has a budget.
const CASES_PER_VERTEX: std::ops::RangeInclusive<char> = 'a'..='e';
/// The case whose time must not depend on the size of the graph.
const CASE_INDEPENDENT: char = 'f';

const MICROSECONDS_PER_VERTEX: f64 = 2.5;
const GROWTH_PER_TEN_TIMES: f64 = 12.0;
const INDEPENDENT_RATIO: f64 = 2.0;
const BYTES_PER_VERTEX: f64 = 1024.0;

/// One line of the benchmark program, as far as the budgets need it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measurement {
    case: char,
    size: u64,
    vertices: f64,
    cpu_ms: f64,
    peak_rss_kb: f64,
}

impl Measurement {
    /// Reads the JSON line of one case and size.
    pub(super) fn read(case: char, size: u64, line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line).with_context(|| format!("not a JSON line: {line}"))?;
        let number = |field: &str| {
            value[field].as_f64().with_context(|| format!("no number `{field}` in the JSON line: {line}"))
        };
        Ok(Self {
            case,
            size,
            vertices: number("vertices")?,
            cpu_ms: number("cpu_ms")?,
            peak_rss_kb: number("peak_rss_kb")?,
        })
    }

    fn microseconds_per_vertex(&self) -> f64 {
        self.cpu_ms * 1000.0 / self.vertices
    }

    fn bytes_per_vertex(&self) -> f64 {
        self.peak_rss_kb * 1024.0 / self.vertices
    }

    /// How the time grew since a smaller size of the same case, brought to ten times the items; for the independent
    /// case the plain ratio.
    fn growth_since(&self, smaller: &Self) -> f64 {
        let ratio = self.cpu_ms / smaller.cpu_ms;
        if self.case == CASE_INDEPENDENT {
            return ratio;
        }
        let decades = (self.size as f64 / smaller.size as f64).log10();
        ratio.powf(1.0 / decades)
    }
}

/// The table: one row per measurement, in the order they were made.
pub(super) fn table(measurements: &[Measurement], history: bool) -> String {
    let mut text = format!(
        "{:<5}{:>10}{:>11}{:>12}{:>15}{:>15}{:>15}\n",
        "case", "n", "vertices", "cpu ms", "us/vertex", "growth/10x", "bytes/vertex"
    );
    for (index, measurement) in measurements.iter().enumerate() {
        let Measurement { case, size, vertices, cpu_ms, .. } = measurement;
        let mut earlier =
            measurements[..index].iter().filter(|other| other.case == *case && other.size < *size);
        // The independent case is held to its first size, so that small steps do not add up unseen.
        let smaller = if *case == CASE_INDEPENDENT { earlier.next() } else { earlier.next_back() };
        let time = measurement.microseconds_per_vertex();
        let time = cell(time, CASES_PER_VERTEX.contains(case).then_some(MICROSECONDS_PER_VERTEX));
        let limit = if *case == CASE_INDEPENDENT { INDEPENDENT_RATIO } else { GROWTH_PER_TEN_TIMES };
        let growth = smaller
            .map_or_else(|| "-".to_owned(), |smaller| cell(measurement.growth_since(smaller), Some(limit)));
        let memory = cell(measurement.bytes_per_vertex(), (!history).then_some(BYTES_PER_VERTEX));
        let _ = writeln!(
            text,
            "{case:<5}{size:>10}{vertices:>11.0}{cpu_ms:>12.2}{time:>15}{growth:>15}{memory:>15}"
        );
    }
    let _ = writeln!(
        text,
        "budgets: a-e {MICROSECONDS_PER_VERTEX} us/vertex; growth {GROWTH_PER_TEN_TIMES}x per 10x n; \
         {CASE_INDEPENDENT} at most {INDEPENDENT_RATIO}x between sizes; \
         {BYTES_PER_VERTEX} bytes/vertex with --no-history"
    );
    text
}

/// A number, marked where it exceeds its budget; `-` where it could not be computed.
fn cell(value: f64, budget: Option<f64>) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let mark = if budget.is_some_and(|budget| value > budget) { " over" } else { "" };
    let digits = if value < 100.0 { 2 } else { 0 };
    format!("{value:.digits$}{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(case: char, size: u64, cpu_ms: f64, peak_rss_kb: f64) -> Measurement {
        Measurement { case, size, vertices: size as f64, cpu_ms, peak_rss_kb }
    }

    fn row(table: &str, index: usize) -> &str {
        table.lines().nth(index + 1).unwrap()
    }

    #[test]
    fn a_line_is_read_and_a_missing_field_named() {
        let line = r#"{"case":"a","n":10,"vertices":20,"cpu_ms":1.5,"peak_rss_kb":4096,"extra":true}"#;
        let read = Measurement::read('a', 10, line).unwrap();
        assert_eq!(
            read,
            Measurement { case: 'a', size: 10, vertices: 20.0, cpu_ms: 1.5, peak_rss_kb: 4096.0 }
        );
        let error = Measurement::read('a', 10, r#"{"vertices":20}"#).unwrap_err().to_string();
        assert!(error.contains("`cpu_ms`"), "{error}");
    }

    #[test]
    fn within_budget_nothing_is_marked() {
        let rows = [measured('a', 1000, 2.0, 900.0), measured('a', 10_000, 22.0, 9_000.0)];
        assert!(!table(&rows, false).contains("over"));
    }

    #[test]
    fn time_per_vertex_has_a_budget_in_the_first_cases_only() {
        let rows = [measured('a', 1000, 2.6, 0.0), measured('g', 1000, 2.6, 0.0)];
        let table = table(&rows, true);
        assert!(row(&table, 0).contains("2.60 over"), "{table}");
        assert!(!row(&table, 1).contains("over"), "{table}");
    }

    #[test]
    fn growth_is_counted_per_ten_times_the_items() {
        let rows = [
            measured('g', 100, 1.0, 0.0),
            measured('g', 10_000, 121.0, 0.0),
            measured('g', 100_000, 1694.0, 0.0),
        ];
        let table = table(&rows, true);
        assert!(row(&table, 1).contains("11.00") && !row(&table, 1).contains("over"), "{table}");
        assert!(row(&table, 2).contains("14.00 over"), "{table}");
    }

    #[test]
    fn the_independent_case_may_not_grow() {
        let rows = [measured('f', 10, 1.0, 0.0), measured('f', 100, 1.5, 0.0), measured('f', 1000, 2.5, 0.0)];
        let table = table(&rows, true);
        assert!(row(&table, 1).contains("1.50") && !row(&table, 1).contains("over"), "{table}");
        assert!(row(&table, 2).contains("2.50 over"), "{table}");
    }

    #[test]
    fn memory_has_a_budget_without_history_only() {
        let rows = [measured('a', 1000, 1.0, 1_100.0)];
        assert!(row(&table(&rows, false), 0).contains("1126 over"));
        assert!(!table(&rows, true).contains("over"));
    }

    #[test]
    fn what_cannot_be_computed_is_a_dash() {
        let rows = [measured('h', 10, 0.0, 0.0), measured('h', 100, 5.0, 0.0)];
        assert!(row(&table(&rows, true), 1).contains(" - "), "{}", table(&rows, true));
    }
}
