//! What is wrong between items: two that declare the same thing, two that say different things about one.

use std::collections::HashMap;

use kilter_scheduler::Key;

use super::problem::Problem;
use super::{Declared, Order};
use crate::linux::link::LinkKind;
use crate::linux::{Existing, Link, keys};

/// Checks the items of all files against each other.
pub(super) fn check(declared: &[Declared], problems: &mut Vec<(Order, Problem)>) {
    let mut by_key: HashMap<&Key, &Declared> = HashMap::with_capacity(declared.len());
    let mut report = |item: &Declared, message: String, other: &Declared| {
        let order = (item.source, item.place.line, item.place.column);
        let other = Some(other.place.clone());
        problems.push((order, Problem { place: item.place.clone(), message, hint: None, other }));
    };
    for item in declared {
        match by_key.get(&item.key) {
            Some(first) => report(item, format!("`{}` is declared already, at", item.key), first),
            None => {
                by_key.insert(&item.key, item);
            }
        }
    }
    for item in declared {
        let made_as = |existing: &Existing| by_key.get(&keys::link(&existing.netns, &existing.name));
        let existing = item.value.downcast::<Existing>();
        if let Some((existing, made)) = existing.and_then(|existing| Some((existing, made_as(existing)?))) {
            report(item, format!("`{}` does not exist by itself, it is made at", existing.name), made);
        }
        if let Some((peer, back)) = peer_of(item, &by_key) {
            report(item, format!("the peer `{}` is {back}, at", peer.key), peer);
        }
    }
}

/// The declared peer of a veth that does not think so itself, and what it is instead.
fn peer_of<'a>(item: &Declared, by_key: &HashMap<&Key, &'a Declared>) -> Option<(&'a Declared, String)> {
    let link = item.value.downcast::<Link>()?;
    let LinkKind::Veth(veth) = &link.kind else { return None };
    let peer = veth.peer.as_ref()?;
    let found = by_key.get(&keys::link(peer.netns(&link.netns), &peer.name))?;
    let other = found.value.downcast::<Link>()?;
    let LinkKind::Veth(back) = &other.kind else {
        return Some((found, format!("a `{}`", other.kind.word())));
    };
    let back = back.peer.as_ref()?;
    let key = keys::link(back.netns(&other.netns), &back.name);
    (key != item.key).then(|| (*found, format!("the peer of `{key}`")))
}
