//! The daemon in a network of its own, with everything that is kept and asked of those who come: a state directory, audit
//! records, encryption, and a token for each role.
//!
//! Decided here: what the settings are, and that whoever asks it is started in the same network, where its address is free
//! whatever else runs on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::{child, program};

/// Where it is served, in its own network.
const ADDRESS: &str = "127.0.0.1:7480";

/// Who asks: the role, and the hash of the token that [`token`] says.
const ROLES: [(&str, &str); 3] = [
    ("reader", "38d5f1a07616b0daf3171ff696e11489f001fb184d25d949a44f828b746b715c"),
    ("operator", "9306e627c45efc6ddd2e3a48dca7af5c9704181470aa37cbc17f84098feb38b3"),
    ("admin", "2b1110b60a6dca77d3a7f7a40ecb2b419f46e20fa274c094ed65e6ab340b07e2"),
];

/// The token of a role.
pub(crate) fn token(role: &str) -> String {
    format!("tester as {role}")
}

/// A daemon that runs, and ends with this value.
pub(crate) struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    /// Starts one that knows nothing yet, and waits until it is ready.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let folder = program::target()?.join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).context("could not make the folder of the daemon")?;
        certify(&folder)?;
        fs::write(folder.join("kilter.toml"), settings(&folder)).context("could not write the settings")?;
        Self::run(folder)
    }

    /// Lets it end in order, and starts another one over what it kept.
    pub(crate) fn restart(mut self) -> Result<Self> {
        let id = self.child.id().to_string();
        child::succeeds(Command::new("kill").args(["-TERM", &id]))?;
        let ended = self.child.wait().context("the daemon is gone")?;
        if !ended.success() {
            bail!("the daemon did not end in order: {ended}");
        }
        Self::run(self.folder.clone())
    }

    fn run(folder: PathBuf) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c"]);
        let script = "mount -t tmpfs run /run && ip link set lo up && exec \"$0\" agent --settings \"$1\"";
        command.args([
            script.as_ref(),
            program::built()?.as_os_str(),
            folder.join("kilter.toml").as_os_str(),
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().context("could not start the daemon")?;
        let output = child.stdout.take().context("the daemon has no output")?;
        let daemon = Self { child, folder };
        let mut lines = BufReader::new(output).lines();
        if !lines.by_ref().any(|line| line.is_ok_and(|line| line.starts_with("ready"))) {
            bail!("the daemon did not become ready");
        }
        // Whatever it says later is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(daemon)
    }

    /// Where it is served.
    pub(crate) fn url(&self) -> String {
        format!("https://{ADDRESS}")
    }

    /// What says that it is the one it claims to be.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("agent.pem")
    }

    /// A program in the network of the daemon.
    pub(crate) fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.child.id().to_string(), "--user", "--net", "--preserve-credentials"]);
        command.arg(program);
        command
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a key, and a certificate of it that says where the daemon is.
fn certify(folder: &Path) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", "2", "-subj", "/CN=kilter", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.arg("-keyout").arg(folder.join("agent.key")).arg("-out").arg(folder.join("agent.pem"));
    let made = command.stderr(Stdio::null()).output().context("could not start `openssl`")?;
    if !made.status.success() {
        bail!("`openssl` made no certificate, hint: apt-get install -y openssl");
    }
    Ok(())
}

fn settings(folder: &Path) -> String {
    let (folder, lab) = (folder.display(), child::root().join("examples/lab"));
    let lab = lab.display();
    let tokens = ROLES.map(|(role, hash)| {
        format!("[[northbound.access.tokens]]\nname = \"{role}\"\nrole = \"{role}\"\nblake3 = \"{hash}\"\n")
    });
    format!(
        "state-directory = \"{folder}/state\"\nsocket = \"{folder}/kilter.sock\"\n\
         [[directory]]\nname = \"lab\"\npath = \"{lab}\"\n\
         [northbound]\naddress = \"{ADDRESS}\"\n\
         [northbound.tls]\ncertificate = \"{folder}/agent.pem\"\nkey = \"{folder}/agent.key\"\n{}",
        tokens.concat()
    )
}
