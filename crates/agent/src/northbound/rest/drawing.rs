//! The graph: as data, as a picture, and in the DOT language.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi::{Answer, Form};
use kilter_api::render::dot::dot;
use kilter_api::render::ends::{End, ends};
use kilter_api::render::looks::Drawing;
use kilter_api::render::svg::svg;
use kilter_api::v1;
use kilter_api::v1::agent_server::Agent as _;
use serde::Deserialize;

use super::Rest;
use super::asked::Asked;
use super::route::Route;
use super::trouble::Trouble;
use crate::northbound::door::Caller;

/// How far from the item in focus is shown unless it is said.
const DEPTH: usize = 2;

/// The page of an item, as `ui/src/format/route.ts` spells it.
const ITEM: &str = "/#/item/";

pub(super) fn routes() -> Vec<Route> {
    let graph =
        Route::get("/api/v1/graph", data).about("The graph: items and what each needs.").answers("Graph");
    let picture = Route::get("/api/v1/graph.svg", picture)
        .about("The graph as a picture.")
        .may("txn", Form::Number, TXN)
        .gives(Answer::Text("image/svg+xml"));
    let text = Route::get("/api/v1/graph.dot", text)
        .about("The graph in the DOT language.")
        .may("txn", Form::Number, TXN)
        .gives(Answer::Text("text/vnd.graphviz"));
    [graph, picture, text].map(selected).into()
}

const TXN: &str = "As it was after this transaction, with what it touched marked.";

fn selected(route: Route) -> Route {
    route
        .may("at", Form::Number, "As it was after this transaction; as it is if it is left out.")
        .may("prefix", Form::Text, "Only items whose keys start with this, and what they need.")
        .may("focus", Form::Text, "Only this item and what is connected with it.")
        .may("depth", Form::Number, "How far from the item in focus; 2 if it is left out.")
        .also(&[404])
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct GraphQuery {
    pub(super) at: Option<u64>,
    pub(super) txn: Option<u64>,
    pub(super) prefix: String,
    pub(super) focus: Option<String>,
    pub(super) depth: Option<usize>,
}

/// The graph that is asked for, and the keys of what the transaction touched.
pub(super) async fn select(
    rest: &Rest,
    caller: &Caller,
    query: GraphQuery,
) -> Result<(v1::Graph, BTreeSet<String>), Trouble> {
    let request = v1::GetGraphRequest { at: query.txn.or(query.at), prefix: query.prefix };
    let mut graph = rest.agent.get_graph(Rest::ask(caller, request)).await?.into_inner();
    let mut touched = BTreeSet::new();
    if let Some(seq) = query.txn {
        let request = Rest::ask(caller, v1::GetTransactionRequest { seq });
        let txn = rest.agent.get_transaction(request).await?.into_inner();
        let steps = if txn.as_planned { txn.planned } else { txn.executed };
        touched.extend(steps.into_iter().map(|step| step.key));
    }
    if let Some(focus) = &query.focus {
        if !graph.vertices.iter().any(|vertex| vertex.key == *focus) {
            return Err(Trouble::unknown(format!("there is no item `{focus}`")));
        }
        keep_near(&mut graph, focus, query.depth.unwrap_or(DEPTH));
    }
    Ok((graph, touched))
}

/// Keeps an item and what is connected with it, in whatever direction, up to a number of edges away: also over needs
/// that any of several items would meet.
fn keep_near(graph: &mut v1::Graph, focus: &str, depth: usize) {
    let ends = ends(graph);
    let mut beside: HashMap<usize, Vec<usize>> = HashMap::new();
    for (from, to) in ends.iter().flat_map(End::items) {
        beside.entry(from).or_default().push(to);
        beside.entry(to).or_default().push(from);
    }
    let start = graph.vertices.iter().position(|vertex| vertex.key == focus);
    let mut near: HashSet<usize> = start.into_iter().collect();
    let mut next: VecDeque<(usize, usize)> = start.into_iter().map(|start| (start, 0)).collect();
    while let Some((at, far)) = next.pop_front() {
        for other in beside.get(&at).into_iter().flatten().filter(|_| far < depth) {
            if near.insert(*other) {
                next.push_back((*other, far + 1));
            }
        }
    }
    // What an item needs is kept unless all that would meet it is left out.
    let is_kept = |end: &End| match end {
        End::Nowhere => false,
        End::Wanted { from } | End::Elsewhere { from } | End::Met { from } => near.contains(from),
        End::Items { from, to } => near.contains(from) && to.iter().any(|to| near.contains(to)),
    };
    let mut kept = ends.iter().map(is_kept).collect::<Vec<_>>().into_iter();
    graph.edges.retain(|_| kept.next().unwrap_or_default());
    let mut at = 0..;
    graph.vertices.retain(|_| at.next().is_some_and(|at| near.contains(&at)));
}

async fn data(
    State(rest): State<Rest>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<GraphQuery>,
) -> Result<Json<v1::Graph>, Trouble> {
    if query.txn.is_some() {
        return Err(Trouble::invalid("`txn` marks what is drawn, hint: say `at`"));
    }
    Ok(Json(select(&rest, &caller, query).await?.0))
}

async fn picture(
    State(rest): State<Rest>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<GraphQuery>,
) -> Result<Response, Trouble> {
    let (graph, touched) = select(&rest, &caller, query).await?;
    drawn(graph, Drawing { touched, link: ITEM.to_owned() }, Medium::Svg).await
}

async fn text(
    State(rest): State<Rest>,
    Extension(caller): Extension<Caller>,
    Asked(query): Asked<GraphQuery>,
) -> Result<Response, Trouble> {
    let (graph, touched) = select(&rest, &caller, query).await?;
    drawn(graph, Drawing { touched, link: ITEM.to_owned() }, Medium::Dot).await
}

/// How a graph is drawn.
pub(super) enum Medium {
    Svg,
    Dot,
}

/// Draws on a thread of its own: a large graph takes a while, and others are served meanwhile.
pub(super) async fn drawn(graph: v1::Graph, drawing: Drawing, medium: Medium) -> Result<Response, Trouble> {
    let (media, draw): (_, fn(&v1::Graph, &Drawing) -> String) = match medium {
        Medium::Svg => ("image/svg+xml", svg),
        Medium::Dot => ("text/vnd.graphviz", dot),
    };
    let drawn = tokio::task::spawn_blocking(move || draw(&graph, &drawing)).await;
    let text = drawn.map_err(|_| v1::Problem::new(v1::Reason::Broken, "failed to draw the graph"))?;
    Ok(([(header::CONTENT_TYPE, media)], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neighbourhood_of_an_item_goes_in_both_directions() {
        let vertices =
            ["a", "b", "c", "d", "e"].map(|key| v1::Vertex { key: key.to_owned(), ..Default::default() });
        let edge = |from: &str, to: &str| v1::Edge { from: from.into(), to: to.into(), ..Default::default() };
        let edges = vec![edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("d", "e")];
        let mut graph = v1::Graph { vertices: vertices.into(), edges, ..Default::default() };
        keep_near(&mut graph, "c", 1);
        let keys: Vec<&str> = graph.vertices.iter().map(|vertex| vertex.key.as_str()).collect();
        assert_eq!((keys, graph.edges.len()), (vec!["b", "c", "d"], 2));
    }

    #[test]
    fn the_neighbourhood_reaches_over_needs_that_any_of_several_items_meet() {
        let vertices =
            ["a", "b/1", "b/2", "c"].map(|key| v1::Vertex { key: key.to_owned(), ..Default::default() });
        let edge = |from: &str, to: &str, met| v1::Edge {
            from: from.into(),
            to: to.into(),
            met,
            ..Default::default()
        };
        let edges = vec![edge("a", "any b/*", true), edge("a", "no d", true), edge("a", "e", false)];
        let graph = v1::Graph { vertices: vertices.into(), edges, ..Default::default() };
        let near = |focus: &str| {
            let mut graph = graph.clone();
            keep_near(&mut graph, focus, 1);
            let keys: Vec<String> = graph.vertices.into_iter().map(|vertex| vertex.key).collect();
            (keys.join(" "), graph.edges.len())
        };
        assert_eq!(near("a"), ("a b/1 b/2".to_owned(), 3));
        assert_eq!(near("b/1"), ("a b/1".to_owned(), 3));
        assert_eq!(near("c"), ("c".to_owned(), 0));
    }
}
