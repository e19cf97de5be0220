//! The agent's program, and an agent in a sandbox, for steps that ask it from outside.
//!
//! Decided here: the program is the one that the tests of the workspace run. **Why**: a plain build chooses other
//! features for some dependencies, and would compile half of the workspace once more.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::child;

/// Builds the program if it is not there, and says where it is.
pub(crate) fn built() -> Result<PathBuf> {
    let arguments = ["test", "--workspace", "--locked", "--no-run", "--quiet"];
    if !child::succeeds(child::cargo(&arguments).current_dir(child::root()))? {
        bail!("the agent could not be built");
    }
    let program = target()?.join("debug/kilter");
    if !program.is_file() {
        bail!("there is no `{}` after a build", program.display());
    }
    Ok(program)
}

/// Where cargo puts what it makes.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata = child::metadata()?;
    let target = metadata["target_directory"].as_str();
    target.map(PathBuf::from).context("`cargo metadata` names no target directory")
}

/// An agent in a sandbox with the lab, which ends with this value.
pub(crate) struct Agent {
    child: Child,
    /// Where its socket is.
    pub(crate) socket: String,
}

impl Agent {
    /// Starts it, and waits until it has said where it is.
    pub(crate) fn start() -> Result<Self> {
        let program = built()?;
        let mut child = Command::new(&program)
            .args(["up", "--sandbox", "examples/lab"])
            .current_dir(child::root())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start `{}`", program.display()))?;
        let output = child.stdout.take().context("the agent has no output")?;
        let mut agent = Self { child, socket: String::new() };
        let mut lines = BufReader::new(output).lines();
        let is_told = lines.by_ref().any(|line| line.is_ok_and(|line| agent.hear(line.trim())));
        // Whatever it says later is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        if !is_told {
            bail!("the agent told no address of its socket");
        }
        Ok(agent)
    }

    /// Takes in a line; the answer says whether everything has been told.
    fn hear(&mut self, line: &str) -> bool {
        if let Some(rest) = line.strip_prefix("kilter --socket ") {
            rest.trim_end_matches(" status").clone_into(&mut self.socket);
        }
        !self.socket.is_empty()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
