//! The graph as data: items, what each needs, and what is derived from what.

use std::collections::BTreeMap;

use kilter_api::v1::{self, EdgeType, Problem};
use kilter_cli::wire;
use kilter_scheduler::{Item, Key, Past};

use super::Northbound;
use super::change::ended;
use crate::desk::View;

impl Northbound {
    /// The graph as it is, or as it was after a transaction.
    pub(super) async fn graph(&self, request: v1::GetGraphRequest) -> Result<v1::Graph, Problem> {
        let mut graph = match request.at {
            Some(at) => {
                let items = self.items_at(at).await?;
                self.desk.inquire(move |view| then(view, at, &items)).await
            }
            None => self.desk.inquire(now).await,
        }
        .map_err(|gone| ended(&gone))?;
        if !request.prefix.is_empty() {
            graph.vertices.retain(|vertex| vertex.key.starts_with(&request.prefix));
            graph.edges.retain(|edge| edge.from.starts_with(&request.prefix));
        }
        Ok(graph)
    }
}

fn now(view: &View<'_>) -> v1::Graph {
    let items = view.scheduler.items();
    let vertex = |item: &Item| v1::Vertex {
        key: item.key.to_string(),
        kind: item.kind.clone().unwrap_or_default(),
        state: wire::state(item.state).into(),
        base: item.base.as_ref().map(ToString::to_string).unwrap_or_default(),
        value: wire::value(item.actual.as_ref().or(item.declared.as_ref())),
    };
    let needs = |item: &Item| -> Vec<v1::Edge> {
        let needs = item.needs.iter().map(|need| v1::Edge {
            from: item.key.to_string(),
            to: need.to_string(),
            edge_type: EdgeType::Needs.into(),
            met: !item.unmet.contains(need),
        });
        needs.chain(derived(&item.key, item.base.as_ref())).collect()
    };
    v1::Graph {
        after_txn: view.scheduler.history().newest(),
        vertices: items.iter().map(vertex).collect(),
        edges: items.iter().flat_map(needs).collect(),
    }
}

fn then(view: &View<'_>, at: u64, items: &BTreeMap<Key, Past>) -> v1::Graph {
    let registry = view.scheduler.registry();
    let kind = |key: &Key| registry.owner(key.as_str()).map(|kind| registry.name(kind).to_owned());
    let vertex = |(key, past): (&Key, &Past)| v1::Vertex {
        key: key.to_string(),
        kind: kind(key).unwrap_or_default(),
        state: wire::state(past.state).into(),
        base: past.base.as_ref().map(ToString::to_string).unwrap_or_default(),
        value: wire::value(past.value.as_ref()),
    };
    let edges = items.iter().flat_map(|(key, past)| derived(key, past.base.as_ref()));
    v1::Graph { after_txn: at, vertices: items.iter().map(vertex).collect(), edges: edges.collect() }
}

fn derived(key: &Key, base: Option<&Key>) -> Option<v1::Edge> {
    let to = base?.to_string();
    Some(v1::Edge { from: key.to_string(), to, edge_type: EdgeType::Derived.into(), met: true })
}
