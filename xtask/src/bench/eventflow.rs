//! `cargo xtask bench eventflow`: the program against a real API server, and the table of `--check` beside the budgets.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::kube;

pub(super) const HELP: &str = "\
Benchmarks of EventFlow against a real API server and its etcd, one JSON line per step.

usage: cargo xtask bench eventflow [OPTIONS]

options:
  --flows N        how many flows there are (default 1000)
  --namespaces N   over how many namespaces they are spread (default 100)
  --seconds N      how long nothing happens in the step `rest` (default 60)
  --check          afterwards a table against the budgets, on stderr; the exit code is 1 if one is missed
";

/// How many writes the set-up of a flow may take, shared children included; at rest and over a restart there is none.
const WRITES_PER_FLOW: f64 = 6.0;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Options handed to the benchmark program as they are.
    options: Vec<String>,
    check: bool,
}

pub(super) fn parse(options: &[String]) -> Result<Request> {
    let mut request = Request { options: Vec::new(), check: false };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--flows" | "--namespaces" | "--seconds" => {
                let value = options.next().filter(|value| value.parse::<u64>().is_ok());
                let value = value.with_context(|| format!("`{option}` needs a number"))?;
                request.options.extend([option.clone(), value.clone()]);
            }
            "--check" => request.check = true,
            unknown => bail!(
                "unknown option `{unknown}`, hint: one of `--flows`, `--namespaces`, `--seconds`, `--check`"
            ),
        }
    }
    Ok(request)
}

/// Measures; says whether the budgets are kept, if that was asked.
pub(super) fn run(bench: &Path, program: &Path, request: &Request) -> Result<bool> {
    let mut command = Command::new(bench);
    command.env("KUBEBUILDER_ASSETS", kube::ensure()?).stderr(Stdio::inherit());
    command.arg("--program").arg(program).args(&request.options);
    let output = command.output().with_context(|| format!("could not start {}", bench.display()))?;
    std::io::stdout().write_all(&output.stdout).context("could not write the measurement")?;
    if !output.status.success() {
        bail!("`bench-eventflow` failed ({})", output.status);
    }
    if !request.check {
        return Ok(true);
    }
    let text = String::from_utf8(output.stdout).context("the benchmark printed bytes, not text")?;
    let (table, kept) = table(&text)?;
    eprint!("{table}");
    Ok(kept)
}

/// One row for each JSON line, and whether every budget is kept.
fn table(lines: &str) -> Result<(String, bool)> {
    let mut text =
        format!("{:<10}{:>16}{:>10}{:>9}{:>9}\n", "step", "writes per flow", "budget", "cpu ms", "rss MiB");
    let mut kept = true;
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| format!("not a JSON line: {line}"))?;
        let number = |field: &str| {
            value[field].as_f64().with_context(|| format!("no `{field}` in the JSON line: {line}"))
        };
        let step = value["step"].as_str().with_context(|| format!("no `step` in the JSON line: {line}"))?;
        let budget = match step {
            "rest" | "restart" => 0.0,
            _ => WRITES_PER_FLOW,
        };
        let writes = number("writes_per_flow")?;
        kept &= writes <= budget;
        let mark = if writes <= budget { "" } else { "  missed" };
        let (cpu, memory) = (number("cpu_ms")?, number("rss_kb")? / 1024.0);
        writeln!(text, "{step:<10}{writes:>16.2}{budget:>10.1}{cpu:>9.0}{memory:>9.1}{mark}")
            .context("could not write the table")?;
    }
    Ok((text, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_handed_on_and_everything_else_is_refused() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let request = parse(&words("--flows 10 --check")).unwrap();
        assert_eq!(request, Request { options: words("--flows 10"), check: true });
        assert!(parse(&words("--flows many")).is_err() && parse(&words("--flow 1")).is_err());
    }

    #[test]
    fn a_write_at_rest_misses_the_budget() {
        let line = |step: &str, writes: f64| {
            format!("{{\"step\":\"{step}\",\"writes_per_flow\":{writes},\"cpu_ms\":1,\"rss_kb\":1}}\n")
        };
        assert!(table(&(line("set-up", 5.5) + &line("rest", 0.0))).unwrap().1);
        let (text, kept) = table(&line("rest", 0.01)).unwrap();
        assert!(!kept && text.contains("missed"), "{text}");
    }
}
