//! `kilter up`: an agent on embedded defaults, for one directory.
//!
//! Numbered steps: 1. the documents are read, so that what is wrong with them is told before anything is done; 2. the
//! sandbox is entered, before any thread starts; 3. no other agent keeps this network; 4. the parts are put together;
//! 5. the kernel is watched; 6. the startup resync declares the directory; 7. the loop is driven until somebody ends it.

use kilter_cli::arguments::Up;
use kilter_cli::{CommandError, Exit, Output, read};
use kilter_linux::sandbox::{self, Sandbox};
use kilter_linux::{Settings as LinuxSettings, drift};
use kilter_model::document::Declared;

use crate::alone::Alone;
use crate::assemble::{Settings, assemble};
use crate::drive::Agent;
use crate::feed::directory::{self, Directory};
use crate::keep::Kept;
use crate::show::Show;
use crate::signals;

/// Applies a directory and heals until stopped, or until settled.
///
/// **Assumes** that the process has one thread if a sandbox is asked for.
pub fn up(arguments: &Up, output: Output) -> Result<Exit, CommandError> {
    let directory = Directory::new(directory::SOURCE, &arguments.directory);
    let declared = read::documents(&[&arguments.directory])?; // 1
    let sandbox = enter(arguments)?; // 2
    let _alone = Alone::take().map_err(|error| CommandError::Refused {
        attempt: "this network is taken".to_owned(),
        source: Some(Box::new(error)),
    })?; // 3
    let mut show = Show::new(output, &declared, arguments.once);
    if let Some(sandbox) = &sandbox {
        show.print(&welcome(sandbox));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("failed to start", error))?;
    let followed = (!arguments.once).then_some(directory);
    runtime.block_on(run(&declared, followed, show, sandbox.is_some(), arguments.prune))
}

fn enter(arguments: &Up) -> Result<Option<Sandbox>, CommandError> {
    if arguments.sandbox {
        let refused = |error| CommandError::Refused {
            attempt: "there is no sandbox".to_owned(),
            source: Some(Box::new(error)),
        };
        return sandbox::enter().map(Some).map_err(refused);
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
    let events = agent.run(&mut show).await; // 7
    let words = match in_sandbox {
        true => "stopped: the sandbox and everything in it is gone",
        false => "stopped: the network stays as it is",
    };
    Ok(show.end(events.scheduler(), words)?)
}

fn broken(attempt: &str, source: impl std::error::Error + Send + Sync + 'static) -> CommandError {
    CommandError::Broken { attempt: attempt.to_owned(), source: Some(Box::new(source)) }
}
