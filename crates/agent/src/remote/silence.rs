//! Silence: when a process is asked nothing, and when it is tried again.
//!
//! Decided here: that a sign of life ends only the silence of a process that gave none. One that left an operation
//! unanswered may well be alive and hang: an answer has to come, and not before a pause that is doubled each time it
//! falls back. So however a process hangs, the loop waits for it ever more rarely. Not decided here: how it is tried
//! (`line`).

use std::time::Duration;

use tokio::time::Instant;

/// The shortest pause.
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(300);

/// Whoever stays well for so many pauses begins with the first pause again.
const STEADY: u32 = 10;

/// What there is to do about a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: the process answers.
    Nothing,
    /// To wait until then.
    Wait(Instant),
    /// To try whether it answers.
    Try,
    /// To go on: it has answered meanwhile.
    GoOn,
}

/// Whether a process is silent, and since when.
#[derive(Debug)]
pub(super) struct Silence {
    first: Duration,
    pause: Duration,
    heard: Instant,
    is_mute: bool,
    unanswered: Option<Unanswered>,
    /// When it answered again.
    well_since: Option<Instant>,
}

/// Something was not answered.
#[derive(Debug)]
struct Unanswered {
    /// Until then it is left alone.
    until: Instant,
    /// Whether something has been answered since.
    is_answered: bool,
}

impl Silence {
    /// A process that was just heard, and is given this long for an answer.
    pub(super) fn new(within: Duration, now: Instant) -> Self {
        let first = within.max(SHORTEST);
        Self { first, pause: first, heard: now, is_mute: false, unanswered: None, well_since: None }
    }

    /// Whether it is asked nothing.
    pub(super) fn is_there(&self) -> bool {
        self.is_mute || self.unanswered.is_some()
    }

    /// It has said something; whether that ends the silence.
    pub(super) fn hear(&mut self, now: Instant) -> bool {
        self.heard = now;
        std::mem::take(&mut self.is_mute) && !self.is_there()
    }

    /// It has answered something, in time or late.
    pub(super) fn answer(&mut self) {
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.is_answered = true;
        }
    }

    /// Whether it has said nothing for so long.
    pub(super) fn is_late(&self, patience: Duration, now: Instant) -> bool {
        now.duration_since(self.heard) > patience
    }

    /// It gives no sign of life; whether it is silent only from here on.
    pub(super) fn fall_mute(&mut self) -> bool {
        let was_there = self.is_there();
        self.is_mute = true;
        !was_there
    }

    /// It left something unanswered; whether it is silent only from here on.
    pub(super) fn leave(&mut self, now: Instant) -> bool {
        let was_there = self.is_there();
        if self.unanswered.is_none() {
            let falls_back = self.well_since.is_some_and(|since| now < since + STEADY * self.pause);
            self.pause = if falls_back { (2 * self.pause).min(LONGEST) } else { self.first };
            self.unanswered = Some(Unanswered { until: now + self.pause, is_answered: false });
        }
        !was_there
    }

    /// What there is to do.
    pub(super) fn next(&self, now: Instant) -> Next {
        match &self.unanswered {
            None => Next::Nothing,
            Some(unanswered) if now < unanswered.until => Next::Wait(unanswered.until),
            Some(unanswered) if unanswered.is_answered => Next::GoOn,
            Some(_) => Next::Try,
        }
    }

    /// It was tried and did not answer: it is left alone for longer.
    pub(super) fn postpone(&mut self, now: Instant) {
        if let Some(unanswered) = &mut self.unanswered {
            self.pause = (2 * self.pause).min(LONGEST);
            unanswered.until = now + self.pause;
        }
    }

    /// It answers again; whether that ends the silence.
    pub(super) fn end(&mut self, now: Instant) -> bool {
        self.well_since = Some(now);
        self.unanswered.take().is_some() && !self.is_mute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(10);

    #[test]
    fn a_sign_of_life_ends_only_the_silence_of_whoever_gave_none() {
        let start = Instant::now();
        let mut silence = Silence::new(WITHIN, start);
        assert!(silence.is_late(Duration::from_secs(7), start + Duration::from_secs(8)));
        assert!(silence.fall_mute() && silence.is_there() && !silence.fall_mute());
        assert!(silence.hear(start) && !silence.is_there());
        assert!(silence.leave(start));
        assert!(!silence.hear(start) && silence.is_there(), "it lives, and may hang");
        assert!(!silence.fall_mute() && !silence.hear(start) && silence.is_there());
        assert_eq!(silence.next(start), Next::Wait(start + WITHIN));
        silence.answer();
        assert_eq!(silence.next(start), Next::Wait(start + WITHIN), "an answer does not shorten the pause");
        assert_eq!(silence.next(start + WITHIN), Next::GoOn);
        assert!(silence.end(start + WITHIN) && !silence.is_there());
        assert_eq!(silence.next(start), Next::Nothing);
    }

    #[test]
    fn whoever_falls_back_or_does_not_answer_is_tried_ever_more_rarely() {
        let mut now = Instant::now();
        let mut silence = Silence::new(WITHIN, now);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            silence.leave(now);
            let Next::Wait(until) = silence.next(now) else { panic!("there is a pause") };
            pauses.push(until.duration_since(now).as_secs());
            now = until;
            assert_eq!(silence.next(now), Next::Try);
            silence.end(now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
        silence.leave(now);
        silence.postpone(now);
        assert_eq!(silence.next(now), Next::Wait(now + LONGEST));
        silence.end(now);
        silence.leave(now + STEADY * LONGEST);
        assert_eq!(silence.next(now), Next::Wait(now + STEADY * LONGEST + WITHIN), "it was well for long");
    }
}
