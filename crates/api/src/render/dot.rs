//! The graph in the DOT language, for whoever has a program that draws it: the same content as the picture.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use super::looks::{self, Drawing};
use super::one_line;
use crate::v1::{EdgeType, Graph, Vertex};

/// The graph in the DOT language.
pub fn dot(graph: &Graph, drawing: &Drawing) -> String {
    let mut text = String::from(
        "digraph kilter {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n  edge [fontname=\"monospace\"];\n",
    );
    let mut kinds: BTreeMap<&str, Vec<&Vertex>> = BTreeMap::new();
    for vertex in &graph.vertices {
        kinds.entry(&vertex.kind).or_default().push(vertex);
    }
    for (number, (kind, vertices)) in kinds.iter().enumerate() {
        let _ = write!(text, "  subgraph cluster_{number} {{\n    label={};\n", quoted(looks::cluster(kind)));
        vertices.iter().for_each(|vertex| write_item(&mut text, vertex, drawing));
        text.push_str("  }\n");
    }
    let known: HashSet<&str> = graph.vertices.iter().map(|vertex| vertex.key.as_str()).collect();
    let wanted: BTreeSet<&str> = graph.edges.iter().map(|edge| edge.to.as_str()).collect();
    for key in wanted.into_iter().filter(|key| !known.contains(key)) {
        let _ = writeln!(text, "  {} [style=\"dashed,rounded\", color=gray];", quoted(key));
    }
    for edge in &graph.edges {
        let label = match edge.edge_type() {
            EdgeType::Derived => "derived from",
            EdgeType::Needs | EdgeType::Unspecified => "needs",
        };
        let _ = writeln!(
            text,
            "  {} -> {} [color={}, tooltip={}];",
            quoted(&edge.from),
            quoted(&edge.to),
            looks::of_edge(edge),
            quoted(label)
        );
    }
    text.push_str("}\n");
    text
}

fn write_item(text: &mut String, vertex: &Vertex, drawing: &Drawing) {
    let looks = looks::of(vertex);
    let mut style = "filled".to_owned();
    style.push_str(if looks.is_dashed { ",dashed" } else { "" });
    style.push_str(if looks.is_round { ",rounded" } else { "" });
    let border = if drawing.touched.contains(&vertex.key) { ", color=gold, penwidth=4" } else { "" };
    let address = drawing.address(&vertex.key);
    let link = address.map(|address| format!(", URL={}", quoted(&address))).unwrap_or_default();
    let _ = writeln!(
        text,
        "    {} [style=\"{style}\", fillcolor={}, fontcolor={}{border}, tooltip={}{link}];",
        quoted(&vertex.key),
        looks.fill,
        looks.ink,
        quoted(&looks::tooltip(vertex).replace('\n', " ")),
    );
}

/// A text in quotes, on one line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}
