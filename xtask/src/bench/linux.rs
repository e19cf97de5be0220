//! `cargo xtask bench linux`: the southbound, `ip -batch` and a raw sender doing the same work, one process each.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::selection;

pub(super) const HELP: &str = "\
Benchmarks of the Linux southbound against `ip -batch` and a raw pipelined sender, one JSON line per step.

usage: cargo xtask bench linux [OPTIONS]

options:
  --work WORK     ports or routes (default both)
  --n N[,N...]    sizes (default 100,500,1000 ports and 1000,10000,100000 routes)
  --check         holds the measurements against their budgets, and fails if one is exceeded

Root is needed: each tool works in a network namespace of its own.
";

/// How much CPU creation may take, in that of `ip -batch`; of routes it takes no more than that.
const CREATE: f64 = 1.25;
/// How much an unchanged resync may take, in bare dumps.
const UNCHANGED: f64 = 1.5;
/// How much one more may take in a running agent.
const ONE_MORE_MS: f64 = 3.0;

const TOOLS: &[&str] = &["kilter", "ip-batch", "raw"];

/// What was asked for: works with their sizes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    works: Vec<(&'static str, Vec<u64>)>,
    check: bool,
}

pub(super) fn parse(options: &[String]) -> Result<Request> {
    let mut works = vec!["ports", "routes"];
    let mut sizes = None;
    let mut check = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if option == "--check" {
            check = true;
            continue;
        }
        let value = options.next().with_context(|| format!("`{option}` needs a value"))?;
        match (option.as_str(), value.as_str()) {
            ("--work", "ports") => works = vec!["ports"],
            ("--work", "routes") => works = vec!["routes"],
            ("--work", other) => bail!("unknown work `{other}`, hint: `ports` or `routes`"),
            ("--n", text) => sizes = Some(selection::sizes(text)?),
            (unknown, _) => bail!("unknown option `{unknown}`, hint: one of `--work`, `--n`, `--check`"),
        }
    }
    let usual = |work: &str| match work {
        "ports" => vec![100, 500, 1000],
        _ => vec![1000, 10_000, 100_000],
    };
    let works = works.into_iter().map(|work| (work, sizes.clone().unwrap_or_else(|| usual(work))));
    Ok(Request { works: works.collect(), check })
}

/// Runs every tool on every work and size, with and without IPv6; the lines go to stdout as they are.
pub(super) fn run(program: &PathBuf, request: &Request) -> Result<()> {
    let mut exceeded = Vec::new();
    for (work, sizes) in &request.works {
        for size in sizes {
            for ipv6 in [&[][..], &["--no-ipv6"][..]] {
                let mut lines = String::new();
                for tool in TOOLS {
                    let output = Command::new(program)
                        .args(["--work", work, "--n", &size.to_string(), "--tool", tool])
                        .args(ipv6)
                        .stderr(Stdio::inherit())
                        .output()
                        .with_context(|| format!("could not start {}", program.display()))?;
                    if !output.status.success() {
                        bail!(
                            "`bench-linux --work {work} --n {size} --tool {tool}` failed ({})",
                            output.status
                        );
                    }
                    std::io::stdout().write_all(&output.stdout).context("could not write the measurement")?;
                    lines.push_str(&String::from_utf8_lossy(&output.stdout));
                }
                exceeded
                    .extend(judge(&lines)?.into_iter().map(|what| format!("{work} {size} {ipv6:?}: {what}")));
            }
        }
    }
    if request.check && !exceeded.is_empty() {
        bail!("budgets are exceeded:\n  {}", exceeded.join("\n  "));
    }
    Ok(())
}

/// Which budgets the measurements of one work, size and family exceed, in words.
fn judge(lines: &str) -> Result<Vec<String>> {
    let lines: Vec<Value> =
        lines.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("not a JSON line")?;
    let cpu = |tool: &str, step: &str| {
        let line = lines.iter().find(|line| line["tool"] == tool && line["step"] == step)?;
        line["cpu_ms"].as_f64()
    };
    let routes = lines.iter().any(|line| line["work"] == "routes");
    let create = cpu("ip-batch", "create").map(|ip| if routes { ip } else { ip * CREATE });
    // The bare dump between two resyncs finds the tables as far from the processor as they do.
    let unchanged = cpu("kilter", "dump").or(cpu("raw", "unchanged")).map(|dump| dump * UNCHANGED);
    let budgets = [("create", create), ("unchanged", unchanged), ("one-more", Some(ONE_MORE_MS))];
    let mut exceeded = Vec::new();
    for (step, budget) in budgets {
        let took = cpu("kilter", step).with_context(|| format!("no measurement of `{step}`"))?;
        let budget = budget.with_context(|| format!("nothing to hold `{step}` against"))?;
        if took > budget {
            exceeded.push(format!("{step} takes {took:.2} ms of CPU, {budget:.2} are allowed"));
        }
    }
    Ok(exceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn works_and_sizes_have_defaults() {
        let Request { works, check } = parsed("").unwrap();
        assert_eq!(works[0], ("ports", vec![100, 500, 1000]));
        assert_eq!((works[1].0, check), ("routes", false));
        let expected = Request { works: vec![("routes", vec![10, 20])], check: true };
        assert_eq!(parsed("--work routes --check --n 10,20").unwrap(), expected);
    }

    #[test]
    fn a_budget_that_is_exceeded_is_told_with_what_is_allowed() {
        let line = |tool: &str, step: &str, cpu: f64| {
            format!("{{\"work\":\"routes\",\"tool\":\"{tool}\",\"step\":\"{step}\",\"cpu_ms\":{cpu}}}\n")
        };
        let lines = |unchanged: f64, create: f64| {
            [
                line("kilter", "create", create),
                line("kilter", "dump", 2.0),
                line("kilter", "unchanged", unchanged),
                line("kilter", "one-more", 0.2),
                line("ip-batch", "create", 100.0),
                line("raw", "unchanged", 1.0),
            ]
            .concat()
        };
        assert_eq!(judge(&lines(2.9, 99.0)).unwrap(), Vec::<String>::new());
        assert_eq!(
            judge(&lines(3.1, 101.0)).unwrap(),
            [
                "create takes 101.00 ms of CPU, 100.00 are allowed",
                "unchanged takes 3.10 ms of CPU, 3.00 are allowed"
            ]
        );
        assert!(judge(&line("kilter", "create", 1.0)).is_err(), "what was not measured is not within");
    }

    #[test]
    fn mistakes_name_the_option() {
        assert!(parsed("--work links").unwrap_err().to_string().contains("`links`"));
        assert!(parsed("--size 7").unwrap_err().to_string().contains("`--size`"));
    }
}
