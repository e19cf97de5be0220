//! `kilter up`: an agent on embedded defaults, for one directory.
//!
//! Numbered steps: 1. the documents are read, so that what is wrong with them is told before anything is done; 2. the
//! socket is opened and the sandbox entered, before any thread starts; 3. no other agent keeps this network; 4. the parts
//! are put together; 5. the kernel is watched; 6. the startup resync declares the directory; 7. whoever connects is
//! served, and the loop is driven until somebody ends it.

use std::path::{Path, PathBuf};

use kilter_api::client::SOCKET;
use kilter_cli::arguments::Up;
use kilter_cli::{CommandError, Exit, Output, chain, read};
use kilter_linux::sandbox::{self, Sandbox};
use kilter_linux::{Settings as LinuxSettings, drift};
use kilter_model::document::Declared;

use crate::alone::Alone;
use crate::assemble::{Settings, assemble};
use crate::drive::Agent;
use crate::ending::{broken, refused};
use crate::feed::directory::{self, Directory};
use crate::keep::Kept;
use crate::northbound::serve;
use crate::northbound::socket::{Socket, SocketError};
use crate::show::Show;
use crate::signals;

/// Applies a directory and heals until stopped, or until settled.
///
/// **Assumes** that the process has one thread if a sandbox is asked for.
pub fn up(arguments: &Up, socket: Option<&Path>, output: Output) -> Result<Exit, CommandError> {
    let directory = Directory::new(directory::SOURCE, &arguments.directory);
    let declared = read::documents(&[&arguments.directory])?; // 1
    let socket = open(arguments, socket); // 2
    let sandbox = enter(arguments)?;
    let _alone = Alone::take().map_err(|error| refused("this network is taken", error))?; // 3
    let mut show = Show::new(output, &declared, arguments.once);
    if let Some(sandbox) = &sandbox {
        show.print(&welcome(sandbox));
    }
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) => {
            show.print(&format!("warning: nobody can ask this agent: {}\n", chain(&error)));
            None
        }
    };
    if let (Some(socket), true) = (&socket, sandbox.is_some()) {
        let path = socket.path().display();
        show.print(&format!("socket: ask it from another terminal\n  kilter --socket {path} status\n"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("failed to start", error))?;
    let followed = (!arguments.once).then_some(directory);
    runtime.block_on(run(&declared, followed, show, sandbox.is_some(), arguments.prune, socket.as_ref()))
}

/// Opens the socket: the one that was named, that of the machine's agent, or for a sandbox one of its own. A run that
/// ends by itself needs none unless one was named.
fn open(arguments: &Up, named: Option<&Path>) -> Result<Option<Socket>, SocketError> {
    let own = || std::env::temp_dir().join(format!("kilter-{}.sock", std::process::id()));
    let path = match (named, arguments.once, arguments.sandbox) {
        (Some(named), _, _) => named.to_owned(),
        (None, true, _) => return Ok(None),
        (None, false, true) => own(),
        (None, false, false) => PathBuf::from(SOCKET),
    };
    Socket::open(&path).map(Some)
}

fn enter(arguments: &Up) -> Result<Option<Sandbox>, CommandError> {
    if arguments.sandbox {
        return sandbox::enter().map(Some).map_err(|error| refused("there is no sandbox", error));
    }
    if !sandbox::may_act() {
        let attempt =
            "this user may not change the network, hint: become root, or try `--sandbox`".to_owned();
        return Err(CommandError::Refused { attempt, source: None });
    }
    Ok(None)
}

/// How to look into the sandbox from another terminal.
fn welcome(sandbox: &Sandbox) -> String {
    let user = if sandbox.has_user { " --user --preserve-credentials" } else { "" };
    let process = std::process::id();
    format!(
        "sandbox: nothing of the machine is touched; look inside with\n  \
         nsenter --target {process}{user} --mount --net ip netns\n"
    )
}

async fn run(
    declared: &[Declared],
    followed: Option<Directory>,
    mut show: Show,
    in_sandbox: bool,
    prune: bool,
    socket: Option<&Socket>,
) -> Result<Exit, CommandError> {
    let mut settings = Settings { linux: LinuxSettings::default(), ..Settings::default() };
    settings.events.prune = prune;
    let assembly = assemble(settings).map_err(|error| broken("failed to start the agent", error))?; // 4
    let mut agent = Agent::new(assembly, drift::Settings::default())
        .await
        .map_err(|error| broken("failed to start the agent", error))?; // 5
    if let Some(followed) = followed {
        agent.follow(followed);
    }
    signals::heed(agent.stop()).map_err(|error| broken("failed to listen for signals", error))?;
    agent
        .begin(Kept::default(), vec![(directory::SOURCE.to_owned(), Some(declared.to_vec()))])
        .map_err(|error| broken("failed to declare the directory", error))?; // 6
    if let Some(socket) = socket {
        let serving = serve(socket, agent.desk());
        tokio::spawn(serving.map_err(|error| broken("failed to serve", error))?); // 7
    }
    let events = agent.run(&mut show).await;
    let words = match in_sandbox {
        true => "stopped: the sandbox and everything in it is gone",
        false => "stopped: the network stays as it is",
    };
    Ok(show.end(events.scheduler(), words)?)
}
