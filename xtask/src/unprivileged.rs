//! The kernel tests without root: in a user, network and mount namespace of their own, where they are root.
//!
//! Decided here: how such namespaces are entered, and what is said if the kernel refuses them. Which tests need them, the
//! steps of `test` decide.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What enters the namespaces and starts a program there.
const ENTER: [&str; 5] = ["unshare", "--user", "--map-root-user", "--net", "--mount"];

/// The package whose tests change the network of whoever runs them.
pub(crate) const PACKAGE: &str = "kilter-linux";

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The words after `cargo` that run the package's tests in the namespaces.
pub(crate) fn cargo_words() -> Vec<String> {
    let runner = format!("target.'cfg(unix)'.runner = {ENTER:?}");
    let words = ["test", "--package", PACKAGE, "--locked", "--no-fail-fast", "--config", &runner];
    words.map(str::to_owned).to_vec()
}

/// Fails if the kernel does not let us make the namespaces.
pub(crate) fn probe() -> Result<()> {
    let [program, flags @ ..] = ENTER;
    let tried = Command::new(program).args(flags).arg("true").stdin(Stdio::null()).output();
    let output = tried.with_context(|| format!("could not start `{program}`"))?;
    if !output.status.success() {
        bail!(
            "this kernel refuses user namespaces to this user, and without them the tests of `{PACKAGE}` need root: {}, \
             hint: run as root, or allow it (`sysctl kernel.unprivileged_userns_clone`, `user.max_user_namespaces`)",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runner_is_a_list_that_cargo_reads() {
        let words = cargo_words();
        assert_eq!(
            words.last().map(String::as_str),
            Some(
                "target.'cfg(unix)'.runner = [\"unshare\", \"--user\", \"--map-root-user\", \"--net\", \"--mount\"]"
            )
        );
    }
}
