//! `cargo xtask openapi`: holds a running agent against its own description, with a property tester of others.
//!
//! Numbered steps: 1. `schemathesis` is installed into a place of its own below `target/`; 2. a daemon starts that keeps
//! audit records, encrypts, and knows a token for each role; 3. the tester asks everything that is described, well and
//! badly, in every role; 4. the daemon ends in order, and another one starts over what it kept; 5. what was audited is as it
//! was written. It goes well if nothing answers with a server error, an undocumented status, media type or shape.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::daemon::{self, Daemon};
use crate::{asks_for_help, child, program};

const HELP: &str = "\
Asks a running agent everything that its OpenAPI description describes.

usage: cargo xtask openapi [--seconds N] [--seed N]

It takes about N seconds (default 45). The same seed makes up the same requests (default 1).
";

/// The tester, at a version whose options are known.
const TESTER: &str = "schemathesis>=4.32,<5";

/// What is held against the description.
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// A watch never ends, a wait takes as long as it is asked to, and of an export's several documents the tester reads one.
/// Tests of the agent hold them to what they promise.
const LEFT_OUT: &[&str] = &["/api/v1/watch", "/api/v1/wait", "/api/v1/export"];

/// Who asks, which part of the time, and what they leave out: what an admin applies may run commands of its own.
const PASSES: &[(&str, u64, &[&str])] =
    &[("operator", 2, &[]), ("reader", 1, &[]), ("admin", 1, &["/api/v1/apply"])];

/// Follows the chain of the audit records, as an admin.
const AUDIT: &str = "\
import json, ssl, sys, urllib.request
url, authority, token = sys.argv[1:]
asked = urllib.request.Request(url + '/api/v1/audit', headers={'authorization': 'Bearer ' + token})
with urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=authority)) as answer:
    print(answer.read().decode())
";

/// Runs the tester; the answer says whether it found nothing.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        print!("{HELP}");
        return Ok(true);
    }
    let (seconds, seed) = options(arguments)?;
    let tester = installed()?; // 1
    let daemon = Daemon::start("openapi")?; // 2
    let whole: u64 = PASSES.iter().map(|(_, part, _)| part).sum();
    for (role, part, left_out) in PASSES {
        println!("as {role}:");
        let mut command = asking(&daemon, &tester, role)?;
        command.args([
            "--max-time",
            &(seconds * part / whole).max(1).to_string(),
            "--seed",
            &seed.to_string(),
        ]);
        for path in LEFT_OUT.iter().chain(*left_out) {
            command.args(["--exclude-path", path]);
        }
        if !child::succeeds(&mut command)? {
            return Ok(false);
        } // 3
    }
    let before = audited(&daemon, &tester)?;
    let daemon = daemon.restart()?; // 4
    let after = audited(&daemon, &tester)?;
    if before != after {
        bail!("the audit records are others after a restart: {before}, then {after}");
    }
    Ok(true) // 5
}

/// The tester, as it asks the daemon in a role.
fn asking(daemon: &Daemon, tester: &Path, role: &str) -> Result<Command> {
    let (url, authority) = (daemon.url(), daemon.authority());
    let mut command = daemon.inside(tester);
    command.current_dir(program::target()?);
    command.arg("run").arg(format!("{url}/api/v1/openapi.json"));
    command.args(["--url", &url, "--checks", CHECKS, "--tls-verify"]).arg(authority);
    let who = format!("Authorization: Bearer {}", daemon::token(role));
    command.args(["--header", &who, "--header", "X-Kilter: 1"]);
    command.args(["--phases", "coverage,fuzzing", "--request-timeout", "30", "--workers", "1", "--no-color"]);
    command.args(["--warnings", "off", "--generation-database", "none", "--continue-on-failure"]);
    // How many of its own ideas the tester throws away says nothing about the agent.
    command.args(["--suppress-health-check", "filter_too_much,too_slow"]);
    Ok(command)
}

/// What the daemon says about its audit records, which are as they were written.
fn audited(daemon: &Daemon, tester: &Path) -> Result<Value> {
    let mut command = daemon.inside(&tester.with_file_name("python"));
    command.args(["-c", AUDIT, &daemon.url()]).arg(daemon.authority()).arg(daemon::token("admin"));
    let said = child::output_of(&mut command)?;
    let chain: Value = serde_json::from_str(&said).context("the audit records were not told as JSON")?;
    if !chain["broken"].is_null() || chain["records"].as_u64().unwrap_or_default() == 0 {
        bail!("the audit records are not as they were written: {chain}");
    }
    println!("{} audit records, as they were written", chain["records"]);
    Ok(chain)
}

/// The tester, installed if it is not there. Tests of the service broker use it too.
pub(crate) fn installed() -> Result<PathBuf> {
    let place = program::target()?.join("schemathesis");
    let tester = place.join("bin/schemathesis");
    if tester.is_file() {
        return Ok(tester);
    }
    let made = child::succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?
        && child::succeeds(Command::new(place.join("bin/pip")).args(["install", "--quiet", TESTER]))?;
    if !made {
        bail!(
            "`{TESTER}` could not be installed, hint: apt-get install -y python3-venv, and a package index"
        );
    }
    Ok(tester)
}

/// How long it may take, and what the requests are made up from.
fn options(arguments: &[String]) -> Result<(u64, u64)> {
    let (mut seconds, mut seed) = (45, 1);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let number = || words.clone().next().and_then(|number| number.parse().ok());
        match word.as_str() {
            "--seconds" => seconds = number().context("`--seconds` takes a number")?,
            "--seed" => seed = number().context("`--seed` takes a number")?,
            other => bail!("unexpected argument `{other}`, hint: `--seconds` and `--seed` are known"),
        }
        words.next();
    }
    Ok((seconds, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_seed_may_be_said() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(options(&[]).unwrap(), (45, 1));
        assert_eq!(options(&words("--seed 7 --seconds 3")).unwrap(), (3, 7));
        assert!(options(&words("--seconds soon")).is_err() && options(&words("5")).is_err());
    }
}
