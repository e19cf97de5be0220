//! The one binary: the agent, and every command.

use std::process::ExitCode;

use clap::Parser as _;
use kilter_cli::{Arguments, Exit, Output, Verb, commands, report};

/// Frees what left the cache long ago at less cost; `cargo xtask bench events` tells how much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator asks for huge pages, of which a small agent fills a fraction each: four times the memory for nothing.
    // A kernel without them refuses, and has nothing to spare.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Whoever has gone away needs no help.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Applied }.into();
        }
    };
    let mut output = Output::stdout();
    let ended = match (&arguments.verb, commands::run(&arguments, &mut output)) {
        (Verb::Up(up), _) => kilter_agent::up::up(up, arguments.socket.as_deref(), output),
        (Verb::Agent(agent), _) => kilter_agent::daemon::daemon(agent, arguments.socket.as_deref(), output),
        (Verb::Replay(replay), _) => kilter_agent::replay::replay(replay, &mut output),
        (Verb::Distributor(distributor), _) => {
            kilter_agent::cluster::distributor::distribute(distributor, output)
        }
        (Verb::Rollout(rollout), _) => kilter_agent::fleet::apply(&rollout.to_nodes(), &mut output),
        (Verb::Nodes(nodes), _) => kilter_agent::fleet::nodes(nodes, &mut output),
        (Verb::Apply(apply), None) => match apply.to_nodes() {
            Some(to) => kilter_agent::fleet::apply(&to, &mut output),
            None => Ok(Exit::Usage),
        },
        (Verb::Eventflow(eventflow), _) => kilter_agent::eventflow::eventflow(eventflow, output),
        (_, ended) => ended.unwrap_or(Ok(Exit::Usage)),
    };
    ended
        .unwrap_or_else(|error| {
            report(&error, &mut Output::stderr());
            error.exit()
        })
        .into()
}
