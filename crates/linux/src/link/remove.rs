//! Removing links, many at a time.
//!
//! **Why** by group: the kernel waits for every user of a link to let go, once per request. A thousand links that leave
//! as one group leave in a second; one by one they take minutes.

use super::attribute as attr;
use super::write::header;
use crate::mark;
use crate::netlink::{Message, Refusal, Requests, rtnl};

/// Removes links of ours by their indexes, and says how each of them went, in order.
///
/// **Guarantees**: an index that is not ours is refused here, whatever it is.
pub(crate) fn remove(requests: &mut Requests, indexes: &[u32]) -> Vec<Result<(), Refusal>> {
    let foreign = || Refusal { errno: libc::EPERM, text: Some("the link was not made by Kilter".to_owned()) };
    let mut results: Vec<Result<(), Refusal>> =
        indexes.iter().map(|index| if mark::is_ours(*index) { Ok(()) } else { Err(foreign()) }).collect();
    let ours: Vec<usize> = (0..indexes.len()).filter(|at| results[*at].is_ok()).collect();
    match ours.as_slice() {
        [] => {}
        [at] => results[*at] = requests.change_one(&by_index(indexes[*at])),
        [first, ..] => {
            // A group that nobody else can have: the number is the index of a link of ours.
            let group = indexes[*first];
            let gather: Vec<Message> = ours.iter().map(|at| into_group(indexes[*at], group)).collect();
            for (at, result) in ours.iter().zip(requests.change(&gather)) {
                results[*at] = result;
            }
            if results.iter().any(Result::is_ok) {
                let gone = requests.change_one(&by_group(group));
                for at in ours {
                    if results[at].is_ok() {
                        results[at].clone_from(&gone);
                    }
                }
            }
        }
    }
    results
}

fn by_index(index: u32) -> Message {
    Message::new(rtnl::DELLINK, 0).body(&header(index, 0, 0))
}

fn into_group(index: u32, group: u32) -> Message {
    let mut message = Message::new(rtnl::NEWLINK, 0).body(&header(index, 0, 0));
    message.u32(attr::GROUP, group);
    message
}

fn by_group(group: u32) -> Message {
    let mut message = Message::new(rtnl::DELLINK, 0).body(&header(0, 0, 0));
    message.u32(attr::GROUP, group);
    message
}
