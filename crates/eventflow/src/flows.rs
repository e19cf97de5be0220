//! The handler: what the flows of a namespace declare together.
//!
//! Decided here: which items there are for a set of flows. Not decided here: in which order they are made and removed,
//! and what they wait for; that follows from what they need ([`crate::kinds`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kilter_events::builtin::DatabaseResync;
use kilter_events::{
    Draft, Event, EventKind, Handler, HandlerError, Inputs, Method, ReadValue, Scope, UpdateMode, from_json,
    to_json,
};
use kilter_scheduler::{Key, Value, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::key;
use crate::kinds::declared::{Claim, Finalizer, Policy, Slot, Subscription};
use crate::settings::Settings;

/// What the handler has to know about one EventFlow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowInput {
    /// Its identity.
    pub uid: String,
    /// The application whose events it wants.
    pub source: String,
    /// Whether it is on its way out.
    pub deleting: bool,
}

/// One thing that changed in the cluster and changes what is declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Changed {
    /// An EventFlow; `None` if it is gone.
    Flow(String, String, Option<FlowInput>),
    /// The address of the sink of a namespace; `None` if it has none. The last one is kept for what exists.
    Address(String, Option<String>),
    /// The Channel of a source. The last one is kept for what exists.
    Channel(String, String),
}

impl Changed {
    /// Whether it takes something away.
    pub fn is_departure(&self) -> bool {
        match self {
            Self::Flow(_, _, flow) => flow.as_ref().is_none_or(|flow| flow.deleting),
            Self::Address(_, address) => address.is_none(),
            Self::Channel(..) => false,
        }
    }
}

/// What changed in the cluster since it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterChange(pub Vec<Changed>);

impl EventKind for ClusterChange {
    const KIND: &'static str = "cluster-change";

    fn name(&self) -> String {
        "Cluster Change".to_owned()
    }

    fn details(&self) -> Vec<String> {
        let line = |changed: &Changed| match changed {
            Changed::Flow(namespace, name, Some(flow)) if flow.deleting => {
                format!("* flow {namespace}/{name} is on its way out")
            }
            Changed::Flow(namespace, name, Some(flow)) => {
                format!("* flow {namespace}/{name} from {}", flow.source)
            }
            Changed::Flow(namespace, name, None) => format!("* flow {namespace}/{name} is gone"),
            Changed::Address(namespace, Some(url)) => format!("* sink of {namespace} at {url}"),
            Changed::Address(namespace, None) => format!("* sink of {namespace} has no address"),
            Changed::Channel(source, name) => format!("* channel {name} of {source}"),
        };
        self.0.iter().map(line).collect()
    }

    fn method(&self) -> Method {
        // What fails is tried again by the scheduler, item by item; to recompute everything would change nothing.
        Method::update(UpdateMode::BestEffortIgnoringErrors)
    }

    fn encode(&self) -> Json {
        to_json(self)
    }

    fn decode(body: Json, _values: &dyn ReadValue) -> Result<Self, String> {
        from_json(body)
    }
}

/// The resources under which [`Inputs`] carry what the handler computes from.
pub mod inputs {
    /// EventFlow objects, named `namespace/name`.
    pub const FLOW: &str = "flow";
    /// Addresses of sinks, named by namespace.
    pub const ADDRESS: &str = "address";
    /// Channels, named by source.
    pub const CHANNEL: &str = "channel";
}

type Declared = BTreeMap<Key, ValueRef>;

/// Declares what flows need.
#[derive(Debug)]
pub struct Flows {
    settings: Arc<Settings>,
    flows: BTreeMap<String, BTreeMap<String, FlowInput>>,
    addresses: BTreeMap<String, String>,
    channels: BTreeMap<String, String>,
    /// What is declared, by namespace.
    declared: BTreeMap<String, Declared>,
}

impl Flows {
    /// No flow is known yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            flows: BTreeMap::new(),
            addresses: BTreeMap::new(),
            channels: BTreeMap::new(),
            declared: BTreeMap::new(),
        }
    }

    /// Takes note of a change; adds the namespaces that it concerns.
    fn note(&mut self, changed: &Changed, concerned: &mut BTreeSet<String>) {
        match changed {
            Changed::Flow(namespace, name, flow) => {
                let flows = self.flows.entry(namespace.clone()).or_default();
                match flow {
                    Some(flow) => flows.insert(name.clone(), flow.clone()),
                    None => flows.remove(name),
                };
                concerned.insert(namespace.clone());
            }
            Changed::Address(namespace, Some(url)) => {
                self.addresses.insert(namespace.clone(), url.clone());
                concerned.insert(namespace.clone());
            }
            Changed::Channel(source, name) => {
                self.channels.insert(source.clone(), name.clone());
                let wants =
                    |flows: &BTreeMap<String, FlowInput>| flows.values().any(|flow| flow.source == *source);
                let namespaces = self.flows.iter().filter(|(_, flows)| wants(flows));
                concerned.extend(namespaces.map(|(namespace, _)| namespace.clone()));
            }
            // What was made with the last one stays as it is.
            Changed::Address(_, None) => {}
        }
    }

    /// Everything that the flows of a namespace declare together.
    fn declare(&self, namespace: &str) -> Declared {
        let mut declared = Declared::new();
        let mut put = |key: Key, value: ValueRef| declared.insert(key, value);
        let flows = self.flows.get(namespace).into_iter().flatten().filter(|(_, flow)| !flow.deleting);
        let mut any = false;
        for (name, flow) in flows {
            any = true;
            put(key::finalizer(namespace, name), shared(Finalizer { uid: flow.uid.clone(), held: true }));
            put(key::sink_claim(namespace, name), shared(Claim { held: true }));
            put(key::subscription_claim(namespace, &flow.source, name), shared(Claim { held: true }));
            let subscription = Subscription {
                namespace: self.settings.integration.clone(),
                channel: self.channels.get(&flow.source).cloned(),
                subscriber: self.addresses.get(namespace).cloned(),
                kept: true,
            };
            put(key::subscription(namespace, &flow.source), shared(subscription));
        }
        if any {
            put(key::slot(namespace), shared(Slot {}));
            put(key::sink(namespace), shared(self.settings.sink));
            if let Some(form) = self.settings.policy {
                put(key::policy(namespace), shared(Policy::permissive(form)));
            }
        }
        declared
    }

    /// Drafts what changes in a namespace; how many items that are.
    fn redraft(&mut self, namespace: &str, draft: &mut Draft<'_>) -> usize {
        let new = self.declare(namespace);
        let old = self.declared.remove(namespace).unwrap_or_default();
        let mut changes = 0;
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            draft.remove(key.clone());
            changes += 1;
        }
        for (key, value) in new.iter().filter(|(key, value)| old.get(*key) != Some(*value)) {
            draft.put_ref(key.clone(), value.clone());
            changes += 1;
        }
        if !new.is_empty() {
            self.declared.insert(namespace.to_owned(), new);
        }
        if self.flows.get(namespace).is_some_and(BTreeMap::is_empty) {
            self.flows.remove(namespace);
        }
        changes
    }

    fn read(&mut self, inputs: &Inputs) -> Result<(), HandlerError> {
        let text = |input: &Json| input.as_str().unwrap_or_default().to_owned();
        self.flows.clear();
        for (name, input) in inputs.of(inputs::FLOW) {
            let flow = FlowInput::deserialize(input).map_err(HandlerError::plain)?;
            if let Some((namespace, name)) = name.split_once('/') {
                self.flows.entry(namespace.to_owned()).or_default().insert(name.to_owned(), flow);
            }
        }
        let pairs = |resource| inputs.of(resource).map(|(name, input)| (name.to_owned(), text(input)));
        self.addresses = pairs(inputs::ADDRESS).collect();
        self.channels = pairs(inputs::CHANNEL).collect();
        Ok(())
    }
}

fn shared(value: impl Value) -> ValueRef {
    ValueRef::new(value)
}

impl Handler for Flows {
    fn name(&self) -> &str {
        "flows"
    }

    fn handles(&self, event: &Event) -> bool {
        let is_resync = matches!(event.method(), Method::Resync(Scope::Full | Scope::Upstream));
        is_resync || event.is::<ClusterChange>()
    }

    fn resync(
        &mut self,
        event: &Event,
        inputs: &Inputs,
        _count: u64,
        draft: &mut Draft<'_>,
    ) -> Result<(), HandlerError> {
        // The loop's inputs are those of the start; what changed since is in our own state.
        if event.is::<DatabaseResync>() {
            self.read(inputs)?;
        }
        self.declared.clear();
        let namespaces: Vec<String> = self.flows.keys().cloned().collect();
        for namespace in namespaces {
            self.redraft(&namespace, draft);
        }
        Ok(())
    }

    fn update(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<String, HandlerError> {
        let Some(ClusterChange(changes)) = event.body() else { return Ok(String::new()) };
        let mut concerned = BTreeSet::new();
        changes.iter().for_each(|changed| self.note(changed, &mut concerned));
        let count: usize = concerned.iter().map(|namespace| self.redraft(namespace, draft)).sum();
        Ok(if count == 0 {
            String::new()
        } else {
            format!("{count} items in {} namespaces", concerned.len())
        })
    }

    fn revert(&mut self, _event: &Event) -> Result<(), HandlerError> {
        // No event of ours reverts, and a healing resync recomputes what an aborted one left.
        Ok(())
    }
}
