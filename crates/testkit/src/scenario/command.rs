//! The commands of scenario scripts.

use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use kilter_scheduler::{Action, OnFailure};

use crate::clock::parse_span;
use crate::world::Effect;

/// A command of a scenario script.
#[derive(goldenscript::Command)]
pub enum Command {
    /// `put KEY name=text…`: declares an item in the next transaction.
    Put(String, #[arg(optional)] Vec<(String, String)>),
    /// `remove KEY…`: removes declarations in the next transaction.
    Remove(Vec<String>),
    /// `commit [plan-only] [backoff] [on-failure=revert] [retry=1s] [count=N] [order=any seed=N]`.
    Commit {
        /// `plan-only`, `backoff`.
        #[arg(optional)]
        flags: Vec<String>,
        /// What a failure leads to.
        #[arg(key = "on-failure", optional)]
        on_failure: Failing,
        /// The delay before failed items are tried again.
        #[arg(key)]
        retry: Option<Span>,
        /// How often they are tried again; 0 is without end; 3 unless told.
        #[arg(key)]
        count: Option<u32>,
        /// `any` answers the ready operations in a random order.
        #[arg(key)]
        order: Option<String>,
        /// The seed of the random order.
        #[arg(key)]
        seed: Option<u64>,
    },
    /// `plan [as=NAME]`: shows what `commit` would do, and does nothing; with a name, the plan is kept.
    Plan {
        /// The name of the plan.
        #[arg(key = "as")]
        name: Option<String>,
    },
    /// `apply-plan NAME`: does exactly what the plan says, or nothing if something else would happen.
    #[command(name = "apply-plan")]
    ApplyPlan(String),
    /// `observe KEY name=text…`: a foreign item appears or changes, and the agent is notified.
    Observe(String, #[arg(optional)] Vec<(String, String)>),
    /// `unobserve KEY…`: foreign items go away, and the agent is notified, once for all.
    Unobserve(Vec<String>),
    /// `notify see="KEY name=text…" gone=KEY…`: one notification about several items, in this order.
    Notify(Vec<(String, String)>),
    /// `fail ACTION KEY "message" [lasting] [effect=before|after|partial] [times=N]`: plans a failure.
    Fail {
        /// The operation.
        action: Operation,
        /// The item; for `retrieve`, also the name of a kind.
        key: String,
        /// What the agent is told.
        message: String,
        /// `lasting`: trying again is in vain.
        lasting: Option<String>,
        /// What really happens.
        #[arg(key, optional)]
        effect: HowMuch,
        /// How often; once unless told.
        #[arg(key)]
        times: Option<u32>,
    },
    /// `accept ACTION KEY within=5s`: the operation is accepted and comes true when it is confirmed.
    Accept {
        /// The operation.
        action: Operation,
        /// The item.
        key: String,
        /// How long the agent waits for the confirmation.
        #[arg(key)]
        within: Span,
    },
    /// `confirm KEY…`: what was accepted comes true, and the agent is notified, once for all.
    Confirm(Vec<String>),
    /// `hang ACTION KEY`: the operation is not answered until it is released.
    Hang(Operation, String),
    /// `release KEY…`: what hangs comes true and is answered.
    Release(Vec<String>),
    /// `cancel REASON`: nothing further of the transaction under way is started.
    Cancel(String),
    /// `advance SPAN`: time passes; what is due is run.
    Advance(Span),
    /// `resync full|upstream|downstream [backoff] [keep] [only=KEY…] [retry=1s] [count=N]`.
    Resync {
        /// What is recomputed.
        what: String,
        /// `backoff`; `keep` leaves items of ours alone that nobody declares.
        #[arg(optional)]
        flags: Vec<String>,
        /// Of the items of ours that nobody declares, only this one is removed.
        #[arg(key)]
        only: Option<String>,
        /// The delay before failed items are tried again.
        #[arg(key)]
        retry: Option<Span>,
        /// How often they are tried again.
        #[arg(key)]
        count: Option<u32>,
    },
    /// `refresh KEY…`: re-reads items.
    Refresh(Vec<String>),
    /// `restart [full|downstream|none]`: a fresh agent finds the world as it is; a full resync unless told.
    Restart(Option<String>),
    /// `register late`: registers the late kinds.
    Register(String),
    /// `lose KEY…`: items vanish behind the agent's back.
    Lose(Vec<String>),
    /// `alter KEY name=text…`: an item changes behind the agent's back.
    Alter(String, Vec<(String, String)>),
    /// `plant KEY [foreign] name=text…`: an item appears behind the agent's back, as ours or as foreign.
    Plant(String, Option<String>, #[arg(optional)] Vec<(String, String)>),
    /// `graph`: every item the scheduler knows.
    Graph,
    /// `status KEY`.
    Status(String),
    /// `explain KEY`.
    Explain(String),
    /// `timeline KEY`.
    Timeline(String),
    /// `history`.
    History,
    /// `world`: what exists.
    World,
    /// `reads KIND`: how the whole kind was answered for since this was asked last.
    Reads(String),
}

/// A span of time.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_span(text).map(Self)
    }
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failing(pub OnFailure);

impl FromStr for Failing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "continue" => Ok(Self(OnFailure::Continue)),
            "revert" => Ok(Self(OnFailure::Revert)),
            _ => Err(format!("`{text}` is not one of continue, revert")),
        }
    }
}

/// An operation that may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Operation(pub Action);

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Action::Create, Action::Update, Action::Delete, Action::Retrieve];
        let found = all.into_iter().find(|action| action.name() == text);
        found.map(Self).ok_or_else(|| format!("`{text}` is not one of create, update, delete, retrieve"))
    }
}

/// How much of a failed operation happens.
#[derive(Clone, Copy, Debug, Default)]
pub struct HowMuch(pub Effect);

impl FromStr for HowMuch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "before" => Ok(Self(Effect::Before)),
            "after" => Ok(Self(Effect::After)),
            "partial" => Ok(Self(Effect::Partial)),
            _ => Err(format!("`{text}` is not one of before, after, partial")),
        }
    }
}

/// Fails unless every word is one of the allowed ones.
pub(crate) fn only(words: &[String], allowed: &[&str]) -> Result<(), Box<dyn Error>> {
    match words.iter().find(|word| !allowed.contains(&word.as_str())) {
        Some(word) => Err(format!("unexpected `{word}`; allowed: {}", allowed.join(", ")).into()),
        None => Ok(()),
    }
}
