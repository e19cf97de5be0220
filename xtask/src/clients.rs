//! `cargo xtask clients`: a client that was generated in another language drives a running agent.
//!
//! Numbered steps: 1. what the set-up installs is there; 2. Python is generated from the protobuf files; 3. an agent
//! starts in a sandbox; 4. the example drives it over its socket, asks by reflection whether the agent speaks what the
//! files say, and calls it with nothing but what reflection told.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::program::{self, Agent};
use crate::{asks_for_help, child, setup};

const HELP: &str = "\
Drives a running agent with a client that was generated for Python from the protobuf files.

usage: cargo xtask clients
";

/// Generates a client and runs the example; the answer says whether it went well.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        print!("{HELP}");
        return Ok(true);
    }
    if let [word, ..] = arguments {
        bail!("unexpected argument `{word}`, hint: there are none");
    }
    setup::ensure()?; // 1
    let python = child::root().join("target/python/bin/python");
    let protos = child::root().join("crates/api/proto");
    let generated = program::target()?.join("python-client");
    std::fs::create_dir_all(&generated).context("could not make the folder of the generated client")?;
    let mut command = Command::new(&python);
    command.args(["-m", "grpc_tools.protoc"]).arg("--proto_path").arg(&protos);
    command.arg("--python_out").arg(&generated).arg("--grpc_python_out").arg(&generated);
    for name in ["agent", "history", "item", "plan", "problem"] {
        command.arg(protos.join("kilter/v1").join(name).with_extension("proto"));
    }
    if !child::succeeds(&mut command)? {
        return Ok(false);
    } // 2
    let agent = Agent::start()?; // 3
    let mut command = Command::new(&python);
    command.env("PYTHONPATH", &generated).arg(child::root().join("examples/python-client/drive.py"));
    child::succeeds(command.arg(&agent.socket)) // 4
}
