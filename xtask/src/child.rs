//! Starting other programs: where cargo and the workspace are, and whether to use colours.
//!
//! Decided here: the `cargo` that started us is the one we start, and `CI=true` or `NO_COLOR` means no colours.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let ours = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    ours.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// Whether output may carry colours.
pub(crate) fn colours() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::env::var_os("CI") != Some(OsString::from("true"))
        && !set("NO_COLOR")
        && std::io::stdout().is_terminal()
}

/// A cargo command line, ready to be started.
pub(crate) fn cargo<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments.iter().map(AsRef::as_ref));
    if !colours() {
        // Cargo, test programs and rustfmt each listen to another of these.
        command.envs([("CARGO_TERM_COLOR", "never"), ("NO_COLOR", "1"), ("TERM", "dumb")]);
    }
    command
}

/// A cargo command line as a person would type it.
pub(crate) fn shown<S: AsRef<str>>(arguments: &[S]) -> String {
    arguments.iter().fold("cargo".to_owned(), |line, argument| line + " " + argument.as_ref())
}

/// Runs a program to its end with our own input and output; the answer says whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("could not start {}", name_of(command)))?;
    Ok(status.success())
}

/// What a program printed, which must succeed.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start {}", name_of(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", name_of(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed bytes that are not text", name_of(command)))
}

/// What cargo knows about the packages of this workspace.
pub(crate) fn metadata() -> Result<Value> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--locked"];
    let text = output_of(cargo(&arguments).current_dir(root()))?;
    serde_json::from_str(&text).context("could not read the answer of `cargo metadata`")
}

/// Program and arguments, for messages.
fn name_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    format!("`{}`", words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_the_folder_above_this_package() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }

    #[test]
    fn a_missing_program_is_named_in_the_error() {
        let error = succeeds(&mut Command::new("kilter-has-no-such-program")).unwrap_err().to_string();
        assert_eq!(error, "could not start `kilter-has-no-such-program`");
    }

    #[test]
    fn a_command_line_is_shown_as_typed() {
        assert_eq!(shown(&["fmt", "--all", "--check"]), "cargo fmt --all --check");
    }
}
