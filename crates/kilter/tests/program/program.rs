//! Running the program, and waiting for what it says.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// As long as anything may take, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// As long as a command may take that waits for many things.
const LONGEST: Duration = Duration::from_secs(900);

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

/// The program where no agent can be asked, whether or not one keeps this machine.
pub(crate) fn kilter_alone(arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs run /run && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_kilter")).args(arguments).current_dir(root());
    command
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end, and ends whatever it left behind.
///
/// **Why**: a script that gives up in the middle leaves what it had begun, which holds the pipes open for ever.
pub(crate) fn run(command: Command) -> Ended {
    run_within(command, LONGEST)
}

fn run_within(mut command: Command, longest: Duration) -> Ended {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let group = format!("-{}", child.id());
    let (stdout, stderr) = (gather(child.stdout.take().unwrap()), gather(child.stderr.take().unwrap()));
    let deadline = Instant::now() + longest;
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status.code()),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(5)), // until the deadline
        }
    };
    // Nobody is left, as a rule.
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    let code = ended.unwrap_or_else(|| child.wait().unwrap().code());
    let ended_by_itself = ended.is_some();
    let ended = Ended { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    assert!(ended_by_itself, "did not end within {longest:?}: {command:?}: {ended:?}");
    ended
}

/// Reads all that comes.
fn gather(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
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
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    let Ended { code, stdout, stderr } = run_within(command, PATIENCE);
    match code {
        Some(0) => Ok(stdout),
        _ => Err(stderr + &stdout),
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
