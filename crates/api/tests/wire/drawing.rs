//! What a drawn graph promises.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kilter_api::render::dot::dot;
use kilter_api::render::looks::Drawing;
use kilter_api::render::svg::svg;
use kilter_api::v1::{Edge, EdgeType, Graph, State, Vertex};

/// Numbers that look random and are the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn vertex(key: &str, kind: &str, state: State, base: &str) -> Vertex {
    let value = format!("{{\"about\":\"{key}\"}}").replace('\n', " ");
    Vertex { key: key.to_owned(), kind: kind.to_owned(), state: state.into(), base: base.to_owned(), value }
}

fn edge(from: &str, to: &str, edge_type: EdgeType, met: bool) -> Edge {
    Edge { from: from.to_owned(), to: to.to_owned(), edge_type: edge_type.into(), met }
}

fn small() -> Graph {
    let vertices = vec![
        vertex("linux/address/eth1/10.0.0.1", "linux.address", State::Configured, "linux/interface/eth1"),
        vertex("linux/interface/eth1", "linux.interface", State::Configured, ""),
        vertex("linux/interface/eth2", "linux.interface", State::Retrying, ""),
        vertex("linux/route/home", "linux.route", State::Pending, ""),
        vertex("linux/route/<\"away\" & 'far'>", "linux.route", State::Invalid, ""),
    ];
    let edges = vec![
        edge("linux/address/eth1/10.0.0.1", "linux/interface/eth1", EdgeType::Derived, true),
        edge("linux/route/home", "linux/interface/eth3", EdgeType::Needs, false),
        edge("linux/route/home", "linux/interface/eth1", EdgeType::Needs, true),
    ];
    Graph { after_txn: 7, vertices, edges }
}

fn drawing() -> Drawing {
    let touched = ["linux/interface/eth1".to_owned()].into();
    Drawing { touched, link: "/scheduler/key-timeline?key=".to_owned() }
}

/// Compares with what is kept, or keeps it if asked to.
fn hold_golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire/golden").join(name);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == text, "{name} differs, look with UPDATE_GOLDENFILES=1 and git diff");
}

#[test]
fn a_small_graph_looks_as_it_is_kept() {
    hold_golden("small.svg", &svg(&small(), &drawing()));
    hold_golden("small.dot", &dot(&small(), &drawing()));
}

#[test]
fn an_unmet_need_is_red_and_what_was_touched_has_a_gold_border() {
    let picture = svg(&small(), &drawing());
    let document = roxmltree::Document::parse(&picture).unwrap();
    let red: Vec<_> = document.descendants().filter(|node| node.attribute("stroke") == Some("red")).collect();
    assert_eq!(red.len(), 1);
    assert!(
        red[0].children().next().unwrap().text().unwrap().ends_with("needs linux/interface/eth3 (unmet)")
    );
    let gold = document.descendants().filter(|node| node.attribute("stroke") == Some("gold"));
    let titles: Vec<_> = gold.map(|node| node.parent().unwrap().first_child().unwrap().text()).collect();
    assert_eq!(titles.len(), 1);
    assert!(titles[0].unwrap().starts_with("CONFIGURED\nlinux/interface/eth1"));
    assert!(svg(&small(), &Drawing::default()).matches("gold").count() == 0);
}

#[test]
fn every_state_has_its_colour_and_its_line() {
    // The state, the colour inside, that of the text, and whether the line is broken.
    let looks = [
        (State::Nonexistent, "black", "white", false),
        (State::Missing, "dimgray", "white", true),
        (State::Unimplemented, "darkkhaki", "black", true),
        (State::Removed, "black", "white", true),
        (State::Configured, "palegreen", "black", false),
        (State::Obtained, "lightcyan", "black", false),
        (State::Discovered, "lime", "black", false),
        (State::Pending, "pink", "black", true),
        (State::Invalid, "maroon", "white", false),
        (State::Failed, "orangered", "black", false),
        (State::Retrying, "deeppink", "black", false),
        (State::Applying, "lightskyblue", "black", true),
        (State::Removing, "plum", "black", true),
    ];
    let known = (1..).map_while(|number| State::try_from(number).ok()).count();
    assert_eq!(looks.len(), known, "every state is in the table");
    for (state, fill, ink, is_dashed) in looks {
        let draw = |base: &str| {
            let vertices = vec![vertex("a/1", "k", state, base)];
            let graph = Graph { after_txn: 1, vertices, edges: Vec::new() };
            (svg(&graph, &Drawing::default()), dot(&graph, &Drawing::default()))
        };
        let (picture, text) = draw("");
        // The words of a tooltip stand on lines of their own.
        let item = picture.split("class=\"item\"").nth(1).unwrap();
        assert!(item.contains(&format!("data-state=\"{state}\"")), "{item}");
        assert!(item.contains(&format!("fill=\"{fill}\" stroke=")), "{state}: {item}");
        assert!(item.contains(&format!("fill=\"{ink}\">")), "{state}: {item}");
        assert_eq!(item.contains("stroke-dasharray"), is_dashed, "{state}: {item}");
        assert!(text.contains(&format!("fillcolor={fill}, fontcolor={ink}")), "{state}: {text}");
        assert_eq!(text.contains("\"filled,dashed"), is_dashed, "{state}: {text}");
        // A derived one is round, and one that is well has a colour of its own.
        let (derived, _) = draw("b/1");
        let fill = if state == State::Configured { "lightyellow" } else { fill };
        assert!(derived.contains(&format!("rx=\"12\" fill=\"{fill}\"")), "{state}: {derived}");
    }
}

#[test]
fn a_need_that_is_met_is_drawn_to_what_meets_it_and_what_is_needed_stands_left() {
    let vertices = vec![
        vertex("a/1", "k", State::Configured, ""),
        vertex("b/1", "k", State::Configured, ""),
        vertex("b/2", "other", State::Configured, ""),
    ];
    let edges = vec![
        edge("a/1", "any b/* or c/* with an address", EdgeType::Needs, true),
        edge("a/1", "no d/1", EdgeType::Needs, true),
        edge("b/1", "any e/*", EdgeType::Needs, false),
    ];
    let graph = Graph { after_txn: 1, vertices, edges };
    let picture = svg(&graph, &Drawing::default());
    let document = roxmltree::Document::parse(&picture).unwrap();
    let titled = |class: &'static str| {
        let parts = document.descendants().filter(move |node| node.attribute("class") == Some(class));
        parts.map(|part| part.first_element_child().unwrap()).collect::<Vec<_>>()
    };
    let edges: Vec<_> = titled("edge").iter().map(|title| title.text().unwrap().to_owned()).collect();
    let any = "a/1 needs any b/* or c/* with an address";
    assert_eq!(edges, [any, any, "b/1 needs any e/* (unmet)"]);
    assert_eq!(titled("wanted").len(), 1, "only what is waited for");
    let x = |key: &str| -> f64 {
        let titles = titled("item").into_iter();
        let mut titles = titles.filter(|title| title.text().unwrap().lines().nth(1) == Some(key));
        let rect = titles.next().unwrap().next_sibling_element().unwrap();
        rect.attribute("x").unwrap().parse().unwrap()
    };
    assert!(x("b/1") < x("a/1") && x("b/2") < x("a/1"), "{} {} {}", x("a/1"), x("b/1"), x("b/2"));

    let text = dot(&graph, &Drawing::default());
    for line in
        ["rankdir=RL;", "\"a/1\" -> \"b/1\"", "\"a/1\" -> \"b/2\"", "\"b/1\" -> \"any e/*\" [color=red"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("d/1") && !text.contains("or c/*"), "{text}");
}

/// A graph with circles, doubled edges, unknown ends, and keys that are no good XML.
fn random(seed: u64) -> Graph {
    let mut dice = Dice(seed);
    let count = 1 + dice.below(60);
    let odd = ["<", "&amp;", "\"", "\u{0}", "\u{202e}", "]]>", "\n", "ß", "\u{ffff}", "'", "\\", "%"];
    let mut vertices = BTreeMap::new();
    for at in 0..count {
        let key = format!("k{}/{}{at}", dice.below(4), odd[dice.below(odd.len())]);
        let kind = ["", "one", "two<", "three"][dice.below(4)];
        let state = State::try_from(dice.below(14) as i32).unwrap();
        vertices.insert(key.clone(), vertex(&key, kind, state, ""));
    }
    let keys: Vec<String> = vertices.keys().cloned().collect();
    let mut vertices: Vec<Vertex> = vertices.into_values().collect();
    for vertex in &mut vertices {
        if dice.below(3) == 0 {
            vertex.base = keys[dice.below(keys.len())].clone();
        }
    }
    let edges = (0..dice.below(3 * count + 1)).map(|_| {
        let from = keys[dice.below(keys.len())].clone();
        let to =
            if dice.below(5) == 0 { "nobody/*".to_owned() } else { keys[dice.below(keys.len())].clone() };
        let edge_type = if dice.below(2) == 0 { EdgeType::Needs } else { EdgeType::Derived };
        edge(&from, &to, edge_type, dice.below(2) == 0)
    });
    Graph { after_txn: seed, edges: edges.collect(), vertices }
}

#[test]
fn every_item_is_drawn_once_in_well_formed_xml_whatever_its_key() {
    for seed in 0..300 {
        let graph = random(seed);
        let picture = svg(&graph, &drawing());
        let document = roxmltree::Document::parse(&picture).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let of_class = |class: &'static str| {
            document.descendants().filter(move |node| node.attribute("class") == Some(class))
        };
        let mut places: Vec<String> = of_class("item")
            .map(|item| {
                let rect = item.children().find(|node| node.has_tag_name("rect")).unwrap();
                format!("{:?} {:?}", rect.attribute("x"), rect.attribute("y"))
            })
            .collect();
        assert_eq!(places.len(), graph.vertices.len(), "seed {seed}");
        assert_eq!(of_class("edge").count(), graph.edges.len(), "seed {seed}");
        places.sort();
        places.dedup();
        assert_eq!(places.len(), graph.vertices.len(), "seed {seed}: no two items at one place");
        assert_eq!(picture, svg(&graph, &drawing()), "seed {seed}: the same picture again");
    }
}

#[test]
fn boxes_of_kinds_do_not_overlap_and_hold_their_items() {
    for seed in 0..100 {
        let graph = random(seed);
        let picture = svg(&graph, &Drawing::default());
        let document = roxmltree::Document::parse(&picture).unwrap();
        let boxes: Vec<[f64; 4]> = document
            .descendants()
            .filter(|node| node.attribute("class") == Some("cluster"))
            .map(|cluster| {
                let rect = cluster.first_element_child().unwrap();
                ["x", "y", "width", "height"].map(|name| rect.attribute(name).unwrap().parse().unwrap())
            })
            .collect();
        for (at, [x, y, width, height]) in boxes.iter().enumerate() {
            for [left, top, wide, high] in &boxes[at + 1..] {
                let apart = x + width <= *left || left + wide <= *x || y + height <= *top || top + high <= *y;
                assert!(apart, "seed {seed}: two boxes overlap");
            }
        }
        let inside = |x: f64, y: f64| {
            boxes
                .iter()
                .any(|[left, top, wide, high]| *left <= x && x <= left + wide && *top <= y && y <= top + high)
        };
        for item in document.descendants().filter(|node| node.attribute("class") == Some("item")) {
            let rect = item.children().find(|node| node.has_tag_name("rect")).unwrap();
            let [x, y]: [f64; 2] = ["x", "y"].map(|name| rect.attribute(name).unwrap().parse().unwrap());
            assert!(inside(x, y), "seed {seed}: an item stands outside its box");
        }
    }
}
