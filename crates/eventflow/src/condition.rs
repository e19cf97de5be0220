//! Conditions: how a flow stands, as a pure function of its children.
//!
//! Decided here: what each condition says, when its transition time moves (only when its status does, as Kubernetes has
//! it), and what is worth a write. Not decided here: where the children's states come from ([`crate::standing`]).

use std::time::Duration;

use kilter_scheduler::{State, Timestamp, Unmet};
use serde::{Deserialize, Serialize};

use crate::object::Readiness;

/// How long an operation may be retried before that is called a failure.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold, and waiting alone will not change that.
    False,
    /// Nobody knows yet.
    Unknown,
}

/// One condition of a flow, as its status carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub name: String,
    /// What it says.
    pub status: Truth,
    /// `Info` if it does not decide about `Ready`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// Why, in one word that stays the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When its status last changed.
    #[serde(default)]
    pub last_transition_time: String,
}

impl Condition {
    /// Whether it says the same, whenever it began to.
    fn says_the_same(&self, other: &Self) -> bool {
        let content = |it: &Self| {
            (it.name.clone(), it.status, it.severity.clone(), it.reason.clone(), it.message.clone())
        };
        content(self) == content(other)
    }
}

/// The status of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowStatus {
    /// Where the events of the flow go; the capital letter is the name on the wire.
    #[serde(rename = "SinkURI", default, skip_serializing_if = "Option::is_none")]
    pub sink_uri: Option<String>,
    /// How it stands, by type.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The generation that was looked at.
    #[serde(default)]
    pub observed_generation: i64,
}

impl FlowStatus {
    /// Whether writing this over the other one would change anything but times.
    pub fn is_worth_writing(&self, over: &Self) -> bool {
        let same = self.conditions.len() == over.conditions.len()
            && self.conditions.iter().zip(&over.conditions).all(|(one, other)| one.says_the_same(other));
        !same || self.sink_uri != over.sink_uri || self.observed_generation != over.observed_generation
    }

    /// One of its conditions.
    pub fn condition(&self, name: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.name == name)
    }
}

/// What a child's item in the graph says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// Where it stands; `None` if there is no such item.
    pub state: Option<State>,
    /// What it waits for.
    pub unmet: Vec<Unmet>,
    /// Why its last operation failed.
    pub error: Option<String>,
    /// Since when its operations fail, one after another.
    pub failing: Option<Timestamp>,
}

/// One child of a flow: its item in the graph, and the object that it is in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Child {
    /// What it is called for people, for example ``Broker `default` ``.
    pub title: String,
    /// The word for it in reasons: `WaitingForSource`.
    pub word: &'static str,
    /// The items that make it, in order; none if somebody else does.
    pub stages: Vec<Stage>,
    /// Whether its resource is installed.
    pub installed: bool,
    /// Whether its object exists.
    pub exists: bool,
    /// Whether its object is on its way out.
    pub deleting: bool,
    /// What its object says about itself; `None` if it says nothing yet.
    pub readiness: Option<Readiness>,
}

/// What a flow stands on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Children {
    /// The adapter of the source.
    pub source: Child,
    /// The Broker.
    pub sink: Child,
    /// The Subscription.
    pub subscription: Child,
    /// The policy, if there is to be one.
    pub policy: Option<Child>,
    /// The address of the sink.
    pub address: Option<String>,
}

type Verdict = (Truth, String, String);

fn verdict(truth: Truth, reason: impl Into<String>, message: impl Into<String>) -> Verdict {
    (truth, reason.into(), message.into())
}

/// How a flow stands. `previous` is the status as it was last written.
pub fn status(children: &Children, generation: i64, previous: &FlowStatus, now: Timestamp) -> FlowStatus {
    let judge = |name: &str, child: &Child| condition(name, "", judge(child, previous.condition(name), now));
    let dependents = [
        judge("SinkReady", &children.sink),
        judge("SourceReady", &children.source),
        judge("SubscriptionReady", &children.subscription),
    ];
    let dependents = dependents.map(|it| timed(it, previous, now));
    let ready = condition("Ready", "", roll_up(&dependents));
    let mut conditions = vec![timed(ready, previous, now)];
    conditions.extend(dependents);
    if let Some(policy) = &children.policy {
        let told = policy_verdict(policy, previous.condition("PolicyReady"), now);
        conditions.push(timed(condition("PolicyReady", "Info", told), previous, now));
    }
    conditions.sort_by(|one, other| one.name.cmp(&other.name));
    FlowStatus { sink_uri: children.address.clone(), conditions, observed_generation: generation }
}

fn condition(name: &str, severity: &str, (status, reason, message): Verdict) -> Condition {
    Condition {
        name: name.to_owned(),
        status,
        severity: severity.to_owned(),
        reason,
        message,
        last_transition_time: String::new(),
    }
}

/// A condition with the time of its last change of status.
fn timed(mut condition: Condition, previous: &FlowStatus, now: Timestamp) -> Condition {
    let before = previous.condition(&condition.name).filter(|before| before.status == condition.status);
    condition.last_transition_time = match before {
        Some(before) if !before.last_transition_time.is_empty() => before.last_transition_time.clone(),
        _ => instant(now),
    };
    condition
}

/// Ready when every dependent is; otherwise what the worst of them says: false before unknown, then the one that changed
/// last, then by type.
fn roll_up(dependents: &[Condition]) -> Verdict {
    let worst = |truth| {
        let all = dependents.iter().rev().filter(|condition| condition.status == truth);
        all.max_by_key(|condition| condition.last_transition_time.as_str())
    };
    match worst(Truth::False).or_else(|| worst(Truth::Unknown)) {
        Some(worst) => verdict(worst.status, worst.reason.clone(), worst.message.clone()),
        None => verdict(Truth::True, "", ""),
    }
}

fn judge(child: &Child, previous: Option<&Condition>, now: Timestamp) -> Verdict {
    let title = &child.title;
    if !child.installed {
        return verdict(
            Truth::Unknown,
            "NotInstalled",
            format!("{title} is of a resource that is not installed"),
        );
    }
    if child.deleting {
        return verdict(
            Truth::Unknown,
            format!("WaitingFor{}Deletion", child.word),
            format!("{title} is on its way out; it is made again when it is gone"),
        );
    }
    if let Some(told) = child.stages.iter().find_map(|stage| hindrance(child, stage, previous, now)) {
        return told;
    }
    if !child.exists {
        return verdict(
            Truth::Unknown,
            format!("WaitingFor{}", child.word),
            format!("{title} does not exist yet"),
        );
    }
    match &child.readiness {
        Some(Readiness { status: Some(true), .. }) => verdict(Truth::True, "", ""),
        Some(Readiness { status: Some(false), reason, message }) => {
            verdict(Truth::False, or(reason, "NotReady"), format!("{title}: {message}"))
        }
        Some(Readiness { status: None, reason, message }) => {
            verdict(Truth::Unknown, or(reason, "AwaitingStatus"), format!("{title}: {message}"))
        }
        None => verdict(Truth::Unknown, "AwaitingStatus", format!("{title} has not said how it stands")),
    }
}

/// A policy says nothing about itself: it is ready when it is there.
fn policy_verdict(child: &Child, previous: Option<&Condition>, now: Timestamp) -> Verdict {
    let ready = Readiness { status: Some(true), reason: String::new(), message: String::new() };
    judge(&Child { readiness: Some(ready), ..child.clone() }, previous, now)
}

fn or(reason: &str, otherwise: &str) -> String {
    if reason.is_empty() { otherwise.to_owned() } else { reason.to_owned() }
}

/// What keeps an item from being made.
fn hindrance(child: &Child, stage: &Stage, previous: Option<&Condition>, now: Timestamp) -> Option<Verdict> {
    let error = || stage.error.clone().unwrap_or_default();
    match stage.state? {
        State::Pending => {
            let (reason, message) = waiting(&child.title, &stage.unmet);
            Some(verdict(Truth::Unknown, reason, message))
        }
        State::Retrying => {
            let truth = if is_overdue(stage, previous, now) { Truth::False } else { Truth::Unknown };
            Some(verdict(truth, "Retrying", error()))
        }
        State::Failed => Some(verdict(Truth::False, "CreateFailed", error())),
        State::Invalid => Some(verdict(Truth::False, "Invalid", error())),
        State::Unimplemented => Some(verdict(Truth::Unknown, "NotInstalled", error())),
        State::Removing => {
            let message = format!("{} is on its way out; it is made again when it is gone", child.title);
            Some(verdict(Truth::Unknown, format!("WaitingFor{}Deletion", child.word), message))
        }
        State::Nonexistent
        | State::Missing
        | State::Removed
        | State::Configured
        | State::Obtained
        | State::Discovered
        | State::Applying => None,
    }
}

/// Whether a retry has gone on for so long that it is a failure: counted from the first one, however long the item was
/// waited for before. What was called a failure stays one until it is none, also over a restart.
fn is_overdue(stage: &Stage, previous: Option<&Condition>, now: Timestamp) -> bool {
    let was_one = |it: &Condition| it.status == Truth::False && it.reason == "Retrying";
    previous.is_some_and(was_one) || stage.failing.is_some_and(|since| now.since(since) >= PATIENCE)
}

/// The reason and the message of something that waits. The nearest cause is named, and always the same one.
fn waiting(title: &str, unmet: &[Unmet]) -> (String, String) {
    let named = |unmet: &Unmet| {
        let text = match unmet {
            Unmet::On(key) | Unmet::Absent(key) => key.as_str(),
            Unmet::AnyOf { prefixes, .. } => prefixes.first().map_or("", String::as_str),
        };
        let reason = match text.split('/').take(2).collect::<Vec<_>>().as_slice() {
            ["kube", "definition"] => (0, "NotInstalled"),
            ["kube", "namespace"] => (1, "WaitingForNamespace"),
            ["kube", "broker"] if matches!(unmet, Unmet::Absent(_)) => (2, "WaitingForSinkDeletion"),
            ["eventflow", "slot"] => (3, "WaitingForSink"),
            ["kube", "broker"] => (4, "WaitingForSinkAddress"),
            ["kube", "channel"] => (5, "WaitingForChannel"),
            _ => (6, "WaitingForFinalizer"),
        };
        (reason, format!("{title} waits for {unmet}"))
    };
    let nearest = unmet.iter().map(named).min();
    nearest.map_or_else(
        || ("Waiting".to_owned(), format!("{title} waits")),
        |((_, reason), message)| (reason.to_owned(), message),
    )
}

/// A moment as Kubernetes writes it: seconds, in UTC.
pub fn instant(now: Timestamp) -> String {
    let seconds = i64::try_from(now.0 / 1_000_000_000).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |moment| moment.to_string())
}
