//! What happened to one item, oldest first.

use super::table::{Cell, table};
use super::{one_line, short_moment, style_of};
use crate::v1::Moment;

/// The moments of an item as a table.
pub fn list(moments: &[Moment], width: Option<usize>) -> String {
    if moments.is_empty() {
        return "nothing is remembered of it\n".to_owned();
    }
    let rows = moments.iter().map(|moment| -> Vec<Cell> {
        let what = match (moment.error.is_empty(), moment.description.is_empty()) {
            (false, _) => format!("✗ {}", moment.error),
            (true, false) => {
                let first = moment.description.lines().next().unwrap_or_default();
                format!("{}: {first}", moment.txn_type)
            }
            (true, true) => moment.txn_type.clone(),
        };
        vec![
            format!("#{}", moment.txn).into(),
            short_moment(moment.at.as_ref()).into(),
            moment.action.as_str().into(),
            Cell::painted(style_of(moment.before()), moment.before().name()),
            Cell::painted(style_of(moment.state()), moment.state().name()),
            one_line(&what).into(),
        ]
    });
    table(&["TXN", "TIME (UTC)", "ACTION", "BEFORE", "AFTER", "WHY"], rows.collect(), width)
}
