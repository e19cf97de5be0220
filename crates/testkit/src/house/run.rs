//! What each command does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use goldenscript::{Block, Context, Runner};
use kilter_events::builtin::{Drifted, ExternalChange, ExternalResync, InputChange, Observed};
use kilter_events::{
    DeclaredChange, Event, Extent, Preview, PushError, Query, Said, Severity, Step, to_json,
};
use kilter_scheduler::{Failure, Key, OnFailure, Timestamp, ValueRef};
use serde_json::Value as Json;

use super::command::Command;
use super::event::Planned;
use super::handler::{Call, Mishap};
use super::{House, perform, show};
use crate::attrs::Attrs;
use crate::clock::{Clock, parse_span};
use crate::render;
use crate::scenario::Failed;
use crate::scenario::command::{HowMuch, Operation, Span};
use crate::world::{Fault, Mishap as WorldMishap};

/// More steps than any script needs.
const ENOUGH: usize = 100_000;

impl Runner for House {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Failed> {
        match command {
            Command::Handlers(names) => self.names.clone_from(names),
            Command::Sources(names) => self.sources.clone_from(names),
            Command::Set(pairs) => {
                for (name, value) in pairs {
                    let value = serde_json::from_str(value).unwrap_or_else(|_| Json::String(value.clone()));
                    self.settings.insert(name.clone(), value);
                }
                self.events()?;
            }
            Command::Event(name, words) => {
                let event = Planned::parse(name, words, &self.defined)?;
                self.define(event);
            }
            Command::Push(names) => return self.push_all(names, false),
            Command::Call(names) => return self.push_all(names, true),
            Command::Resync(local) => return pushed("resync", self.push_resync(local.is_some())?),
            Command::Input(handler, key, pairs) => {
                self.set_input(handler, &Key::new(key), Some(&attrs(pairs)));
            }
            Command::Change(handler, key, pairs) => return self.change(handler, key, Some(&attrs(pairs))),
            Command::Withdraw(handler, key) => return self.change(handler, key, None),
            Command::External(source, key, pairs) => return self.external(source, key, Some(&attrs(pairs))),
            Command::Unexternal(source, key) => return self.external(source, key, None),
            Command::ExternalResync(source, keys) => {
                let items = keys.iter().map(|key| (Key::new(key), Attrs::default().to_value())).collect();
                let event = Event::new(ExternalResync { source: source.clone(), items });
                return pushed("external-resync", self.push(event, None)?);
            }
            Command::Declare(source, key, pairs) => {
                let changes = BTreeMap::from([(Key::new(key), Some(attrs(pairs).to_value()))]);
                return self.declare(declared(source, changes, Extent::Patch));
            }
            Command::Undeclare(source, key) => {
                let changes = BTreeMap::from([(Key::new(key), None)]);
                return self.declare(declared(source, changes, Extent::Patch));
            }
            Command::DeclareAll(source, keys) => {
                return self.declare(declared(source, plain(keys), Extent::Everything));
            }
            Command::Leave(source) => {
                return self.declare(declared(source, BTreeMap::new(), Extent::Leave));
            }
            Command::Preview(source, key, pairs) => {
                let changes = BTreeMap::from([(Key::new(key), Some(attrs(pairs).to_value()))]);
                return self.preview(&declared(source, changes, Extent::Patch));
            }
            Command::Observe(key, pairs) => {
                self.events()?;
                let seen = self.world().observe(&Key::new(key), attrs(pairs));
                return pushed("observe", self.push(Event::new(Observed(vec![seen])), None)?);
            }
            Command::Unobserve(keys) => {
                let seen = keys.iter().map(|key| self.world().unobserve(&Key::new(key))).collect();
                return pushed("unobserve", self.push(Event::new(Observed(seen)), None)?);
            }
            Command::Lose(keys) => {
                keys.iter().try_for_each(|key| self.world().lose(&Key::new(key)))?;
            }
            Command::Drift(keys) => {
                let event = Event::new(Drifted(keys.iter().map(Key::new).collect()));
                return pushed("drift", self.push(event, None)?);
            }
            Command::Fail { action: Operation(action), key, message, effect: HowMuch(effect), times } => {
                let failure = Failure::retriable(message.as_str());
                let mishap = WorldMishap::Fail { failure, effect: *effect };
                let times = times.unwrap_or(1);
                self.world().plan_fault(Fault { action: *action, key: Key::new(key), mishap, times });
            }
            Command::Break { handler, call, how, message, times } => {
                let (call, mishap) = (parse_call(call)?, parse_mishap(how, message)?);
                self.handler(handler)?.mind().mishaps.plan(call, &mishap, times.unwrap_or(1));
            }
            Command::Slow(handler, Span(span)) => self.handler(handler)?.mind().slow = *span,
            Command::Ended(number, text) => {
                let effect = self.effects.remove(number).ok_or("no such effect is under way")?;
                let ended = effect.ended(Ok(Json::String(text.clone())));
                return pushed("ended", self.producer()?.push_ended(ended));
            }
            Command::Shutdown => return pushed("shutdown", self.push_shutdown()?),
            Command::Run => return self.run_ready(),
            Command::Advance(Span(span)) => return self.advance(*span),
            Command::Pass(Span(span)) => self.clock().advance(*span),
            Command::AtStartup(handler, event) => {
                let event = self.defined(event)?.clone();
                self.at_startup.insert(handler.clone(), event);
            }
            Command::Drop => {
                self.producer()?;
                self.events = None;
            }
            Command::Banners => self.banners = true,
            Command::World => {
                let text = self.world().dump();
                return Ok(if text.is_empty() { "empty\n".to_owned() } else { text });
            }
            Command::State(handler) => {
                let text = self.handler(handler)?.mind().text();
                return Ok(format!("{handler} wants {}\n", if text.is_empty() { "nothing" } else { &text }));
            }
            Command::Provenance(key) => return self.provenance(key),
            Command::Health => return self.health(),
            Command::Counts => return Ok(format!("{:?}\n", self.events()?.counts())),
            Command::History(words) => return self.history(words),
            Command::Record(seq) => return self.record(*seq),
        }
        Ok(String::new())
    }

    fn end_block(&mut self, _block: &Block) -> Result<String, Failed> {
        let text = self.answers();
        self.check_idle()?;
        Ok(text)
    }

    fn end_script(&mut self) -> Result<(), Failed> {
        if let Some(fault) = self.world.faults().first() {
            return Err(format!("a planned fault has not happened: {fault:?}").into());
        }
        if let Some(handler) = self.handlers.iter().find(|handler| handler.mind().mishaps.open() > 0) {
            return Err(format!("a planned mishap of `{}` has not happened", handler.title()).into());
        }
        self.check_replay()?;
        self.events = None;
        self.take_answers();
        self.check_answered()
    }
}

impl House {
    fn push_all(&mut self, names: &[String], waits: bool) -> Result<String, Failed> {
        let mut text = String::new();
        for name in names {
            let event = self.defined(name)?.event();
            text.push_str(&pushed(name, self.push(event, waits.then_some(name.as_str()))?)?);
        }
        Ok(text)
    }

    fn change(&mut self, handler: &str, key: &str, attrs: Option<&Attrs>) -> Result<String, Failed> {
        let old = self.set_input(handler, &Key::new(key), attrs);
        let new = attrs.map(to_json);
        let change = InputChange { resource: handler.to_owned(), name: key.to_owned(), old, new };
        pushed("change", self.push(Event::new(change), None)?)
    }

    fn external(&mut self, source: &str, key: &str, attrs: Option<&Attrs>) -> Result<String, Failed> {
        let changes = BTreeMap::from([(Key::new(key), attrs.map(Attrs::to_value))]);
        let change = ExternalChange { source: source.to_owned(), changes };
        pushed("external", self.push(Event::new(change), None)?)
    }

    fn declare(&mut self, change: DeclaredChange) -> Result<String, Failed> {
        pushed("declare", self.push(Event::new(change), Some("declare"))?)
    }

    fn preview(&mut self, change: &DeclaredChange) -> Result<String, Failed> {
        let now = self.clock().now();
        self.events()?;
        let Some(events) = self.events.as_mut() else { return Err("the loop is gone".into()) };
        let Preview { txn, conflicts } = events.preview(change);
        let plan = perform::plan(events.scheduler_mut(), &mut self.world, txn, now)?;
        // What is only looked at is no part of the run.
        events.scheduler_mut().take_journal();
        let mut text = String::from("plan\n");
        for step in plan.iter().flat_map(|plan| &plan.steps) {
            writeln!(text, "  {} {}", step.action.name(), step.key)?;
        }
        text.extend(conflicts.iter().map(show::conflict));
        Ok(text)
    }

    /// Lets the loop do everything that is ready.
    fn run_ready(&mut self) -> Result<String, Failed> {
        let mut text = String::new();
        for _ in 0..ENOUGH {
            let step = self.step()?;
            text.push_str(&show::step(&step, self.banners));
            if let Some(record) = self.owed.take() {
                text.push_str(&render::record(&record));
            }
            // The producer is told when the event has ended; it is shown after that.
            if !matches!(step, Step::Commit(_) | Step::Plan(_)) {
                text.push_str(&self.answers());
            }
            if matches!(step, Step::Wait(_) | Step::Stopped) {
                return Ok(text);
            }
        }
        Err("the loop does not come to rest".into())
    }

    fn advance(&mut self, span: std::time::Duration) -> Result<String, Failed> {
        let target = self.clock().now().after(span);
        let mut text = String::new();
        loop {
            text.push_str(&self.run_ready()?);
            let now = self.clock().now();
            let Step::Wait(Some(deadline)) = self.events()?.next(now) else { break };
            if deadline > target {
                break;
            }
            self.clock().advance_to(deadline);
            text.push_str(&format!("at +{:?}\n", deadline.since(Clock::default().now())));
        }
        self.clock().advance_to(target);
        Ok(text)
    }

    fn answers(&mut self) -> String {
        self.take_answers().iter().map(|(name, answered)| show::answer(name, answered)).collect()
    }

    fn provenance(&mut self, key: &str) -> Result<String, Failed> {
        let found = self.events()?.provenance(key);
        let handler = found.handler.unwrap_or_else(|| "no handler".into());
        let sources = if found.sources.is_empty() { "none".to_owned() } else { found.sources.join(", ") };
        Ok(format!("{handler}, sources: {sources}\n"))
    }

    fn health(&mut self) -> Result<String, Failed> {
        let health = self.events()?.health();
        let mut text = String::new();
        for (name, standing) in health.components() {
            let line = format!("{name} {:?} {}", standing.level, standing.reason);
            writeln!(text, "{}", line.trim_end())?;
        }
        writeln!(text, "live: {}, ready: {}", health.is_live(), health.is_ready())?;
        Ok(text)
    }

    fn history(&mut self, words: &[(String, String)]) -> Result<String, Failed> {
        let start = Clock::default().now();
        let find = |name: &str| words.iter().find(|(word, _)| word == name).map(|(_, text)| text.as_str());
        let number = |name: &str| find(name).map(str::parse::<u64>).transpose();
        let moment = |name: &str| -> Result<Option<Timestamp>, String> {
            find(name).map(|text| Ok(start.after(parse_span(text)?))).transpose()
        };
        let query = if let Some(seq) = number("seq")? {
            Query::Seq(seq)
        } else if let (Some(from), Some(to)) = (number("from")?, number("to")?) {
            Query::Range(from, to)
        } else if let Some(count) = number("first")? {
            Query::First(usize::try_from(count)?)
        } else if let Some(count) = number("last")? {
            Query::Last(usize::try_from(count)?)
        } else {
            match (moment("since")?, moment("until")?) {
                (None, None) => Query::All,
                (since, until) => Query::Window { since, until },
            }
        };
        let found = self.events()?.history().query(query);
        Ok(found.iter().map(|record| show::remembered(record, start)).collect())
    }

    fn record(&mut self, seq: u64) -> Result<String, Failed> {
        let found = self.events()?.history().query(Query::Seq(seq));
        let record = found.first().ok_or("there is no such record")?;
        let mut json = serde_json::to_value(record.as_ref())?;
        if let Some(map) = json.as_object_mut() {
            ["start", "stop", "txn"].iter().for_each(|field| {
                map.shift_remove(*field);
            });
            let description = record.txn.as_ref().map(|txn| txn.description.clone());
            map.insert("txn_description".to_owned(), to_json(&description));
        }
        Ok(format!("{}\n", json))
    }
}

/// A declaration: a patch is all or nothing, everything is best effort.
fn declared(source: &str, changes: BTreeMap<Key, Option<ValueRef>>, extent: Extent) -> DeclaredChange {
    let on_failure = if extent == Extent::Patch { OnFailure::Revert } else { OnFailure::Continue };
    let (source, description) = (source.to_owned(), String::new());
    let said = vec![Said { source, changes, extent }];
    DeclaredChange { said, on_failure, retry: None, description }
}

/// Items without attributes.
fn plain(keys: &[String]) -> BTreeMap<Key, Option<ValueRef>> {
    keys.iter().map(|key| (Key::new(key), Some(Attrs::default().to_value()))).collect()
}

fn attrs(pairs: &[(String, String)]) -> Attrs {
    pairs.iter().cloned().collect()
}

fn pushed(name: &str, pushed: Result<(), PushError>) -> Result<String, Failed> {
    Ok(pushed.err().map(|error| format!("refused {name}: {error}\n")).unwrap_or_default())
}

fn parse_call(text: &str) -> Result<Call, String> {
    match text {
        "handles" => Ok(Call::Handles),
        "resync" => Ok(Call::Resync),
        "update" => Ok(Call::Update),
        "revert" => Ok(Call::Revert),
        _ => Err(format!("`{text}` is not one of handles, resync, update, revert")),
    }
}

fn parse_mishap(how: &str, message: &str) -> Result<Mishap, String> {
    let severity = match how {
        "panic" => return Ok(Mishap::Panic(message.to_owned())),
        "plain" => Severity::Plain,
        "abort" => Severity::Abort,
        "fatal" => Severity::Fatal,
        _ => return Err(format!("`{how}` is not one of plain, abort, fatal, panic")),
    };
    Ok(Mishap::Error(severity, message.to_owned()))
}
