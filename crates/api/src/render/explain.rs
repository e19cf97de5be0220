//! An explanation: who declares an item, where it stands, the chain of causes, and what would unblock it.

use super::{one_line, paint, short_moment, style_of};
use crate::v1::{Author, DeclaredBy, Explanation, Moment};

/// The explanation for people.
pub fn text(explanation: &Explanation) -> String {
    let state = explanation.state();
    let kind = if explanation.kind.is_empty() { String::new() } else { format!(" ({})", explanation.kind) };
    let mut text = format!("{}{kind}: {}\n", one_line(&explanation.key), paint(style_of(state), state));
    text.extend(explanation.declared_by.iter().map(declared_by));
    for link in &explanation.links {
        let indent = " ".repeat(2 * (link.depth as usize + 1));
        let place = link.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        let state = paint(style_of(link.state()), link.state());
        let (key, why) = (one_line(&link.key), one_line(&link.why));
        match link.depth {
            0 => text.push_str(&format!("  why: {why}\n")),
            _ => text.push_str(&format!("{indent}{key} {state}: {why}{place}\n")),
        }
    }
    if let Some(moment) = &explanation.last_change {
        text.push_str(&last_change(moment, explanation.author()));
    }
    if !explanation.last_error.is_empty() {
        let error = one_line(&explanation.last_error);
        text.push_str(&format!("  last error: {error} (txn #{})\n", explanation.last_error_txn));
    }
    if explanation.paused {
        text.push_str("  healing of it is paused\n");
    }
    for unblock in &explanation.unblock {
        text.push_str(&format!("  to do: {}\n", one_line(unblock)));
    }
    text
}

fn declared_by(by: &DeclaredBy) -> String {
    let place = by.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
    let txn = if by.txn == 0 { String::new() } else { format!(", in txn #{}", by.txn) };
    let heard = if by.heard { "" } else { ", not heard" };
    format!("  declared by `{}`{place}{txn}{heard}\n", one_line(&by.source))
}

fn last_change(moment: &Moment, author: Author) -> String {
    let who = match author {
        Author::Declared => "by a declaration",
        Author::Healing => "by healing",
        Author::Other => "by somebody else",
        Author::Unspecified => "by an unknown hand",
    };
    let (at, action, txn) = (short_moment(moment.at.as_ref()), &moment.action, moment.txn);
    format!("  last change: {action} {who} in txn #{txn}, {at} UTC\n")
}
