//! The graph as data: items, what each needs, and what is derived from what.

use std::collections::BTreeMap;
use std::sync::Arc;

use kilter_api::v1::{self, EdgeType, Problem};
use kilter_cli::wire;
use kilter_scheduler::{Item, Key, Past, PastNeed};

use super::Northbound;
use super::change::ended;
use super::look::FEW;
use crate::desk::{Gone, Swept, View};

impl Northbound {
    async fn graph_now(&self) -> Result<v1::Graph, Gone> {
        let swept = self.desk.sweep(|view, key| view.scheduler.item(key.as_str()));
        let Swept { found, after } = swept.await?;
        let (vertices, edges) = (found.values().map(vertex), found.values().flat_map(needs));
        Ok(v1::Graph { after_txn: after, vertices: vertices.collect(), edges: edges.collect() })
    }

    /// The graph out of these items of the past: what each needed is what its kind says of the value it had.
    async fn graph_then(&self, at: u64, items: BTreeMap<Key, Past>) -> Result<v1::Graph, Gone> {
        let items = Arc::new(items);
        let keys: Vec<Key> = items.keys().cloned().collect();
        let mut graph = v1::Graph { after_txn: at, ..v1::Graph::default() };
        for some in keys.chunks(FEW) {
            let (some, among) = (some.to_vec(), Arc::clone(&items));
            let found = self.desk.inquire(move |view| {
                let each = some.into_iter().filter_map(|key| {
                    let past = among.get(&key)?;
                    Some((past_vertex(view, &key, past), view.scheduler.needs_then(&key, past), key))
                });
                each.collect::<Vec<_>>()
            });
            for (vertex, needs, key) in found.await? {
                let edge = |need: &PastNeed| v1::Edge {
                    from: key.to_string(),
                    to: need.what.to_string(),
                    edge_type: EdgeType::Needs.into(),
                    met: need.is_met(&items),
                };
                graph.edges.extend(needs.iter().map(edge));
                graph.edges.extend(items.get(&key).and_then(|past| derived(&key, past.base.as_ref())));
                graph.vertices.push(vertex);
            }
        }
        Ok(graph)
    }

    /// The graph as it is, or as it was after a transaction.
    pub(super) async fn graph(&self, request: v1::GetGraphRequest) -> Result<v1::Graph, Problem> {
        let mut graph = match request.at {
            Some(at) => {
                let items = self.items_at(at).await?;
                self.graph_then(at, items).await
            }
            None => self.graph_now().await,
        }
        .map_err(|gone| ended(&gone))?;
        if !request.prefix.is_empty() {
            graph.vertices.retain(|vertex| vertex.key.starts_with(&request.prefix));
            graph.edges.retain(|edge| edge.from.starts_with(&request.prefix));
        }
        Ok(graph)
    }
}

fn vertex(item: &Item) -> v1::Vertex {
    v1::Vertex {
        key: item.key.to_string(),
        kind: item.kind.clone().unwrap_or_default(),
        state: wire::state(item.state).into(),
        base: item.base.as_ref().map(ToString::to_string).unwrap_or_default(),
        value: wire::value(item.actual.as_ref().or(item.declared.as_ref())),
    }
}

fn past_vertex(view: &View<'_>, key: &Key, past: &Past) -> v1::Vertex {
    let registry = view.scheduler.registry();
    let kind = registry.owner(key.as_str()).map(|kind| registry.name(kind).to_owned());
    v1::Vertex {
        key: key.to_string(),
        kind: kind.unwrap_or_default(),
        state: wire::state(past.state).into(),
        base: past.base.as_ref().map(ToString::to_string).unwrap_or_default(),
        value: wire::value(past.value.as_ref()),
    }
}

fn needs(item: &Item) -> Vec<v1::Edge> {
    let needs = item.needs.iter().map(|need| v1::Edge {
        from: item.key.to_string(),
        to: need.to_string(),
        edge_type: EdgeType::Needs.into(),
        met: !item.unmet.contains(need),
    });
    needs.chain(derived(&item.key, item.base.as_ref())).collect()
}

fn derived(key: &Key, base: Option<&Key>) -> Option<v1::Edge> {
    let to = base?.to_string();
    Some(v1::Edge { from: key.to_string(), to, edge_type: EdgeType::Derived.into(), met: true })
}
