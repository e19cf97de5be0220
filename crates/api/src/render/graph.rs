//! The graph as text.

use std::collections::BTreeMap;

use super::{count, one_line, paint, style_of};
use crate::v1::{Edge, EdgeType, Graph};

/// The graph for people: each item, below it what it needs.
pub fn text(graph: &Graph) -> String {
    let mut needs: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    for edge in &graph.edges {
        needs.entry(&edge.from).or_default().push(edge);
    }
    let mut text = format!(
        "after txn #{}: {}, {}\n",
        graph.after_txn,
        count(graph.vertices.len(), "item"),
        count(graph.edges.len(), "edge")
    );
    for vertex in &graph.vertices {
        let state = paint(style_of(vertex.state()), vertex.state());
        text.push_str(&format!("{} {state}\n", one_line(&vertex.key)));
        for edge in needs.get(vertex.key.as_str()).into_iter().flatten() {
            let (word, met) = match (edge.edge_type(), edge.met) {
                (EdgeType::Derived, _) => ("derived from", ""),
                (_, true) => ("needs", ""),
                (_, false) => ("needs", " (unmet)"),
            };
            text.push_str(&format!("  {word} {}{met}\n", one_line(&edge.to)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{State, Vertex};

    #[test]
    fn an_unmet_need_is_told() {
        let vertex =
            Vertex { key: "route/\"a\"".to_owned(), state: State::Pending.into(), ..Vertex::default() };
        let edge = Edge {
            from: vertex.key.clone(),
            to: "link/b".to_owned(),
            edge_type: EdgeType::Needs.into(),
            met: false,
        };
        let graph = Graph { after_txn: 3, vertices: vec![vertex], edges: vec![edge] };
        let shown = anstream::adapter::strip_str(&text(&graph)).to_string();
        let expected = "after txn #3: 1 item, 1 edge\nroute/\"a\" PENDING\n  needs link/b (unmet)\n";
        assert_eq!(shown, expected);
    }
}
