//! `kilter up`: an agent on embedded defaults, for one directory.
//!
//! Numbered steps: 1. the documents are read, so that what is wrong with them is told before anything is done; 2. the
//! socket and the page's port are opened and the sandbox entered, before any thread starts; 3. no other agent keeps this
//! network; 4. the parts are put together; 5. the kernel is watched; 6. the startup resync declares the directory;
//! 7. whoever connects is served, and the loop is driven until somebody ends it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use kilter_api::client::SOCKET;
use kilter_cli::arguments::Up;
use kilter_cli::{CommandError, Exit, Output, chain, read};
use kilter_linux::sandbox::{self, Sandbox};
use kilter_linux::{Settings as LinuxSettings, drift};
use kilter_model::document::Declared;

use crate::alone::Alone;
use crate::assemble::{Settings, assemble};
use crate::desk::Desk;
use crate::drive::Agent;
use crate::ending::{broken, refused};
use crate::feed::directory::{self, Directory};
use crate::keep::Kept;
use crate::northbound::listen::bind_local;
use crate::northbound::socket::{Socket, SocketError};
use crate::northbound::{self, Listeners};
use crate::recording::{self, Recording};
use crate::show::Show;
use crate::signals;

/// Applies a directory and heals until stopped, or until settled.
///
/// **Assumes** that the process has one thread if a sandbox is asked for.
pub fn up(arguments: &Up, socket: Option<&Path>, output: Output) -> Result<Exit, CommandError> {
    let directory = Directory::new(directory::SOURCE, &arguments.directory);
    let declared = read::documents(&[&arguments.directory])?; // 1
    let socket = open(arguments, socket); // 2
    let page = bind(arguments);
    let sandbox = enter(arguments)?;
    let _alone = Alone::take().map_err(|error| refused("this network is taken", error))?; // 3
    let mut show = Show::new(output, &declared, arguments.once);
    match &sandbox {
        Some(sandbox) => show.print(&welcome(sandbox)),
        None if arguments.once => {}
        None => show.print(OF_THE_MACHINE),
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
    let reached = Reached { socket, page };
    runtime.block_on(run(arguments, &declared, followed, show, reached))
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

/// Said before anything is done to the machine itself, to whoever meant to try something only.
const OF_THE_MACHINE: &str = "machine: its own network is changed, and stays so in the end; \
                              --sandbox only tries, --clean-up removes\n";

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
    arguments: &Up,
    declared: &[Declared],
    followed: Option<Directory>,
    mut show: Show,
    reached: Reached,
) -> Result<Exit, CommandError> {
    let record = recording::Settings { file: arguments.record.clone(), ..recording::Settings::default() };
    let recording =
        Recording::open(&record).map_err(|error| refused("the agent cannot be started", error))?;
    let mut settings = Settings { linux: LinuxSettings::default(), ..Settings::default() };
    settings.events.prune = arguments.prune;
    let assembly = assemble(settings).map_err(|error| broken("failed to start the agent", error))?; // 4
    let mut agent = Agent::new(assembly, drift::Settings::default())
        .await
        .map_err(|error| broken("failed to start the agent", error))? // 5
        .recording(recording, &record)
        .cleaning_up(arguments.clean_up);
    if let Some(followed) = followed {
        agent.follow(followed);
    }
    signals::heed(agent.stop())
        .and_then(|()| signals::heed_hang_up(agent.stop()))
        .map_err(|error| broken("failed to listen for signals", error))?;
    agent
        .begin(Kept::default(), vec![(directory::SOURCE.to_owned(), Some(declared.to_vec()))])
        .map_err(|error| broken("failed to declare the directory", error))?; // 6
    serve(&reached, agent.desk(), &mut show)?; // 7
    let events = agent.run(&mut show).await;
    let words = match (arguments.sandbox, arguments.clean_up) {
        (true, _) => "stopped: the sandbox and everything in it is gone",
        (false, true) => "stopped: what was declared is removed",
        (false, false) => "stopped: the network stays as it is",
    };
    // What is removed in the end says nothing about how it stood.
    let scheduler = (!arguments.clean_up).then(|| events.scheduler());
    Ok(show.end(scheduler, words)?)
}

/// Where this agent is reached, both opened outside of the sandbox.
struct Reached {
    socket: Option<Socket>,
    /// Where the page is served: this machine alone reaches it.
    page: Option<TcpListener>,
}

/// Opens a port of this machine for the page. A run that ends by itself shows none.
///
/// **Why** here: a listener stays in the network that it was opened in, so that a browser outside reaches the page of a
/// sandbox. Without a port there is no page, and everything else is as it would be.
fn bind(arguments: &Up) -> Option<TcpListener> {
    if arguments.once { None } else { bind_local().ok() }
}

/// Serves whoever connects, on a thread of its own: whatever they ask does not hold up the loop.
fn serve(reached: &Reached, desk: Desk, show: &mut Show) -> Result<(), CommandError> {
    let failed = |error| broken("failed to serve", error);
    let settings = northbound::Settings::default();
    let door = northbound::door(&settings).map_err(failed)?;
    let mut listeners = Listeners::new();
    if let Some(socket) = &reached.socket {
        listeners = listeners.at_socket(socket).map_err(failed)?;
    }
    let page = reached.page.as_ref().and_then(|page| page.try_clone().ok());
    if let Some(page) = page {
        let address = page.local_addr().map_err(|error| broken("failed to serve the page", error))?;
        let token = door.invite().map_err(|error| broken("failed to make a token for the page", error))?;
        show.print(&format!(
            "page: open it once, the token is used up then\n  http://{address}/?token={token}\n"
        ));
        listeners = listeners.at(page);
    }
    let serving = northbound::serve(listeners, door, None, settings.limits, desk).map_err(failed)?;
    // It ends with the process.
    northbound::on_own_thread(serving).map(drop).map_err(|error| broken("failed to serve", error))
}
