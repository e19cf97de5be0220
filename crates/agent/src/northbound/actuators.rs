//! Processes that make kinds real, over one stream each.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kilter_api::v1::actuator_asked::What as Asked;
use kilter_api::v1::actuator_says::What as Says;
use kilter_api::v1::actuators_server::Actuators;
use kilter_api::v1::need_rule::What as Need;
use kilter_api::v1::operation_answer::How;
use kilter_api::v1::remote_operation::What as Wanted;
use kilter_api::v1::{self, Problem, Reason};
use kilter_model::remote::RemoteItem;
use kilter_scheduler::{Act, Facts, Failure, FieldError, ValueRef};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::Northbound;
use super::access::{self, Purpose};
use super::change::span;
use crate::remote::errands::Errands;
use crate::remote::kind::Description;
use crate::remote::line::{Ask, FoundItem, Line, Numbered, Said};
use crate::remote::rules::{DerivedRule, NeedRule, Needed, RuleError};

/// How long a process may take to say what it makes real.
const FIRST: Duration = Duration::from_secs(10);

/// How long an operation may take if the process does not say.
const WITHIN: Duration = Duration::from_secs(10);

/// The longest that a process may ask for.
const LONGEST: Duration = Duration::from_secs(30);

/// How often a process is asked whether it is alive.
const BEAT: Duration = Duration::from_secs(2);

/// How long it may be silent.
const PATIENCE: Duration = Duration::from_secs(7);

type Sender = mpsc::UnboundedSender<Result<v1::ActuatorAsked, Status>>;

#[tonic::async_trait]
impl Actuators for Northbound {
    type AttachStream = UnboundedReceiverStream<Result<v1::ActuatorAsked, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::ActuatorSays>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let caller = access::check(&request, Purpose::Attach).map_err(|status| *status)?;
        let mut says = request.into_inner();
        let wrong = |message: String| Problem::new(Reason::Invalid, message).into_status();
        let first = timeout(FIRST, says.message()).await;
        let first =
            first.map_err(|_| wrong("the process does not say which kinds it makes real".to_owned()))??;
        let Some(Says::Register(register)) = first.and_then(|first| first.what) else {
            return Err(wrong("a process says first which kinds it makes real".to_owned()));
        };
        let mut witness = self.witness(&caller, "Attach").await?;
        let names: Vec<&str> = register.kinds.iter().map(|kind| kind.kind.as_str()).collect();
        witness.describe(&format!("{}: {}", register.name, names.join(", ")), "");
        let attached = witness.seen(self.take_on(&register).await).await;
        let Attached { line, asks, readable } = attached.map_err(Problem::into_status)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let registered = v1::KindsRegistered { instance: self.instance.to_string() };
        let _ = sender.send(Ok(asked(Asked::Registered(registered))));
        let recovered = Arc::clone(&line);
        tokio::spawn(async move { recovered.recover(readable).await });
        tokio::spawn(self.clone().talk(line, says, asks, sender));
        Ok(Response::new(UnboundedReceiverStream::new(receiver)))
    }
}

/// A process that makes kinds real from now on.
struct Attached {
    line: Arc<Line>,
    asks: mpsc::UnboundedReceiver<Ask>,
    /// One of its kinds that can be read, if there is any.
    readable: Option<Arc<str>>,
}

impl Northbound {
    /// Lets a process make the kinds real that it names.
    async fn take_on(&self, register: &v1::RegisterKinds) -> Result<Attached, Problem> {
        let kinds = register.kinds.iter().map(description).collect::<Result<Vec<_>, _>>();
        let kinds = kinds.map_err(|error| Problem::new(Reason::Invalid, error.to_string()))?;
        let readable = kinds.iter().find(|kind| !kind.unreadable).map(|kind| Arc::clone(&kind.kind));
        let within = match &register.within {
            Some(_) => span(register.within.as_ref())?.min(LONGEST),
            None => WITHIN,
        };
        let (line, asks) = Line::open(&register.name, within);
        if let Err(error) = self.remotes.attach(&self.desk, &line, kinds).await {
            // Some of the kinds may have been taken up: whoever comes next may have them.
            line.close();
            return Err(Problem::of(Reason::Invalid, &error));
        }
        Ok(Attached { line, asks, readable })
    }

    /// Passes on what is asked and what is said, until one of them ends.
    ///
    /// **Guarantees** that what is said is taken in whatever the loop does: it may be waiting for exactly that.
    async fn talk(
        self,
        line: Arc<Line>,
        mut says: Streaming<v1::ActuatorSays>,
        mut asks: mpsc::UnboundedReceiver<Ask>,
        sender: Sender,
    ) {
        let errands = Arc::new(Errands::default());
        let (ran, northbound, of_line) = (Arc::clone(&errands), self.clone(), Arc::clone(&line));
        tokio::spawn(async move { ran.run(&northbound.remotes, &northbound.desk, &of_line).await });
        let mut beats = interval(BEAT);
        let mut hands_over = pin!(self.at_rest_before_closing());
        loop {
            tokio::select! {
                said = says.message() => {
                    let Ok(Some(v1::ActuatorSays { what: Some(said) })) = said else { break };
                    line.heard();
                    self.take_in(&line, &errands, said);
                }
                Some(ask) = asks.recv() => {
                    if sender.send(Ok(asked(on_the_wire(ask)))).is_err() {
                        break;
                    }
                }
                // Another agent takes over: the process attaches to it.
                () = &mut hands_over => break,
                _ = beats.tick() => line.beat(PATIENCE),
            }
        }
        line.close();
    }

    /// Ends when the agent hands over and nothing is under way any more, or not soon.
    async fn at_rest_before_closing(&self) {
        self.closing().await;
        // What does not come to an end is not waited for.
        let _ = timeout(LONGEST, self.desk.at_rest()).await;
    }

    fn take_in(&self, line: &Line, errands: &Errands, said: Says) {
        match said {
            Says::Answer(v1::OperationAnswer { id, how }) => {
                let said = match how {
                    Some(How::Done(done)) => Said::Done(filled(done.facts)),
                    Some(How::Found(found)) => read(found).map_or_else(Said::Failed, Said::Found),
                    Some(How::Failed(failed)) if failed.lasting => {
                        Said::Failed(Failure::lasting(failed.message))
                    }
                    Some(How::Failed(failed)) => Said::Failed(Failure::retriable(failed.message)),
                    None => Said::Failed(Failure::lasting("the process answered nothing")),
                };
                line.answered(id, said);
            }
            Says::Checked(v1::Checked { id, wrong }) => {
                let wrong = wrong.into_iter().map(|one| {
                    let at = usize::try_from(one.item).unwrap_or(usize::MAX);
                    (at, FieldError { path: one.field, message: one.message })
                });
                line.checked(id, wrong.collect());
            }
            Says::Noticed(v1::NoticedItems { kind, names }) if self.remotes.is_of(&kind, line) => {
                errands.notice(&kind, &names);
            }
            Says::Noticed(_) | Says::Register(_) | Says::Alive(_) => {}
        }
    }
}

fn asked(what: Asked) -> v1::ActuatorAsked {
    v1::ActuatorAsked { what: Some(what) }
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn description(wire: &v1::RemoteKind) -> Result<Description, RuleError> {
    let need = |rule: &v1::NeedRule| {
        let (needed, text) = match &rule.what {
            Some(Need::On(text)) => (Needed::On, text.as_str()),
            Some(Need::AnyOf(text)) => (Needed::AnyOf, text.as_str()),
            Some(Need::Absent(text)) => (Needed::Absent, text.as_str()),
            None => (Needed::On, ""),
        };
        NeedRule::new(needed, text, rule.to_create)
    };
    let schema = (!wire.schema.is_empty()).then(|| {
        let wrong = |_| RuleError { text: wire.schema.clone(), reason: "the schema is not JSON" };
        serde_json::from_str::<Value>(&wire.schema).map_err(wrong)
    });
    Ok(Description {
        kind: wire.kind.as_str().into(),
        about: wire.about.clone(),
        schema: schema.transpose()?,
        needs: wire.needs.iter().map(need).collect::<Result<_, _>>()?,
        derived: wire
            .derived
            .iter()
            .map(|rule| DerivedRule::new(&rule.each, &rule.item))
            .collect::<Result<_, _>>()?,
        recreate_on: wire.recreate_on.clone(),
        unreadable: wire.unreadable,
        checks: wire.checks,
    })
}

fn on_the_wire(ask: Ask) -> Asked {
    match ask {
        Ask::Alive => Asked::Alive(v1::Alive {}),
        Ask::Check(id, items) => {
            Asked::Check(v1::CheckItems { id, items: items.iter().map(Value::to_string).collect() })
        }
        Ask::Operations(operations) => {
            Asked::Batch(v1::OperationBatch { operations: operations.into_iter().map(operation).collect() })
        }
    }
}

fn operation(Numbered { id, kind, act }: Numbered) -> v1::RemoteOperation {
    // Whoever makes an item real has to know its secrets.
    let json = |value: &ValueRef| match RemoteItem::from_value(value) {
        Some(item) => Value::Object(item.told()).to_string(),
        None => value.to_json().to_string(),
    };
    let key = act.key().map(ToString::to_string).unwrap_or_default();
    let (wanted, facts) = match &act {
        Act::Create { value, .. } => (Wanted::Create(v1::CreateItem { value: json(value) }), None),
        Act::Update { old, new, facts, .. } => {
            (Wanted::Update(v1::UpdateItem { old: json(old), new: json(new) }), facts.as_ref())
        }
        Act::Delete { value, facts, .. } => {
            (Wanted::Delete(v1::DeleteItem { value: json(value) }), facts.as_ref())
        }
        Act::Retrieve { facts, .. } => (Wanted::Retrieve(v1::RetrieveItem {}), facts.as_ref()),
        Act::RetrieveAll { .. } => (Wanted::RetrieveAll(v1::RetrieveItems {}), None),
    };
    let facts = facts.and_then(Facts::downcast::<String>).cloned().unwrap_or_default();
    v1::RemoteOperation { id, kind: kind.to_string(), key, what: Some(wanted), facts }
}

fn read(found: v1::ItemsFound) -> Result<Vec<FoundItem>, Failure> {
    let items = found.items.into_iter().map(|item| {
        let value = serde_json::from_str(&item.value).map_err(|error| {
            Failure::lasting(format!("what was read of `{}` is no JSON: {error}", item.name))
        })?;
        Ok(FoundItem { name: item.name, value, facts: filled(item.facts), foreign: item.foreign })
    });
    items.collect()
}
