//! `kilter agent`: the daemon.
//!
//! Numbered steps: 1. the settings are read; 2. what is not needed of root is given up; 3. no other agent keeps this
//! network; 4. the state directory and the socket are opened; 5. the directories are read; 6. the parts are put together
//! and the kernel is watched; 7. what was kept and what the directories say is declared; 8. whoever connects is served, the
//! loop is driven until somebody ends it, and the service manager is told how it stands.

use std::path::Path;

use kilter_cli::daemon::Daemon;
use kilter_cli::{CommandError, Exit, Output, read, report};
use kilter_events::{EventRecord, Fatal};
use kilter_linux::{drift, sandbox};
use kilter_model::document::Declared;
use kilter_scheduler::render::one_line;
use kilter_scheduler::{Action, Record, Scheduler};
use kilter_southbound::Finished;

use crate::alone::Alone;
use crate::assemble::{self, assemble};
use crate::drift::Heeded;
use crate::drive::{Agent, Audience, Pursuit};
use crate::ending::{self, broken, refused};
use crate::fault::DieAfter;
use crate::feed::directory::Directory;
use crate::keep::{Codec, Keep, Kept};
use crate::northbound::serve;
use crate::northbound::socket::Socket;
use crate::notify::ServiceManager;
use crate::settings::Settings;
use crate::signals;
use crate::telemetry::{Metrics, Traces, Watched, logs, scrape};

/// Keeps a network until it is stopped.
///
/// **Assumes** that the process has one thread.
pub fn daemon(arguments: &Daemon, socket: Option<&Path>, output: Output) -> Result<Exit, CommandError> {
    let mut settings = match &arguments.settings {
        Some(path) => Settings::read(path).map_err(|error| refused("the agent cannot be started", error))?,
        None => Settings::default(),
    }; // 1
    settings.clean_up |= arguments.clean_up;
    if let Some(socket) = socket {
        settings.socket = socket.to_owned();
    }
    if !sandbox::may_act() {
        let attempt = "this user may not change the network, hint: become root".to_owned();
        return Err(CommandError::Refused { attempt, source: None });
    }
    sandbox::drop_capabilities().map_err(|error| refused("failed to give up what is not needed", error))?; // 2
    let _alone = Alone::take().map_err(|error| refused("this network is taken", error))?; // 3
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("failed to start", error))?;
    runtime.block_on(run(settings, output))
}

async fn run(settings: Settings, output: Output) -> Result<Exit, CommandError> {
    logs::begin(&settings.telemetry.logs).map_err(|error| refused("the agent cannot be started", error))?;
    let mut journal = Journal::new(output);
    let (keep, kept) = Keep::open(&settings.state_directory, &settings.state, Codec::documents())
        .map_err(|error| refused("the agent cannot be started", error))?; // 4
    let socket =
        Socket::open(&settings.socket).map_err(|error| refused("the agent cannot be started", error))?;
    journal.tell_kept(&kept);
    let mut followed = Vec::new();
    let mut said = Vec::new();
    for directory in &settings.directory {
        // First the traces, then the content: what changes in between is noticed.
        followed.push(Directory::new(&directory.name, &directory.path));
        let declared = read::documents(&[&directory.path]);
        if let Err(error) = &declared {
            journal.print(&format!("`{}` cannot be used: what it declared before stays\n", directory.name));
            report(error, &mut Output::stderr());
        }
        said.push((directory.name.clone(), declared.ok()));
    } // 5
    let parts = assemble::Settings {
        linux: settings.southbound(),
        events: settings.events,
        ..assemble::Settings::default()
    };
    let assembly = assemble(parts).map_err(|error| broken("failed to start the agent", error))?;
    let agent = Agent::new(assembly, drift::Settings::default())
        .await
        .map_err(|error| broken("failed to start the agent", error))?; // 6
    let mut agent = agent.keeping(keep).cleaning_up(settings.clean_up).beating(journal.manager.beat);
    followed.into_iter().for_each(|directory| agent.follow(directory));
    signals::heed(agent.stop()).map_err(|error| broken("failed to listen for signals", error))?;
    agent.begin(kept, said).map_err(|error| broken("failed to declare what was kept", error))?; // 7
    let serving = serve(&socket, agent.desk()).map_err(|error| broken("failed to serve", error))?;
    tokio::spawn(serving); // 8
    let metrics = Metrics::default();
    let scraped = scrape::serve(&settings.telemetry.metrics, metrics.clone()).await;
    if let Some(scraped) = scraped.map_err(|error| refused("the agent cannot be started", error))? {
        tokio::spawn(scraped);
    }
    let traces = Traces::begin(&settings.telemetry.traces);
    let traces = traces.map_err(|error| refused("the agent cannot be started", error))?;
    let last = traces.as_ref().map(Traces::last);
    let mut watched = Watched::new(journal, metrics, traces);
    agent.run(&mut watched).await;
    if let Some(last) = last {
        last.take().await;
    }
    watched.into_inner().end(settings.clean_up)
}

/// Tells what the daemon does, a line for each thing, and the service manager how it stands.
struct Journal {
    output: Output,
    manager: ServiceManager,
    ready: bool,
    /// What was told last about a change that was refused: it may be tried again every second.
    refusal: Option<String>,
    fatal: Option<Exit>,
    fault: DieAfter,
}

impl Journal {
    fn new(output: Output) -> Self {
        let (manager, fault) = (ServiceManager::of_this_process(), DieAfter::of_this_process());
        Self { output, manager, ready: false, refusal: None, fatal: None, fault }
    }

    /// Whoever does not read what is told is no reason to end.
    fn print(&mut self, text: &str) {
        let _ = self.output.print(text);
    }

    fn tell_kept(&mut self, kept: &Kept) {
        for (key, reason) in &kept.unreadable {
            self.print(&format!("warning: {} cannot be read and is not declared: {reason}\n", one_line(key)));
        }
        if let Some(pending) = &kept.confirmation {
            self.print(&format!("change #{} waits for its confirmation\n", pending.id));
        }
    }

    fn end(mut self, cleaned_up: bool) -> Result<Exit, CommandError> {
        self.print(match cleaned_up {
            true => "stopped: what was declared is removed\n",
            false => "stopped: the network stays as it is\n",
        });
        Ok(self.fatal.unwrap_or(Exit::Applied))
    }
}

impl Audience for Journal {
    fn finished(&mut self, operation: Finished<'_>) {
        if operation.action != Action::Retrieve {
            self.fault.note_operation();
        }
    }

    fn committed(&mut self, record: &Record) {
        let operations = record.steps().iter().filter(|step| step.is_operation());
        let (done, millis) = (operations.count(), record.duration().as_millis());
        if done == 0 && record.failures.is_empty() {
            return;
        }
        self.refusal = None;
        let what = record.description.lines().next().unwrap_or("transaction").to_owned();
        self.print(&format!("txn #{}: {what}: {done} operations in {millis} ms\n", record.seq));
        for cause in &record.failures {
            self.print(&format!("txn #{}: {}: {}\n", record.seq, cause.key, one_line(&cause.error)));
        }
    }

    fn closed(&mut self, record: &EventRecord) {
        let failures: Vec<String> = record.handler_failures().map(one_line).collect();
        failures.iter().for_each(|failure| self.print(&format!("event #{}: {failure}\n", record.seq)));
        let refusal = record.cause().filter(|_| record.txn.is_none()).map(|cause| one_line(&cause.text));
        if let Some(refusal) = refusal.as_ref().filter(|_| refusal != self.refusal) {
            self.print(&format!("event #{}: refused: {refusal}\n", record.seq));
        }
        self.refusal = refusal.or(self.refusal.take());
    }

    fn waiting(&mut self, scheduler: &Scheduler, _settled: bool) -> Pursuit {
        if !self.ready {
            self.ready = true;
            self.manager.say("READY=1\nSTATUS=keeps the network");
            let items = scheduler.declared().len();
            self.print(&format!("ready: {items} items are declared\n"));
        }
        Pursuit::GoOn
    }

    fn unkept(&mut self, text: &str) {
        self.print(&format!("warning: what was carried out could not be kept, it is tried again: {text}\n"));
    }

    fn alive(&mut self) {
        self.manager.say("WATCHDOG=1");
    }

    fn stopping(&mut self) {
        self.manager.say("STOPPING=1");
    }

    fn heeded(&mut self, heeded: &Heeded) {
        self.print(&ending::heeded(heeded));
    }

    fn declared(&mut self, declared: Result<&[Declared], &CommandError>) {
        if let Err(error) = declared {
            self.print("a directory has changed, and cannot be used: what it declared stays\n");
            report(error, &mut Output::stderr());
        }
    }

    fn fatal(&mut self, fatal: &Fatal) {
        self.fatal = Some(ending::exit_of(fatal));
        self.print(&format!("error: {fatal}\n"));
    }
}
