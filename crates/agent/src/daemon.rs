//! `kilter agent`: the daemon.
//!
//! Numbered steps: 1. the settings are read; 2. what is not needed of root is given up; 3. no other agent keeps this
//! network; 4. the state directory, the socket, the address and the audit records are opened; 5. the directories are
//! read; 6. the parts are put together and the kernel is watched; 7. what was kept and what the directories say is
//! declared; 8. whoever connects is served, the loop is driven until somebody ends it, and the service manager is told how
//! it stands; 9. if it was told to hand over, the process becomes the next agent.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use kilter_cli::daemon::Daemon;
use kilter_cli::{CommandError, Exit, Output, read, report};
use kilter_events::{EventRecord, Fatal};
use kilter_linux::inherited::{self, Inherited};
use kilter_linux::sandbox;
use kilter_model::document::Declared;
use kilter_scheduler::render::one_line;
use kilter_scheduler::{Action, Record, Scheduler};
use kilter_southbound::Finished;

use crate::alone::Alone;
use crate::assemble::{self, assemble};
use crate::cluster::member::Member;
use crate::drift::Heeded;
use crate::drive::{Agent, Audience, Pursuit};
use crate::ending::{self, broken, refused};
use crate::fault::DieAfter;
use crate::feed;
use crate::feed::directory::Directory;
use crate::handover::{Handover, Program};
use crate::keep::{Codec, Keep, Kept, Missing};
use crate::northbound::audit::Audit;
use crate::northbound::closing::Closing;
use crate::northbound::socket::Socket;
use crate::northbound::{self, Listeners};
use crate::notify::ServiceManager;
use crate::recording::Recording;
use crate::settings::{DirectorySettings, Settings};
use crate::signals::{self, HangUp};
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
    if let Some(file) = &arguments.record {
        settings.record.file = Some(file.clone());
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
    let program = Program::of_this_process().map_err(|error| broken("failed to start", error))?;
    match runtime.block_on(run(settings, output))? {
        Ended::For(exit) => Ok(exit),
        Ended::HandsOver(socket, tcp) => {
            drop(runtime);
            Err(broken("failed to hand over", program.succeed(socket, tcp))) // 9
        }
    }
}

/// How a run ended.
enum Ended {
    /// For good.
    For(Exit),
    /// The next agent takes over, and these sockets with it.
    HandsOver(Socket, Vec<TcpListener>),
}

async fn run(settings: Settings, output: Output) -> Result<Ended, CommandError> {
    let hang_up = HangUp::listen().map_err(|error| broken("failed to listen for signals", error))?;
    logs::begin(&settings.telemetry.logs).map_err(|error| refused("the agent cannot be started", error))?;
    let mut journal = Journal::new(output);
    // While the state directory is read, which may take as long.
    let directories = settings.directory.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let read = |directory: &DirectorySettings| {
            // First the traces, then the content: what changes in between is noticed.
            let followed = Directory::new(&directory.name, &directory.path);
            (followed, read::documents(&[&directory.path]))
        };
        directories.iter().map(read).collect::<Vec<_>>()
    });
    let (keep, kept) = Keep::open(&settings.state_directory, &settings.state, Codec::documents())
        .map_err(|error| refused("the agent cannot be started", error))?; // 4
    let Inherited { socket, tcp } =
        inherited::listeners().map_err(|error| broken("failed to take over what was held", error))?;
    let socket = Socket::take(&settings.socket, socket)
        .map_err(|error| refused("the agent cannot be started", error))?;
    let unserved = |error| refused("the agent cannot be started", error);
    let door = northbound::door(&settings.northbound).map_err(unserved)?;
    let (closer, closing) = Closing::pair();
    let listeners = Listeners::of(&settings.northbound, tcp).and_then(|opened| opened.at_socket(&socket));
    let listeners = listeners.map_err(unserved)?.until(closing);
    let held = listeners.held().map_err(|error| broken("failed to serve", error))?;
    let limits = settings.northbound.limits.clone();
    let audit = Audit::open(&settings.state_directory.join("audit.log"))
        .map_err(|error| refused("the agent cannot be started", error))?;
    let recording =
        Recording::open(&settings.record).map_err(|error| refused("the agent cannot be started", error))?;
    journal.tell_kept(&kept);
    journal.tell_gone(&kept, &settings);
    let mut followed = Vec::new();
    let mut said = Vec::new();
    for (directory, declared) in
        reading.await.map_err(|error| broken("failed to read the directories", error))?
    {
        let name = directory.name().to_owned();
        if let Err(error) = &declared {
            journal.print(&format!("`{name}` cannot be used: what it declared before stays\n"));
            report(error, &mut Output::stderr());
        }
        followed.push(directory);
        said.push((name, declared.ok()));
    }
    if settings.cluster.is_some() {
        // What it declared before stands until it is known what it declares.
        said.push((feed::cluster::SOURCE.to_owned(), None));
    } // 5
    let parts =
        assemble::Settings { linux: settings.southbound(), events: settings.events, driver: settings.driver };
    let assembly = assemble(parts).map_err(|error| broken("failed to start the agent", error))?;
    let agent = Agent::new(assembly, settings.drift)
        .await
        .map_err(|error| broken("failed to start the agent", error))?; // 6
    let mut agent = agent.keeping(keep).cleaning_up(settings.clean_up).beating(journal.manager.beat);
    agent = agent.recording(recording, &settings.record);
    followed.into_iter().for_each(|directory| agent.follow(directory));
    signals::heed(agent.stop()).map_err(|error| broken("failed to listen for signals", error))?;
    agent.begin(kept, said).map_err(|error| broken("failed to declare what was kept", error))?; // 7
    let serving = northbound::serve(listeners, door, Some(Arc::new(audit)), limits, agent.desk())
        .map_err(|error| broken("failed to serve", error))?;
    let served = northbound::on_own_thread(serving).map_err(|error| broken("failed to serve", error))?; // 8
    let handover = Handover::default();
    tokio::spawn(handover.clone().begin(hang_up, closer, served, agent.stop()));
    let metrics = Metrics::default();
    let member = match &settings.cluster {
        Some(cluster) => {
            let directory = &settings.state_directory;
            Some(Member::join(cluster, agent.desk(), directory, &handover, metrics.delivery()).await)
        }
        None => None,
    };
    let member = member.transpose().map_err(|error| refused("the agent cannot be started", error))?;
    let scraped = scrape::serve(&settings.telemetry.metrics, metrics.clone()).await;
    if let Some((_, scraped)) = scraped.map_err(|error| refused("the agent cannot be started", error))? {
        tokio::spawn(scraped);
    }
    let traces = Traces::begin(&settings.telemetry.traces);
    let traces = traces.map_err(|error| refused("the agent cannot be started", error))?;
    let last = traces.as_ref().map(Traces::last);
    let mut watched = Watched::new(journal, metrics, traces);
    agent.run(&mut watched).await;
    if let Some(member) = member {
        member.leave().await;
    }
    if let Some(last) = last {
        last.take().await;
    }
    let journal = watched.into_inner();
    if handover.is_on() && journal.fatal.is_none() {
        journal.hand_over();
        return Ok(Ended::HandsOver(socket, held));
    }
    journal.end(settings.clean_up).map(Ended::For)
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

    /// A directory that the settings do not name any more is nobody's: what it declared stays until somebody says so.
    fn tell_gone(&mut self, kept: &Kept, settings: &Settings) {
        let is_named = |name: &str| {
            let of_the_cluster = settings.cluster.is_some() && name == feed::cluster::SOURCE;
            of_the_cluster || settings.directory.iter().any(|directory| directory.name == name)
        };
        // Whoever is no directory has a place.
        let sources = kept.sources.iter().filter(|source| source.place.is_none() && !source.items.is_empty());
        for name in sources.map(|source| source.name.as_str()).filter(|name| !is_named(name)) {
            self.print(&format!(
                "warning: `{name}` is no directory of the settings any more: what it declared stays, \
                 hint: `kilter source remove {name}` takes it back\n"
            ));
        }
    }

    fn hand_over(mut self) {
        self.print("hands over: the next agent takes the network as it is\n");
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

    fn unremembered(&mut self, missing: &Missing) {
        let count = missing.count;
        self.print(&match &missing.why {
            Some(why) => format!("warning: {count} records of the history could not be written: {why}\n"),
            None => format!("the history is written again, {count} records of it are missing\n"),
        });
    }

    fn unrecorded(&mut self, text: &str) {
        self.print(&format!("{text}\n"));
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
