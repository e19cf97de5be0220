//! The graph as text and as DOT.

use std::collections::BTreeMap;

use super::{count, one_line, paint, style_of};
use crate::v1::{Edge, EdgeType, Graph, State};

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

/// The graph in the DOT language: one cluster for each kind, dashes for what does not exist, red for what is unmet.
pub fn dot(graph: &Graph) -> String {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for vertex in &graph.vertices {
        let (fill, line) = looks(vertex.state());
        let node = format!(
            "    {} [style=\"filled,{line}\", fillcolor={fill}, tooltip={}];\n",
            quoted(&vertex.key),
            quoted(vertex.state().name())
        );
        kinds.entry(&vertex.kind).or_default().push(node);
    }
    let mut text =
        "digraph kilter {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n".to_owned();
    for (number, (kind, nodes)) in kinds.iter().enumerate() {
        let label = if kind.is_empty() { "no kind" } else { kind };
        text.push_str(&format!("  subgraph cluster_{number} {{\n    label={};\n", quoted(label)));
        text.extend(nodes.iter().map(String::as_str));
        text.push_str("  }\n");
    }
    for edge in &graph.edges {
        let looks = match (edge.edge_type(), edge.met) {
            (EdgeType::Derived, _) => "style=dotted, arrowhead=none",
            (_, true) => "color=black",
            (_, false) => "color=red",
        };
        text.push_str(&format!("  {} -> {} [{looks}];\n", quoted(&edge.from), quoted(&edge.to)));
    }
    text.push_str("}\n");
    text
}

/// The colour inside, and whether the line around is broken.
fn looks(state: State) -> (&'static str, &'static str) {
    match state {
        State::Configured => ("palegreen", "solid"),
        State::Obtained | State::Discovered => ("lightcyan", "solid"),
        State::Pending | State::Applying | State::Removing => ("khaki", "dashed"),
        State::Retrying => ("orange", "dashed"),
        State::Invalid | State::Failed | State::Missing | State::Unimplemented => ("lightpink", "dashed"),
        State::Removed | State::Nonexistent | State::Unspecified => ("white", "dashed"),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Vertex;

    #[test]
    fn an_unmet_need_is_told_and_drawn_in_red() {
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
        let drawn = dot(&graph);
        assert!(drawn.contains("\"route/\\\"a\\\"\" -> \"link/b\" [color=red];"), "{drawn}");
        assert!(drawn.starts_with("digraph kilter {") && drawn.ends_with("}\n"));
    }
}
