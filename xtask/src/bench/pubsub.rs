//! `cargo xtask bench pubsub`: delivery over every transport beside the bare one, and what many subscribers cost.
//!
//! Decided here: the size of each case, and that a NATS server is started for them if the set-up has installed one.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::selection;

pub(super) const HELP: &str = "\
Benchmarks of publish and subscribe, one JSON line per case.

usage: cargo xtask bench pubsub [OPTIONS]

options:
  --case CASES    a letter, a range or a list (default: all, a to g)
  --n N           the size of every case named (default: each its own)
  --transport T   only `local`, `tcp`, `zmq`, `nats` or `store`, beside its bare one (cases a to d)
  --check         afterwards a table against the budget, on stderr; the exit code is 1 if it is missed

a, b: from a commit to its application, n commits at a pace, for 1 and 50 subscribers; c, d: n commits as fast as they are
taken; e: the memory of n sessions; f: catching up among n items; g: commits for n nodes, without a network.
";

/// Delivery takes at most so many times as long as the bare transport.
const TIMES: f64 = 1.2;

/// What the budget holds for; how much is delivered in a second is told beside it.
const LATENCIES: [&str; 3] = ["p50_us", "p99_us", "last_p50_us"];

/// Transports, and the bare one that each is held against.
const BARE: [(&str, &str); 5] = [
    ("local", "bare-local"),
    ("tcp", "bare-tcp"),
    ("zmq", "bare-zmq"),
    ("nats", "bare-nats"),
    ("store", "bare-store"),
];

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    cases: Vec<char>,
    size: Option<u64>,
    transport: Option<String>,
    check: bool,
}

pub(super) fn parse(options: &[String]) -> Result<Request> {
    let mut request = Request { cases: ('a'..='g').collect(), size: None, transport: None, check: false };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().with_context(|| format!("`{option}` needs a value"));
        match option.as_str() {
            "--case" => request.cases = selection::cases(value()?, 'g')?,
            "--n" => request.size = selection::sizes(value()?)?.first().copied(),
            "--transport" => {
                let name = value()?;
                if !BARE.iter().any(|(known, _)| known == name) {
                    bail!("unknown transport `{name}`, hint: one of `local`, `tcp`, `zmq`, `nats`, `store`");
                }
                request.transport = Some(name.clone());
            }
            "--check" => request.check = true,
            unknown => {
                bail!("unknown option `{unknown}`, hint: one of `--case`, `--n`, `--transport`, `--check`")
            }
        }
    }
    Ok(request)
}

fn usual(case: char) -> u64 {
    match case {
        'a' => 3000,
        'b' => 500,
        'c' => 200_000,
        'd' => 10_000,
        'e' => 1000,
        'f' => 100_000,
        _ => 10_000,
    }
}

/// A NATS server for the time of the benchmark.
struct Broker {
    child: Child,
    place: String,
    directory: PathBuf,
}

impl Broker {
    /// Starts the server that the set-up installs; nothing if it has not.
    fn start() -> Result<Option<Self>> {
        let program = crate::child::root().join("target/python/bin/nats-server");
        if !program.exists() {
            return Ok(None);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory = std::env::temp_dir().join(format!("kilter-bench-nats-{}", std::process::id()));
        let child = Command::new(program)
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
            .arg(&directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start nats-server")?;
        let broker = Self { child, place: format!("127.0.0.1:{port}"), directory };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&broker.place).is_err() {
            if Instant::now() > deadline {
                bail!("nats-server is not ready");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(broker))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself, and what it wrote goes with the machine's temporary files otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Runs every case in a process of its own; the lines go to stdout as they are. The answer says whether the budget is kept,
/// as far as that was to be checked.
pub(super) fn run(program: &PathBuf, request: &Request) -> Result<bool> {
    let broker = Broker::start()?;
    if broker.is_none() {
        eprintln!("no nats-server: measured without, hint: `cargo xtask test` installs it");
    }
    let mut lines = Vec::new();
    for &case in &request.cases {
        let size = request.size.unwrap_or_else(|| usual(case));
        let mut command = Command::new(program);
        command.args(["--case", &case.to_string(), "--n", &size.to_string()]).stderr(Stdio::inherit());
        if let Some(broker) = &broker {
            command.args(["--nats", &broker.place]);
        }
        if let Some(transport) = &request.transport {
            command.args(["--transport", transport]);
        }
        let output = command.output().with_context(|| format!("could not start {}", program.display()))?;
        if !output.status.success() {
            bail!("`bench-pubsub --case {case} --n {size}` failed ({})", output.status);
        }
        std::io::stdout().write_all(&output.stdout).context("could not write the measurement")?;
        lines.push(String::from_utf8(output.stdout).context("a measurement is text")?);
    }
    if !request.check {
        return Ok(true);
    }
    let (table, is_kept) = table(&lines)?;
    eprint!("{table}");
    Ok(is_kept)
}

/// A row for each transport and figure: how many times that of the bare transport it is; and whether the budget is kept.
fn table(lines: &[String]) -> Result<(String, bool)> {
    let (mut text, mut is_kept) = (String::new(), true);
    for line in lines {
        let measured: Value = serde_json::from_str(line).context("a measurement is JSON")?;
        let Some(transports) = measured["transports"].as_object() else { continue };
        for (name, bare) in BARE {
            for field in ["p50_us", "p99_us", "last_p50_us", "cpu_us", "deliveries_per_second"] {
                let number = |transport: &str| transports.get(transport)?.get(field)?.as_f64();
                let (Some(own), Some(bare)) = (number(name), number(bare)) else { continue };
                let times = if field == "deliveries_per_second" { bare / own } else { own / bare };
                let verdict = match LATENCIES.contains(&field) {
                    true if times <= TIMES => "within",
                    true => "OVER",
                    false => "",
                };
                is_kept &= verdict != "OVER";
                let (case, count) = (&measured["case"], &measured["subscribers"]);
                writeln!(
                    text,
                    "{case} {count:>3} subscribers {name:<5} {field:<22} {own:>10.0} bare {bare:>10.0}  {times:>6.2} x  {verdict}"
                )?;
            }
        }
    }
    writeln!(text, "budget: {TIMES} times the latency of the bare transport")?;
    Ok((text, is_kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn cases_have_their_own_sizes_unless_told() {
        assert_eq!(parsed("").unwrap().cases.len(), 7);
        let request = parsed("--case a,f --n 100 --check").unwrap();
        let transport = None;
        assert_eq!(request, Request { cases: vec!['a', 'f'], size: Some(100), transport, check: true });
        assert_eq!(parsed("--transport zmq").unwrap().transport.as_deref(), Some("zmq"));
        assert!(parsed("--transport udp").unwrap_err().to_string().contains("`udp`"));
        assert!(parsed("--cases a").unwrap_err().to_string().contains("`--cases`"));
    }

    #[test]
    fn what_is_over_its_budget_is_told_and_misses_it() {
        let line = r#"{"case":"a","subscribers":1,"transports":{"bare-tcp":{"p50_us":100},"tcp":{"p50_us":119},
            "bare-zmq":{"p50_us":100},"zmq":{"p50_us":130}}}"#;
        let (text, is_kept) = table(&[line.to_owned(), r#"{"case":"e"}"#.to_owned()]).unwrap();
        let verdicts: Vec<&str> =
            text.lines().filter_map(|line| line.split_whitespace().next_back()).collect();
        assert_eq!((&verdicts[..2], is_kept), (&["within", "OVER"][..], false));
        let (_, is_kept) = table(&[line.replace("130", "120")]).unwrap();
        assert!(is_kept);
    }

    #[test]
    fn throughput_and_cpu_time_are_told_without_a_budget() {
        let line = r#"{"case":"c","subscribers":1,"transports":{"bare-tcp":{"deliveries_per_second":1000,"cpu_us":1},
            "tcp":{"deliveries_per_second":100,"cpu_us":2}}}"#;
        let (text, is_kept) = table(&[line.to_owned()]).unwrap();
        assert!(is_kept && text.contains("10.00 x") && text.contains(" 2.00 x"), "{text}");
    }
}
