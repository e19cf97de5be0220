//! Where the edges of a graph end: at an item, at several of which any would do, or at something that is not there.
//!
//! Decided here: how the words of a need are read (`KEY`, `no KEY`, `any PREFIX* or PREFIX*`), so that every drawing
//! connects the same. Not decided here: how anything looks (`looks`), or stands (`layout`).

use std::collections::{BTreeMap, HashMap};

use crate::v1::{Edge, Graph};

/// How many items of a prefix a need is drawn to.
const MEMBERS: usize = 12;

/// Where an edge begins and ends, by the positions of vertices in their graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It begins at no item.
    Nowhere,
    /// It is met by nothing that could be named: there is nothing to draw.
    Met {
        /// Where it begins.
        from: usize,
    },
    /// It is met by an item that this part of the graph leaves out.
    Elsewhere {
        /// Where it begins.
        from: usize,
    },
    /// It waits for something that is not there.
    Wanted {
        /// Where it begins.
        from: usize,
    },
    /// It ends at these; if there are several, any of them would do.
    Items {
        /// Where it begins.
        from: usize,
        /// Where it ends.
        to: Vec<usize>,
    },
}

impl End {
    /// From which item to which.
    pub fn items(&self) -> impl Iterator<Item = (usize, usize)> {
        let (from, to) = match self {
            Self::Items { from, to } => (*from, to.as_slice()),
            Self::Nowhere | Self::Met { .. } | Self::Elsewhere { .. } | Self::Wanted { .. } => {
                (0, [].as_slice())
            }
        };
        to.iter().map(move |to| (from, *to))
    }
}

/// The ends of every edge, in the order of the graph.
pub fn ends(graph: &Graph) -> Vec<End> {
    let mut known: HashMap<&str, usize> = HashMap::with_capacity(graph.vertices.len());
    for (at, vertex) in graph.vertices.iter().enumerate() {
        known.entry(&vertex.key).or_insert(at);
    }
    let sorted: BTreeMap<&str, usize> = known.iter().map(|(key, at)| (*key, *at)).collect();
    graph.edges.iter().map(|edge| end(edge, &known, &sorted)).collect()
}

fn end(edge: &Edge, known: &HashMap<&str, usize>, sorted: &BTreeMap<&str, usize>) -> End {
    let Some(from) = known.get(edge.from.as_str()).copied() else { return End::Nowhere };
    let key = edge.to.strip_prefix("no ").unwrap_or(&edge.to);
    if let Some(to) = known.get(edge.to.as_str()).or_else(|| known.get(key)) {
        return End::Items { from, to: vec![*to] };
    }
    if !edge.met {
        return End::Wanted { from };
    }
    let prefixes = prefixes(&edge.to);
    if prefixes.is_empty() && key == edge.to {
        return End::Elsewhere { from };
    }
    let members = prefixes.into_iter().flat_map(|prefix| {
        sorted.range(prefix..).take_while(move |(key, _)| key.starts_with(prefix)).map(|(_, at)| *at)
    });
    let mut to: Vec<usize> = Vec::new();
    for member in members.filter(|member| *member != from) {
        if to.len() == MEMBERS {
            break;
        }
        if !to.contains(&member) {
            to.push(member);
        }
    }
    if to.is_empty() { End::Met { from } } else { End::Items { from, to } }
}

/// What the keys begin with that would meet a need for any of several.
fn prefixes(need: &str) -> Vec<&str> {
    let Some(several) = need.strip_prefix("any ") else { return Vec::new() };
    // What stands behind the last `*` says in words which of them.
    several.split(" or ").filter_map(|one| one.split_once('*')).map(|(prefix, _)| prefix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Vertex;

    #[test]
    fn a_need_ends_where_it_is_met_and_stands_alone_only_if_it_is_not() {
        let vertices =
            ["a", "b/1", "b/2", "c"].map(|key| Vertex { key: key.to_owned(), ..Vertex::default() });
        let ends_of = |to: &str, met| {
            let edge = Edge { from: "a".to_owned(), to: to.to_owned(), met, ..Edge::default() };
            let graph = Graph { vertices: vertices.to_vec(), edges: vec![edge], ..Graph::default() };
            ends(&graph).remove(0)
        };
        let items = |to: &[usize]| End::Items { from: 0, to: to.to_vec() };
        assert_eq!(ends_of("c", true), items(&[3]));
        assert_eq!(ends_of("any b/*", true), items(&[1, 2]));
        assert_eq!(ends_of("any x/* or b/2* with an address", true), items(&[2]));
        assert_eq!(ends_of("any b/*", false), End::Wanted { from: 0 });
        assert_eq!(ends_of("any x/*", true), End::Met { from: 0 });
        assert_eq!(ends_of("no d", true), End::Met { from: 0 });
        assert_eq!(ends_of("d", true), End::Elsewhere { from: 0 });
        assert_eq!(ends_of("no c", false), items(&[3]), "what must not be there, and is");
        assert_eq!(ends_of("d", false), End::Wanted { from: 0 });
    }
}
