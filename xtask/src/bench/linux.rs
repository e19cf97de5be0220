//! `cargo xtask bench linux`: the southbound, `ip -batch` and a raw sender doing the same work, one process each.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::selection;

pub(super) const HELP: &str = "\
Benchmarks of the Linux southbound against `ip -batch` and a raw pipelined sender, one JSON line per step.

usage: cargo xtask bench linux [OPTIONS]

options:
  --work WORK     ports or routes (default both)
  --n N[,N...]    sizes (default 100,500,1000 ports and 1000,10000,100000 routes)

Root is needed: each tool works in a network namespace of its own.
";

const TOOLS: &[&str] = &["kilter", "ip-batch", "raw"];

/// What was asked for: works with their sizes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request(Vec<(&'static str, Vec<u64>)>);

pub(super) fn parse(options: &[String]) -> Result<Request> {
    let mut works = vec!["ports", "routes"];
    let mut sizes = None;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().with_context(|| format!("`{option}` needs a value"))?;
        match (option.as_str(), value.as_str()) {
            ("--work", "ports") => works = vec!["ports"],
            ("--work", "routes") => works = vec!["routes"],
            ("--work", other) => bail!("unknown work `{other}`, hint: `ports` or `routes`"),
            ("--n", text) => sizes = Some(selection::sizes(text)?),
            (unknown, _) => bail!("unknown option `{unknown}`, hint: one of `--work`, `--n`"),
        }
    }
    let usual = |work: &str| match work {
        "ports" => vec![100, 500, 1000],
        _ => vec![1000, 10_000, 100_000],
    };
    Ok(Request(works.into_iter().map(|work| (work, sizes.clone().unwrap_or_else(|| usual(work)))).collect()))
}

/// Runs every tool on every work and size, with and without IPv6; the lines go to stdout as they are.
pub(super) fn run(program: &PathBuf, request: &Request) -> Result<()> {
    for (work, sizes) in &request.0 {
        for size in sizes {
            for ipv6 in [&[][..], &["--no-ipv6"][..]] {
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
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn works_and_sizes_have_defaults() {
        let Request(all) = parsed("").unwrap();
        assert_eq!(all[0], ("ports", vec![100, 500, 1000]));
        assert_eq!(all[1].0, "routes");
        assert_eq!(parsed("--work routes --n 10,20").unwrap(), Request(vec![("routes", vec![10, 20])]));
    }

    #[test]
    fn mistakes_name_the_option() {
        assert!(parsed("--work links").unwrap_err().to_string().contains("`links`"));
        assert!(parsed("--size 7").unwrap_err().to_string().contains("`--size`"));
    }
}
