//! The graph as an SVG picture, without any program but this one.
//!
//! Decided here: what is written. Not decided here: where things stand (`layout`) and how they look (`looks`).
//!
//! **Guarantees** well-formed XML whatever keys and values hold, and every item drawn exactly once.

use std::fmt::Write as _;

use super::layout::{HEIGHT, Layout, Spot, What, layout};
use super::looks::{self, Drawing};
use super::one_line;
use crate::v1::{Edge, Graph};

const HEAD: &str = r#"<style>text{font:12px ui-monospace,monospace;dominant-baseline:central}.kind{font:bold 13px system-ui,sans-serif}path{fill:none;stroke-width:1.2}a:focus rect,a:hover rect{stroke-width:3}</style>
<defs>
<marker id="needs" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" style="fill:context-stroke"/></marker>
</defs>
"#;

/// The graph as a picture.
pub fn svg(graph: &Graph, drawing: &Drawing) -> String {
    let layout = layout(graph);
    let mut text = String::with_capacity(1024 + 400 * layout.spots.len() + 200 * layout.lines.len());
    let (width, height) = (layout.width.ceil(), layout.height.ceil());
    let _ = writeln!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="graph after txn #{}">"#,
        graph.after_txn
    );
    text.push_str(HEAD);
    let _ = writeln!(text, r#"<rect width="{width}" height="{height}" fill="white"/>"#);
    write_clusters(&mut text, &layout);
    for line in &layout.lines {
        write_edge(&mut text, &graph.edges[line.edge], &layout.spots[line.from], &layout.spots[line.to]);
    }
    for spot in &layout.spots {
        match spot.what {
            What::Item(at) => write_item(&mut text, graph, drawing, at, spot),
            What::Wanted => write_wanted(&mut text, spot),
        }
    }
    text.push_str("</svg>\n");
    text
}

fn write_clusters(text: &mut String, layout: &Layout) {
    for cluster in &layout.clusters {
        let label = cluster.kind.as_deref().map_or("waited for", looks::cluster);
        let (x, y) = (cluster.x, cluster.y);
        let _ = writeln!(
            text,
            r#"<g class="cluster"><rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" rx="6" fill="whitesmoke" stroke="silver"/><text class="kind" x="{:.1}" y="{:.1}">{}</text></g>"#,
            cluster.width,
            cluster.height,
            x + 10.0,
            y + 14.0,
            escaped(&one_line(label)),
        );
    }
}

fn write_edge(text: &mut String, edge: &Edge, from: &Spot, to: &Spot) {
    // Backwards it leaves and arrives at the same sides, in a bow around the boxes.
    let (x1, y1) = (from.x, from.y + HEIGHT / 2.0);
    let (x2, y2) = (to.x + to.width, to.y + HEIGHT / 2.0);
    let bow = ((x2 - x1).abs() / 2.0).clamp(24.0, 160.0);
    let word = if edge.edge_type() == crate::v1::EdgeType::Derived { "derived from" } else { "needs" };
    let unmet = if edge.met || word == "derived from" { "" } else { " (unmet)" };
    let _ = writeln!(
        text,
        r#"<path class="edge" d="M{x1:.1} {y1:.1}C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}" stroke="{}" marker-end="url(#needs)"><title>{}</title></path>"#,
        x1 - bow,
        x2 + bow,
        looks::of_edge(edge),
        escaped(&format!("{} {word} {}{unmet}", one_line(&edge.from), one_line(&edge.to))),
    );
}

fn write_item(text: &mut String, graph: &Graph, drawing: &Drawing, at: usize, spot: &Spot) {
    let vertex = &graph.vertices[at];
    let looks = looks::of(vertex);
    let (line, thickness) = if drawing.touched.contains(&vertex.key) { ("gold", 4) } else { ("dimgray", 1) };
    let dashes = if looks.is_dashed { r#" stroke-dasharray="4 3""# } else { "" };
    let round = if looks.is_round { 12 } else { 3 };
    let address = drawing.address(&vertex.key);
    if let Some(address) = &address {
        let _ = write!(text, r#"<a href="{}">"#, escaped(address));
    }
    let _ = write!(
        text,
        r#"<g class="item" data-state="{}"><title>{}</title><rect x="{:.1}" y="{:.1}" width="{:.1}" height="{HEIGHT}" rx="{round}" fill="{}" stroke="{line}" stroke-width="{thickness}"{dashes}/><text x="{:.1}" y="{:.1}" fill="{}">{}</text></g>"#,
        vertex.state(),
        escaped(&looks::tooltip(vertex)),
        spot.x,
        spot.y,
        spot.width,
        looks.fill,
        spot.x + 10.0,
        spot.y + HEIGHT / 2.0,
        looks.ink,
        escaped(&spot.name),
    );
    text.push_str(if address.is_some() { "</a>\n" } else { "\n" });
}

fn write_wanted(text: &mut String, spot: &Spot) {
    let _ = writeln!(
        text,
        r#"<g class="wanted"><rect x="{:.1}" y="{:.1}" width="{:.1}" height="{HEIGHT}" rx="12" fill="none" stroke="gray" stroke-dasharray="2 3"/><text x="{:.1}" y="{:.1}" fill="black">{}</text></g>"#,
        spot.x,
        spot.y,
        spot.width,
        spot.x + 10.0,
        spot.y + HEIGHT / 2.0,
        escaped(&spot.name),
    );
}

/// A text inside XML, also inside an attribute; letters that XML does not know are replaced.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}
