//! What is asserted without being asked.

use kilter_events::{EventKinds, Line, Opening, Step, graph_hash, replay};

use super::event::{Planned, read_value};
use super::handler::Scripted;
use super::{Failed, House};
use crate::world::World;

impl House {
    /// Follow-ups are not overtaken: between an event and what follows from it, only follow-ups are opened, and in the
    /// order in which they were asked for.
    pub(super) fn note_order(&mut self, step: &Step) -> Result<(), Failed> {
        let Step::Opened(Opening { seq, follow_up_to, .. }) = step else { return Ok(()) };
        self.opened.push(*follow_up_to);
        let Some(parent) = follow_up_to else { return Ok(()) };
        let between = &self.opened[usize::try_from(*parent)? + 1..];
        if between.iter().any(Option::is_none) || !between.is_sorted() {
            return Err(format!("event #{seq}, a follow-up to #{parent}, was overtaken").into());
        }
        Ok(())
    }

    /// Everything that holds when the loop has nothing left to do.
    pub fn check_idle(&mut self) -> Result<(), Failed> {
        if let Some(events) = &self.events {
            events.scheduler().check_invariants();
        }
        match self.waiting.iter().find(|(_, answers)| *answers > 1) {
            Some((name, answers)) => Err(format!("`{name}` was answered {answers} times").into()),
            None => Ok(()),
        }
    }

    /// Every blocking event was answered exactly once.
    pub fn check_answered(&self) -> Result<(), Failed> {
        match self.waiting.iter().find(|(_, answers)| *answers != 1) {
            Some((name, answers)) => Err(format!("`{name}` was answered {answers} times").into()),
            None => Ok(()),
        }
    }

    /// The run so far, as it was written down.
    pub fn recording(&self) -> Vec<Line> {
        let graph = self.events.as_ref().map(|events| Line::Ended { graph: graph_hash(events.scheduler()) });
        self.lines.iter().cloned().chain(graph).collect()
    }

    /// The run once more from its recording, through text and back: the same plans, the same graph.
    pub fn check_replay(&mut self) -> Result<(), Failed> {
        let written = self.recording();
        let lines = written.iter().map(|line| Ok(serde_json::from_str(&serde_json::to_string(line)?)?));
        let lines: Vec<Line> = lines.collect::<Result<_, Failed>>()?;
        if lines != written {
            return Err("a recording is not what it was after it was written and read".into());
        }
        let handlers = self.replay(lines)?;
        for (first, second) in self.handlers.iter().zip(&handlers) {
            let (first, second) = (first.mind().text(), second.mind().text());
            if first != second {
                return Err(format!("a handler wants `{first}`, and `{second}` in the replay").into());
            }
        }
        Ok(())
    }

    /// Replays lines on a fresh loop whose handlers go wrong where they went wrong here.
    pub fn replay(&self, lines: Vec<Line>) -> Result<Vec<Scripted>, Failed> {
        let mishaps = |at: usize| self.handlers[at].mind().mishaps.afresh();
        let (mut again, handlers) = self.make(&mut World::default(), mishaps)?;
        let kinds = EventKinds::default().with::<Planned>();
        let describe = |kind: &serde_json::Value| Err(format!("{kind} was never added"));
        replay(&mut again, lines, &kinds, &read_value, &describe, |_| {})?;
        Ok(handlers)
    }
}
