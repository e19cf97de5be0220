//! Where the parts of a drawn graph stand: from left to right, one box for each kind.
//!
//! Numbered steps: 1. vertices are put into clusters, what is waited for or elsewhere into one of its own; 2. within a cluster
//! they get columns, an item to the right of what it needs, as on the page; 3. clusters get columns in the same way; 4. a few sweeps put
//! each vertex near what it is connected with; 5. everything gets its place.
//!
//! Not decided here: which items an edge connects (`ends`), how anything looks (`looks`) or is written (`svg`).
//!
//! **Why** not one of the known layered layouts: with clusters they cost seconds at a thousand vertices. Here every
//! step is linear or sorts, so that five thousand vertices with fifteen thousand edges are drawn in under a second, and
//! boxes of kinds never overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ends::{End, ends};
use super::looks::shortened;
use super::one_line;
use crate::v1::Graph;

/// The longest name that is drawn whole.
const LONGEST_NAME: usize = 48;
/// How many vertices stand above each other before another column begins.
const TALLEST: usize = 40;
/// How often vertices move towards what they are connected with.
const SWEEPS: usize = 4;

/// The word over what meets a need and is left out of this part of the graph.
const ELSEWHERE: &str = "elsewhere";

const LETTER: f64 = 7.3;
const ROW: f64 = 34.0;
/// The height of a vertex.
pub(super) const HEIGHT: f64 = 24.0;
const BETWEEN_COLUMNS: f64 = 48.0;
const BETWEEN_CLUSTERS: f64 = 90.0;
const ABOVE_CLUSTER: f64 = 28.0;
const AROUND: f64 = 14.0;

/// What stands at a spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A vertex of the graph, by its position there.
    Item(usize),
    /// Something that is needed and is no vertex of this graph: what is waited for, or is elsewhere.
    Wanted,
}

/// A vertex at its place.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) what: What,
    /// What is written on it.
    pub(super) name: String,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    cluster: usize,
    column: usize,
}

/// The box of a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    /// The kind; `None` for what is only wanted.
    pub(super) kind: Option<String>,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    column: usize,
    /// Its vertices, column by column.
    columns: Vec<Vec<usize>>,
}

/// A connection of two spots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The position of its edge in the graph.
    pub(super) edge: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Everything at its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) spots: Vec<Spot>,
    pub(super) clusters: Vec<Cluster>,
    /// From which spot to which, and for which edge of the graph: one for each item that would meet a need.
    pub(super) lines: Vec<Line>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Lays a graph out.
pub(super) fn layout(graph: &Graph) -> Layout {
    let mut layout = gather(graph); // 1
    arrange_vertices(&mut layout); // 2
    arrange_clusters(&mut layout); // 3
    for _ in 0..SWEEPS {
        place(&mut layout);
        attract(&mut layout); // 4
    }
    place(&mut layout); // 5
    layout
}

/// The kind of a vertex; a property belongs to the kind of its base.
fn kind_of<'a>(graph: &'a Graph, known: &HashMap<&str, usize>, at: usize) -> &'a str {
    let mut vertex = &graph.vertices[at];
    // Whoever sends bases in a ring does not keep us here.
    for _ in 0..graph.vertices.len() {
        match known.get(vertex.base.as_str()) {
            Some(base) if vertex.kind.is_empty() => vertex = &graph.vertices[*base],
            _ => break,
        }
    }
    &vertex.kind
}

fn gather(graph: &Graph) -> Layout {
    let mut known: HashMap<&str, usize> = HashMap::with_capacity(graph.vertices.len());
    for (at, vertex) in graph.vertices.iter().enumerate() {
        known.entry(&vertex.key).or_insert(at);
    }
    let kinds: Vec<&str> = (0..graph.vertices.len()).map(|at| kind_of(graph, &known, at)).collect();
    let sorted: BTreeSet<&str> = kinds.iter().copied().collect();
    let numbers: BTreeMap<&str, usize> = sorted.iter().enumerate().map(|(at, kind)| (*kind, at)).collect();
    let mut clusters: Vec<Cluster> =
        sorted.iter().map(|kind| Cluster { kind: Some((*kind).to_owned()), ..Cluster::default() }).collect();
    let mut spots: Vec<Spot> = graph
        .vertices
        .iter()
        .enumerate()
        .map(|(at, vertex)| Spot::new(What::Item(at), &vertex.key, numbers[kinds[at]]))
        .collect();
    let ends = ends(graph);
    let wanted = clusters.len();
    if ends.iter().any(|end| matches!(end, End::Wanted { .. })) {
        clusters.push(Cluster::default());
    }
    let elsewhere = clusters.len();
    if ends.iter().any(|end| matches!(end, End::Elsewhere { .. })) {
        clusters.push(Cluster { kind: Some(ELSEWHERE.to_owned()), ..Cluster::default() });
    }
    let mut others: HashMap<(usize, &str), usize> = HashMap::new();
    let mut lines = Vec::with_capacity(graph.edges.len());
    for (edge, end) in ends.iter().enumerate() {
        lines.extend(end.items().map(|(from, to)| Line { edge, from, to }));
        let (from, cluster) = match end {
            End::Wanted { from } => (*from, wanted),
            End::Elsewhere { from } => (*from, elsewhere),
            End::Nowhere | End::Met { .. } | End::Items { .. } => continue,
        };
        let key = graph.edges[edge].to.as_str();
        let to = *others.entry((cluster, key)).or_insert_with(|| {
            spots.push(Spot::new(What::Wanted, key, cluster));
            spots.len() - 1
        });
        lines.push(Line { edge, from, to });
    }
    Layout { spots, clusters, lines, width: 0.0, height: 0.0 }
}

impl Spot {
    fn new(what: What, key: &str, cluster: usize) -> Self {
        let name = shortened(&one_line(key), LONGEST_NAME);
        let width = name.chars().count() as f64 * LETTER + 20.0;
        Self { what, name, x: 0.0, y: 0.0, width, cluster, column: 0 }
    }
}

fn arrange_vertices(layout: &mut Layout) {
    // What is needed comes first.
    let inner = layout.lines.iter().map(|line| (line.to, line.from));
    let inner = inner.filter(|(from, to)| layout.spots[*from].cluster == layout.spots[*to].cluster);
    let columns = columns(layout.spots.len(), inner);
    let mut members: Vec<BTreeMap<usize, Vec<usize>>> = vec![BTreeMap::new(); layout.clusters.len()];
    for (at, spot) in layout.spots.iter().enumerate() {
        members[spot.cluster].entry(columns[at]).or_default().push(at);
    }
    for (cluster, members) in layout.clusters.iter_mut().zip(members) {
        for column in members.into_values() {
            cluster.columns.extend(column.chunks(TALLEST).map(<[usize]>::to_vec));
        }
        for (number, column) in cluster.columns.iter().enumerate() {
            column.iter().for_each(|at| layout.spots[*at].column = number);
        }
    }
}

fn arrange_clusters(layout: &mut Layout) {
    let cluster = |at: usize| layout.spots[at].cluster;
    let between: BTreeSet<(usize, usize)> =
        layout.lines.iter().map(|line| (cluster(line.to), cluster(line.from))).collect();
    let columns = columns(layout.clusters.len(), between.into_iter().filter(|(from, to)| from != to));
    for (cluster, column) in layout.clusters.iter_mut().zip(columns) {
        cluster.column = column;
    }
}

/// The column of each of `count` things: to the left of everything it points at, except where that goes in circles.
fn columns(count: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    edges.for_each(|(from, to)| next[from].push(to));
    // A thing is ended when everything it points at is; what is met on the way down closes a circle.
    let mut ended: Vec<usize> = Vec::with_capacity(count);
    let mut met = vec![false; count];
    for first in 0..count {
        if met[first] {
            continue;
        }
        met[first] = true;
        let mut way = vec![(first, 0)];
        while let Some((at, branch)) = way.last_mut() {
            match next[*at].get(*branch) {
                Some(to) => {
                    *branch += 1;
                    if !met[*to] {
                        met[*to] = true;
                        way.push((*to, 0));
                    }
                }
                None => {
                    ended.push(*at);
                    way.pop();
                }
            }
        }
    }
    let mut order = vec![0; count];
    ended.iter().enumerate().for_each(|(number, at)| order[*at] = number);
    let mut columns = vec![0; count];
    for at in ended.iter().rev() {
        for to in &next[*at] {
            if order[*to] < order[*at] {
                columns[*to] = columns[*to].max(columns[*at] + 1);
            }
        }
    }
    columns
}

/// Gives everything its place, in the order that it has.
fn place(layout: &mut Layout) {
    let Layout { spots, clusters, .. } = layout;
    for cluster in clusters.iter_mut() {
        let mut x = AROUND;
        let mut rows = 0;
        for column in &cluster.columns {
            let widest = column.iter().map(|at| spots[*at].width).fold(0.0, f64::max);
            column.iter().for_each(|at| spots[*at].x = x);
            x += widest + BETWEEN_COLUMNS;
            rows = rows.max(column.len());
        }
        cluster.width = x - BETWEEN_COLUMNS + AROUND;
        cluster.height = ABOVE_CLUSTER + rows as f64 * ROW + AROUND - (ROW - HEIGHT);
    }
    let mut order: Vec<usize> = (0..clusters.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (&clusters[*one], &clusters[*other]);
        (one.column, one.y).partial_cmp(&(other.column, other.y)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let (mut left, mut width, mut y, mut height) = (AROUND, 0.0_f64, AROUND, 0.0_f64);
    let mut column = 0;
    for at in order {
        let cluster = &mut clusters[at];
        if cluster.column != column {
            left += width + BETWEEN_CLUSTERS;
            (width, y, column) = (0.0, AROUND, cluster.column);
        }
        (cluster.x, cluster.y) = (left, y);
        width = width.max(cluster.width);
        y += cluster.height + AROUND;
        height = height.max(y);
    }
    for cluster in clusters.iter() {
        for column in &cluster.columns {
            for (row, at) in column.iter().enumerate() {
                let spot = &mut spots[*at];
                spot.x += cluster.x;
                spot.y = cluster.y + ABOVE_CLUSTER + row as f64 * ROW;
            }
        }
    }
    (layout.width, layout.height) = (left + width + AROUND, height.max(2.0 * AROUND));
}

/// Orders the vertices of each column, and the clusters of each column, by where what they are connected with stands.
fn attract(layout: &mut Layout) {
    let mut sums: Vec<(f64, f64)> = vec![(0.0, 0.0); layout.spots.len()];
    let mut pull = |at: usize, y: f64| sums[at] = (sums[at].0 + y, sums[at].1 + 1.0);
    for line in &layout.lines {
        pull(line.from, layout.spots[line.to].y);
        pull(line.to, layout.spots[line.from].y);
    }
    let spots = &layout.spots;
    let wish = |at: usize| if sums[at].1 > 0.0 { sums[at].0 / sums[at].1 } else { spots[at].y };
    for cluster in &mut layout.clusters {
        for column in &mut cluster.columns {
            column.sort_by(|one, other| wish(*one).total_cmp(&wish(*other)).then(one.cmp(other)));
        }
        let members: Vec<usize> = cluster.columns.iter().flatten().copied().collect();
        let wished: f64 = members.iter().map(|at| wish(*at)).sum();
        cluster.y = wished / members.len().max(1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_points_stands_left_of_what_it_points_at_except_in_a_circle() {
        assert_eq!(columns(3, [(0, 1), (1, 2), (0, 2)].into_iter()), [0, 1, 2]);
        assert_eq!(columns(3, [(2, 1), (1, 0)].into_iter()), [2, 1, 0]);
        let circle = columns(3, [(0, 1), (1, 0), (1, 2)].into_iter());
        assert_eq!(circle, [0, 1, 2]);
    }

    #[test]
    fn a_long_chain_does_not_touch_the_stack() {
        let long = 200_000;
        let columns = columns(long, (1..long).map(|at| (at - 1, at)));
        assert_eq!(columns[long - 1], long - 1);
    }
}
