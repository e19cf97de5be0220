//! Running the program, and waiting for what it says.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// As long as anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The root of the repository, where examples are.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The program, to be run at the root of the repository.
pub(crate) fn kilter(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
    command.args(arguments).current_dir(root());
    command
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = kilter(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, said: Vec::new() }
    }

    /// Waits for a line.
    pub(crate) fn wait_for_line(&mut self, start: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                let mut stderr = String::new();
                let _ = self.child.kill();
                let _ = self.child.stderr.take().unwrap().read_to_string(&mut stderr);
                panic!("waited for `{start}`: {}\n{stderr}", self.said.join("\n"));
            };
            self.said.push(line.clone());
            if line.trim_start().starts_with(start) {
                return line;
            }
        }
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: &str) -> (Option<i32>, Vec<String>) {
        sh(&format!("kill -{signal} {}", self.child.id())).unwrap();
        let code = self.child.wait().unwrap().code();
        self.said.extend(self.lines.iter());
        (code, std::mem::take(&mut self.said))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory in a sandbox when everything is applied, and how to run something inside.
pub(crate) fn sandbox(directory: &str) -> (Running, String) {
    let mut running = Running::start(&["up", directory, "--sandbox"]);
    let line = running.wait_for_line("nsenter ");
    let inside = line.trim().strip_suffix(" ip netns").unwrap().to_owned();
    running.wait_for_line("healing until stopped");
    (running, inside)
}

/// Runs a line of shell: its output, or what it complains about.
pub(crate) fn sh(line: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr) + &text(&output.stdout)),
    }
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(20)); // until the deadline
    }
}
