//! The reference page of the kinds, written out of their shapes. A test holds `docs/reference/kinds.md` against it.

use std::fmt::Write as _;

use crate::KINDS;
use crate::declare::DocumentKind;
use crate::shape::{Field, Shape};

const HEAD: &str = "\
# Kinds

What may stand after `kind:` in a [document](document.md), and what may follow. Fields in **bold** must be given; any
other field that is left out is left as it is, or takes the default that its line tells. `netns` is the namespace of
an item everywhere; left out, it is the agent's own, `host`.

This page is written by the code (`UPDATE_GOLDENFILES=1 cargo test -p kilter-model --test reference`).

";

/// What each kind needs, and what cannot be changed in place.
const BEHAVIOUR: &[(&str, &str, &str)] = &[
    ("netns", "nothing", "`path` and `pid`"),
    ("veth", "its `peer`, which needs it too, and the namespaces of both", "`peer`"),
    ("bridge", "nothing; each port needs the bridge and its link", "nothing"),
    (
        "vxlan",
        "its `link`, if it has one",
        "`vni`, `port`, `proxy`, `udp-checksum`, `external`, `group-policy`, and the family of `local` and `remote`",
    ),
    ("tap", "nothing", "`multi-queue`, `vnet-header` and `packet-info`"),
    ("tun", "nothing", "`multi-queue`, `vnet-header` and `packet-info`"),
    ("macvlan", "its `link`", "`link`, and `mode` to and from `passthru`"),
    ("macvtap", "its `link`", "`link`, and `mode` to and from `passthru`"),
    ("ifb", "nothing", "nothing"),
    ("dummy", "nothing", "nothing"),
    ("vlan", "its `link`; it is up only when that is", "`link`, `id` and `protocol`"),
    ("vrf", "nothing", "`table`"),
    ("bond", "nothing; each port needs the bond and its link", "`mode`"),
    ("loopback", "nothing: it comes with its namespace", "nothing"),
    ("existing", "the link itself, whoever makes it", "nothing"),
    (
        "route",
        "each `link` up; each gateway inside the network of an address on that link (any link that is up, if none is \
         named) or reached by a direct route, unless it is `onlink` or an IPv6 link-local one; an address that is its `source`",
        "nothing: table, destination and metric are the key",
    ),
    (
        "rule",
        "nothing: links and tables that it names may come later",
        "anything: family and priority are the key",
    ),
    ("neighbour", "its `link` up", "nothing"),
    (
        "fdb",
        "its `link`; in the table of a bridge, the binding to it",
        "`port` and `vni` of flooding entries",
    ),
    ("sysctl", "the link that its name names, if any", "nothing"),
    ("nftables", "the `link` of each chain that has one", "nothing: the table is replaced at once"),
    (
        "qdisc",
        "its `link`; below a class, the discipline at the root",
        "`discipline`, `handle` and `default-class`",
    ),
];

/// The page.
pub fn kinds_page() -> String {
    let mut page = HEAD.to_owned();
    let shared = shared_fields();
    for kind in KINDS {
        let _ = writeln!(page, "## `{}`\n\n{}\n", kind.word, kind.about);
        if let Some((_, needs, fixed)) = BEHAVIOUR.iter().find(|(word, _, _)| *word == kind.word) {
            let _ = writeln!(page, "Needs {needs}. Changed only by making it again: {fixed}.\n");
        }
        let is_own = |field: &&Field| !kind.has_link_fields() || !shared.contains(&field.name.as_str());
        let fields: Vec<&Field> = kind.shape().fields().iter().filter(is_own).collect();
        table(&mut page, &fields);
        if kind.has_link_fields() {
            page.push_str("And the [fields of every link](#fields-of-every-link).\n\n");
        }
        for field in &fields {
            nested(&mut page, field);
        }
    }
    page.push_str("## Fields of every link\n\n");
    let fields: Vec<&Field> =
        plain_link().iter().filter(|field| shared.contains(&field.name.as_str())).collect();
    table(&mut page, &fields);
    for field in &fields {
        nested(&mut page, field);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

impl DocumentKind {
    fn has_link_fields(&self) -> bool {
        self.is_link || self.word == "existing"
    }
}

/// The fields of a link that has none of its own.
fn plain_link() -> &'static [Field] {
    KINDS.iter().find(|kind| kind.word == "dummy").map_or(&[], |kind| kind.shape().fields())
}

/// The fields that every link has.
fn shared_fields() -> Vec<&'static str> {
    plain_link()
        .iter()
        .map(|field| field.name.as_str())
        .filter(|name| !matches!(*name, "kind" | "name" | "netns"))
        .collect()
}

fn table(page: &mut String, fields: &[&Field]) {
    page.push_str("| field | what it is | allowed |\n|---|---|---|\n");
    for field in fields.iter().filter(|field| field.name != "kind") {
        let stars = if field.required { "**" } else { "" };
        let about = field.about.replace('|', "\\|");
        let allowed = field.shape.to_string().replace('|', "\\|");
        let _ = writeln!(page, "| {stars}`{}`{stars} | {about} | {allowed} |", field.name);
    }
    page.push('\n');
}

/// The long form of a field that has one.
fn nested(page: &mut String, field: &Field) {
    let inner = if let Shape::List { of, .. } = &field.shape { of.fields() } else { field.shape.fields() };
    // A peer has the fields of a link; a link is named by two.
    if inner.is_empty()
        || field.name == "peer"
        || inner.iter().all(|one| matches!(one.name.as_str(), "name" | "netns"))
    {
        return;
    }
    let each = if matches!(field.shape, Shape::List { .. }) { "each of " } else { "" };
    let _ = writeln!(page, "Fields of {each}`{}`:\n", field.name);
    table(page, &inner.iter().collect::<Vec<_>>());
}
