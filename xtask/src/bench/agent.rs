//! `cargo xtask bench agent`: the program as it is built for users, and the table of `--check` beside the budgets.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::selection;

pub(super) const HELP: &str = "\
Benchmarks of the agent as a program, one JSON line per step.

usage: cargo xtask bench agent [OPTIONS]

options:
  --n N[,N...]    how many routes are declared and present (default 10000)
  --check         afterwards a table against the budgets, on stderr; the exit code is 1 if one is missed

It runs in a sandbox; nothing of the machine is touched.
";

/// How long the agent may take until it is ready, and how much it may occupy when nothing is declared.
const READY_MS: f64 = 300.0;
const IDLE_KB: f64 = 40.0 * 1024.0;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    sizes: Vec<u64>,
    check: bool,
}

pub(super) fn parse(options: &[String]) -> Result<Request> {
    let mut request = Request { sizes: vec![10_000], check: false };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--n" => {
                let sizes = options.next().context("`--n` needs a value, hint: `--n 10000`")?;
                request.sizes = selection::sizes(sizes)?;
            }
            "--check" => request.check = true,
            unknown => bail!("unknown option `{unknown}`, hint: one of `--n`, `--check`"),
        }
    }
    Ok(request)
}

/// Measures every size; says whether the budgets are kept, if that was asked.
pub(super) fn run(bench: &Path, program: &Path, request: &Request) -> Result<bool> {
    let mut lines = Vec::new();
    for size in &request.sizes {
        let output = Command::new(bench)
            .arg("--program")
            .arg(program)
            .args(["--n", &size.to_string()])
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("could not start {}", bench.display()))?;
        std::io::stdout().write_all(&output.stdout).context("could not write the measurement")?;
        if !output.status.success() {
            bail!("`bench-agent --n {size}` failed ({})", output.status);
        }
        let text = String::from_utf8(output.stdout).context("the benchmark printed bytes, not text")?;
        lines.extend(text.lines().map(str::to_owned));
    }
    if !request.check {
        return Ok(true);
    }
    let (table, kept) = table(&lines)?;
    eprint!("{table}");
    Ok(kept)
}

/// One row for each JSON line, and whether every budget is kept.
fn table(lines: &[String]) -> Result<(String, bool)> {
    let mut text = format!("{:<18}{:>8}  {}\n", "step", "n", "measured");
    let mut kept = true;
    for line in lines {
        let value: Value = serde_json::from_str(line).with_context(|| format!("not a JSON line: {line}"))?;
        let step = value["step"].as_str().with_context(|| format!("no `step` in the JSON line: {line}"))?;
        let budgets: &[(&str, f64)] = match step {
            "start" | "start-directory" => &[("p50_ms", READY_MS)],
            // What is declared, and the transaction that made it, are kept in memory besides.
            "idle" if value["n"] == 0 => &[("rss_kb", IDLE_KB)],
            _ => &[],
        };
        for (field, _) in budgets {
            value[*field]
                .as_f64()
                .with_context(|| format!("no number `{field}` in the JSON line: {line}"))?;
        }
        let mut measured = Vec::new();
        for (field, number) in value.as_object().into_iter().flatten() {
            let Some(number) = number.as_f64().filter(|_| field != "n") else { continue };
            let is_over = budgets.iter().any(|(name, budget)| name == field && number > *budget);
            kept &= !is_over;
            measured.push(format!("{field} {number:.1}{}", if is_over { " over" } else { "" }));
        }
        writeln!(text, "{step:<18}{:>8}  {}", value["n"], measured.join("  "))?;
    }
    writeln!(text, "budgets: ready within {READY_MS} ms, {IDLE_KB} kB with nothing declared")?;
    Ok((text, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_named() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parsed("").unwrap(), Request { sizes: vec![10_000], check: false });
        assert_eq!(parsed("--n 10,20 --check").unwrap(), Request { sizes: vec![10, 20], check: true });
        assert!(parsed("--size 7").unwrap_err().to_string().contains("`--size`"));
    }

    #[test]
    fn a_missed_budget_is_marked_and_told() {
        let good = r#"{"step":"start","n":0,"p50_ms":20.5,"max_ms":900}"#.to_owned();
        let (text, kept) = table(std::slice::from_ref(&good)).unwrap();
        assert!(kept && !text.contains("over"), "{text}");
        let large = r#"{"step":"idle","n":9,"rss_kb":50000}"#.to_owned();
        let (text, kept) = table(&[good.clone(), large]).unwrap();
        assert!(kept && !text.contains("over"), "{text}");
        let bad = r#"{"step":"idle","n":0,"rss_kb":50000}"#.to_owned();
        let (text, kept) = table(&[good, bad]).unwrap();
        assert!(!kept && text.contains("rss_kb 50000.0 over"), "{text}");
        assert!(table(&[r#"{"step":"start","n":0}"#.to_owned()]).is_err());
    }
}
