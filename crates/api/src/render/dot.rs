//! The graph in the DOT language, for whoever has a program that draws it: the same content as the picture.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ends::{End, ends};
use super::looks::{self, Drawing};
use super::one_line;
use crate::v1::{Edge, EdgeType, Graph, Vertex};

/// The graph in the DOT language.
pub fn dot(graph: &Graph, drawing: &Drawing) -> String {
    let mut text = String::from(
        "digraph kilter {\n  rankdir=RL;\n  node [shape=box, fontname=\"monospace\"];\n  edge [fontname=\"monospace\"];\n",
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
    let ends = ends(graph);
    let lines = || graph.edges.iter().zip(&ends);
    let is_other = |end: &End| matches!(end, End::Wanted { .. } | End::Elsewhere { .. });
    let wanted = lines().filter(|(_, end)| is_other(end));
    let wanted: BTreeSet<&str> = wanted.map(|(edge, _)| edge.to.as_str()).collect();
    for key in wanted {
        let _ = writeln!(text, "  {} [style=\"dashed,rounded\", color=gray];", quoted(key));
    }
    for (edge, end) in lines() {
        if is_other(end) {
            write_edge(&mut text, edge, &edge.to);
        }
        end.items().for_each(|(_, to)| write_edge(&mut text, edge, &graph.vertices[to].key));
    }
    text.push_str("}\n");
    text
}

fn write_edge(text: &mut String, edge: &Edge, to: &str) {
    let label = match edge.edge_type() {
        EdgeType::Derived => "derived from",
        EdgeType::Needs | EdgeType::Unspecified => "needs",
    };
    let _ = writeln!(
        text,
        "  {} -> {} [color={}, tooltip={}];",
        quoted(&edge.from),
        quoted(to),
        looks::of_edge(edge),
        quoted(label)
    );
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
