//! What can be set about the loop, with the defaults of its first implementation.

use std::time::Duration;

use kilter_scheduler::{Jitter, Limits, Retry, span};
use serde::{Deserialize, Serialize};

/// The settings of the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// How many events wait in the queue, those behind the startup gate included. Default: 1000.
    pub queue: usize,
    /// How many follow-ups wait. Default: 1000.
    pub follow_ups: usize,
    /// Whether failed items are tried again by the scheduler. Default: yes.
    pub retry: bool,
    /// The delay before the first retry. Default: 1 s.
    #[serde(with = "span")]
    pub retry_delay: Duration,
    /// How many retries are made. Default: 3.
    pub retry_attempts: u32,
    /// Whether each delay is twice the one before. Default: yes.
    pub retry_backoff: bool,
    /// The longest delay between two retries. Default: 60 s.
    #[serde(with = "span")]
    pub retry_cap: Duration,
    /// How much longer the delays may be; for programs to say, not for people. Default: not at all.
    #[serde(skip)]
    pub retry_jitter: Jitter,
    /// How long the startup resync may take to arrive. Default: 30 s.
    #[serde(with = "span")]
    pub startup_deadline: Duration,
    /// How long after a failed event healing begins. Default: 5 s.
    #[serde(with = "span")]
    pub healing_delay: Duration,
    /// How many times healing is tried before the agent ends; the delay doubles each time. Default: 3.
    pub healing_attempts: u32,
    /// The longest delay between two attempts at healing. Default: 60 s.
    #[serde(with = "span")]
    pub healing_cap: Duration,
    /// Whether healing also comes periodically. Default: no.
    pub periodic_healing: bool,
    /// The period. Default: 60 s.
    #[serde(with = "span")]
    pub periodic_interval: Duration,
    /// Whether events are remembered. Default: yes.
    pub history: bool,
    /// How long events are remembered. Default: 24 h.
    #[serde(with = "span")]
    pub history_age: Duration,
    /// The time since the first event whose events outlive their age. Default: 1 h.
    #[serde(with = "span")]
    pub history_permanent: Duration,
    /// At most this many events are remembered. Default: 100 000.
    pub history_count: usize,
    /// At most about this many bytes of events are remembered. Default: 64 MiB.
    pub history_bytes: usize,
    /// Whether resyncs remove items that carry our mark and that nobody declares; otherwise only what is known to be
    /// left behind by an interrupted change is removed, and the rest is left alone. Default: no.
    pub prune: bool,
    /// Whether a verification resync follows every event that went well. Default: no.
    pub verification: bool,
    /// How long one handler may take for one event before a warning names it. Default: 100 ms.
    #[serde(with = "span")]
    pub handler_budget: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let history = Limits::default();
        let seconds = Duration::from_secs;
        Self {
            queue: 1000,
            follow_ups: 1000,
            retry: true,
            retry_delay: seconds(1),
            retry_attempts: 3,
            retry_backoff: true,
            retry_cap: seconds(60),
            retry_jitter: Jitter::default(),
            startup_deadline: seconds(30),
            healing_delay: seconds(5),
            healing_attempts: 3,
            healing_cap: seconds(60),
            periodic_healing: false,
            periodic_interval: seconds(60),
            history: true,
            history_age: history.age,
            history_permanent: history.permanent,
            history_count: history.count,
            history_bytes: history.bytes,
            prune: false,
            verification: false,
            handler_budget: Duration::from_millis(100),
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{field}` {problem}")]
pub struct SettingsError {
    /// The setting.
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub problem: &'static str,
}

impl Settings {
    /// Checks every setting; the error names the first one that cannot be.
    pub fn validate(&self) -> Result<(), SettingsError> {
        const ZERO: &str = "must be greater than 0";
        let zero = |field, span: Duration| (field, span.is_zero(), ZERO);
        let checks = [
            ("queue", self.queue == 0, ZERO),
            ("follow-ups", self.follow_ups == 0, ZERO),
            zero("retry-delay", self.retry_delay),
            (
                "retry-attempts",
                self.retry && self.retry_attempts == 0,
                "must be greater than 0 if `retry` is on",
            ),
            ("retry-cap", self.retry_cap < self.retry_delay, "must not be less than `retry-delay`"),
            zero("startup-deadline", self.startup_deadline),
            zero("healing-delay", self.healing_delay),
            ("healing-attempts", self.healing_attempts == 0, ZERO),
            ("healing-cap", self.healing_cap < self.healing_delay, "must not be less than `healing-delay`"),
            zero("periodic-interval", self.periodic_interval),
            (
                "history-count",
                self.history && self.history_count == 0,
                "must be greater than 0 if `history` is on",
            ),
            (
                "history-bytes",
                self.history && self.history_bytes == 0,
                "must be greater than 0 if `history` is on",
            ),
            zero("handler-budget", self.handler_budget),
        ];
        match checks.into_iter().find(|(_, wrong, _)| *wrong) {
            Some((field, _, problem)) => Err(SettingsError { field, problem }),
            None => Ok(()),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        if !self.history {
            return Limits::nothing();
        }
        Limits {
            age: self.history_age,
            count: self.history_count,
            bytes: self.history_bytes,
            permanent: self.history_permanent,
        }
    }

    pub(crate) fn txn_retry(&self) -> Option<Retry> {
        self.retry.then(|| self.asked_retry())
    }

    /// The retry of whoever asks for one, also if there is none otherwise.
    pub(crate) fn asked_retry(&self) -> Retry {
        Retry {
            period: self.retry_delay,
            count: Some(self.retry_attempts),
            backoff_cap: self.retry_backoff.then_some(self.retry_cap),
            jitter: self.retry_jitter,
        }
    }

    /// When healing is tried, as a retry: the delay doubles up to the cap.
    pub(crate) fn healing_retry(&self) -> Retry {
        Retry {
            period: self.healing_delay,
            count: Some(self.healing_attempts),
            backoff_cap: Some(self.healing_cap),
            jitter: self.retry_jitter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be() {
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    #[test]
    fn an_error_names_the_field() {
        let wrong = Settings { healing_attempts: 0, ..Settings::default() };
        let error = wrong.validate().unwrap_err();
        assert_eq!(error.to_string(), "setting `healing-attempts` must be greater than 0");
        let wrong = Settings { retry_cap: Duration::from_millis(1), ..Settings::default() };
        assert_eq!(wrong.validate().unwrap_err().field, "retry-cap");
    }

    #[test]
    fn settings_are_read_and_written_as_text() {
        let read: Settings = serde_json::from_str(r#"{"healing-delay": "250ms", "queue": 7}"#).unwrap();
        assert_eq!((read.healing_delay, read.queue), (Duration::from_millis(250), 7));
        let written = serde_json::to_string(&read).unwrap();
        assert!(written.contains(r#""history-age":"24h""#), "{written}");
        assert_eq!(serde_json::from_str::<Settings>(&written).unwrap(), read);
        for wrong in [r#"{"healing-delay": "5"}"#, r#"{"healing-delay": "s"}"#, r#"{"heeling-delay": "5s"}"#]
        {
            assert!(serde_json::from_str::<Settings>(wrong).is_err(), "{wrong}");
        }
    }
}
