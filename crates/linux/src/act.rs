//! Acting: the changes of one namespace, gathered into as few sends as they need.
//!
//! Numbered steps: 1. each operation becomes an order of messages, or is carried out at once where netlink has no part
//! in it; 2. the messages of all orders are sent, what binds and addresses before what switches on; 3. links that are to
//! go leave together; 4. every operation is answered.
//!
//! **Why** some work is put off: to switch a link off, to loose it from its bridge and to remove the links of a
//! namespace each make the kernel wait for all its users, up to a tenth of a second with everybody else waiting too. The
//! way down takes all three steps for every link, and only the last one counts. So when many go down, the first two wait
//! for a moment and are dropped if the link is removed; and when links go in many namespaces of ours, their removal waits
//! and is dropped if the namespace is removed. What waits is carried out before anything is made or read there, and when
//! the moment is over.
//!
//! **Why** the answers come last: what stands on a link becomes ready with its answer. Answered together, all ports of a
//! bridge are bound and addressed in the next round before the first of them is up, which spares the kernel from
//! flooding each of them through all the others.

use std::ops::Range;

use kilter_model::linux::address::AddressKind;
use kilter_model::linux::route::RouteKind;
use kilter_model::linux::rule::RuleKind;
use kilter_model::linux::{
    Existing, Fdb, Link, LinkAddress, LinkKind, Neighbour, Netns, NetnsName, Nftables, Port, Qdisc, Route,
    Rule, Sysctl, Unnumbered, Up,
};
use kilter_scheduler::{Act, Answer, Facts, Key, Kind, Transition, Value, ValueRef};
use kilter_southbound::{Assignment, OperationError, Reply};

use crate::former::{GivenBack, Place, Side};
use crate::link::{GONE, remove};
use crate::netlink::{KernelError, Message};
use crate::order::{LinkFacts, Order, Site};
use crate::shared::{PutOff, Shared};
use crate::{
    address, existing, fdb, link, neighbour, netns, nftables, port, qdisc, route, rule, sysctl, unnumbered,
    up,
};

/// What an operation comes to.
enum Prepared {
    /// Messages.
    Order(Order),
    /// The removal of a link.
    Remove(u32),
    /// It is done already.
    Answer(Answer),
}

impl From<Order> for Prepared {
    fn from(order: Order) -> Self {
        Self::Order(order)
    }
}

/// An operation that waits for its messages to be sent.
struct Ordered {
    key: Key,
    order: Order,
    range: Range<usize>,
    reply: Reply,
    /// What has to be taken back if it fails.
    promised: Option<(NetnsName, String)>,
    /// What is to be made, if something is.
    asked: Option<ValueRef>,
}

/// Acts on namespaces themselves.
pub(crate) fn act_on_namespaces(shared: &Shared, assignments: Vec<Assignment>) {
    for assignment in assignments {
        assignment.begin();
        let answer = on_namespace(shared, &assignment.act);
        assignment.answer(answer);
    }
}

fn on_namespace(shared: &Shared, act: &Act) -> Answer {
    let result = match act {
        Act::Create { key, value } => typed(key, value).map(|value| netns::create(shared, value)),
        Act::Update { key, new, .. } => typed(key, new).map(|value| netns::create(shared, value)),
        Act::Delete { key, value, .. } => {
            typed::<Netns>(key, value).map(|value| netns::delete(shared, value))
        }
        Act::Retrieve { .. } | Act::RetrieveAll { .. } => return not_a_change(),
    };
    match result {
        Ok(Ok(())) => Answer::done(),
        Ok(Err(error)) => error.into(),
        Err(answer) => answer,
    }
}

/// Acts on what is in one namespace.
pub(crate) fn act(shared: &Shared, name: &NetnsName, mut assignments: Vec<Assignment>, put_off: bool) {
    assignments.iter().for_each(Assignment::begin);
    let mut site = match Site::open(shared, name.clone()) {
        Ok(site) => site,
        Err(error) => return without_namespace(&error, assignments),
    };
    let only_down = assignments.iter().all(|assignment| matches!(assignment.act, Act::Delete { .. }));
    if !only_down {
        catch_up(shared, name.as_str());
    }
    let loosening = assignments.iter().filter(|assignment| is_loosening(&assignment.act)).count();
    let spare = only_down && loosening > MANY;
    assignments.sort_by_key(|assignment| rank(&assignment.act));
    let mut ordered: Vec<Ordered> = Vec::new();
    let mut messages: Vec<Message> = Vec::new();
    let mut doomed: Vec<(u32, Key, Reply)> = Vec::new();
    let mut answered: Vec<(Reply, Answer)> = Vec::new();
    for Assignment { act, needs, reply, .. } in assignments {
        let Some(key) = act.key().cloned() else {
            answered.push((reply, not_a_change()));
            continue;
        };
        match prepare(&mut site, &key, &act, &needs) {
            Ok(Prepared::Order(order)) if spare && is_loosening(&act) => {
                answered.push((reply, put_off_loosening(shared, name.as_str(), order, &key)));
            }
            Ok(Prepared::Order(mut order)) => {
                let start = messages.len();
                messages.append(&mut order.messages);
                let range = start..messages.len();
                let asked = if let Act::Create { value, .. } = &act { Some(value.clone()) } else { None };
                ordered.push(Ordered { key, order, range, reply, promised: promised(&act), asked });
            }
            Ok(Prepared::Remove(index)) => doomed.push((index, key, reply)),
            Ok(Prepared::Answer(answer)) => answered.push((reply, answer)),
            Err(answer) => answered.push((reply, answer)),
        }
    }
    let results = site.space.requests().change(&messages);
    for Ordered { key, mut order, range, reply, promised, asked } in ordered {
        let given_back = order.given_back.take();
        let answer = order.answer(&results[range], &key);
        forget_given_back(shared, given_back, &answer);
        let answer = second_thought(&site, &key, asked.as_ref(), answer);
        settle(shared, &key, &answer, promised);
        answered.push((reply, answer));
    }
    let indexes: Vec<u32> = doomed.iter().map(|(index, ..)| *index).collect();
    let may_wait = put_off
        && indexes.iter().all(|index| crate::mark::is_ours(*index))
        && netns::is_ours(shared, name.as_str()).is_ok_and(|ours| ours == Some(true));
    let removed = if may_wait {
        shared.put_off(name.as_str(), |waiting| waiting.doomed.extend(&indexes));
        indexes.iter().map(|_| Ok(())).collect()
    } else {
        shared.put_off(name.as_str(), |waiting| {
            indexes.iter().for_each(|index| drop(waiting.messages.remove(index)))
        });
        remove::remove(&mut site.space.requests(), &indexes)
    };
    for ((index, key, reply), result) in doomed.into_iter().zip(removed) {
        let order = Order::new("remove link", Vec::new()).tolerating(GONE);
        debug_assert!(index != 0, "a link has an index");
        answered.push((reply, order.answer(&[result], &key)));
    }
    for (reply, answer) in answered {
        reply.send(answer);
    }
}

/// From how many on it is worth waiting.
const MANY: usize = 16;

/// Whether an operation switches a link off, or looses it from its bridge.
fn is_loosening(act: &Act) -> bool {
    matches!(act, Act::Delete { key, .. } if matches!(room(key), "up" | "port"))
}

/// Puts off what a link of ours may be spared; what is not ours is done at once.
fn put_off_loosening(shared: &Shared, netns: &str, mut order: Order, key: &Key) -> Answer {
    let given_back = order.given_back.take();
    let index = order.messages.first().and_then(link::write::index_of);
    let Some(index) = index.filter(|index| crate::mark::is_ours(*index)) else {
        let sent = shared.spaces.get(netns).map(|space| space.requests().change(&order.messages));
        let answer = match sent {
            Ok(results) => order.answer(&results, key),
            Err(error) => error.into(),
        };
        forget_given_back(shared, given_back, &answer);
        return answer;
    };
    shared.put_off(netns, |waiting| waiting.messages.entry(index).or_default().extend(order.messages));
    Answer::done()
}

/// What was given back is not remembered any more.
fn forget_given_back(shared: &Shared, given_back: Option<GivenBack>, answer: &Answer) {
    if let (Some(given_back), Answer::Done { .. }) = (given_back, answer) {
        shared.formers.settle(&given_back);
    }
}

/// Carries out what was put off in a namespace.
fn catch_up(shared: &Shared, netns: &str) {
    let PutOff { mut messages, doomed } = shared.take_put_off(netns);
    doomed.iter().for_each(|index| drop(messages.remove(index)));
    let messages: Vec<Message> = messages.into_values().flatten().collect();
    if (messages.is_empty() && doomed.is_empty()) || shared.spaces.find(netns).ok().flatten().is_none() {
        return;
    }
    if let Ok(space) = shared.spaces.get(netns) {
        // What fails keeps its mark or stays as it is, and the next resync finds it.
        space.requests().change(&messages);
        remove::remove(&mut space.requests(), &doomed);
    }
}

/// Carries out everything that was put off.
pub(crate) fn catch_up_all(shared: &Shared) {
    for netns in shared.put_off_in() {
        catch_up(shared, &netns);
    }
}

/// What is done first among operations that need nothing of each other.
fn rank(act: &Act) -> u8 {
    let room = act.key().and_then(|key| key.as_str().split('/').nth(1));
    match (act, room) {
        (Act::Delete { .. }, Some("up")) => 0,
        (Act::Delete { .. }, _) => 1,
        (_, Some("link")) => 2,
        (_, Some("port")) => 3,
        (_, Some("up")) => 5,
        _ => 4,
    }
}

/// A namespace that is gone took everything in it along.
fn without_namespace(error: &KernelError, assignments: Vec<Assignment>) {
    let gone = matches!(error, KernelError::NoNamespace { .. });
    for assignment in assignments {
        let answer = match &assignment.act {
            Act::Delete { .. } if gone => Answer::done(),
            Act::Delete { .. }
            | Act::Create { .. }
            | Act::Update { .. }
            | Act::Retrieve { .. }
            | Act::RetrieveAll { .. } => error.clone().into(),
        };
        assignment.answer(answer);
    }
}

/// The other end that the creation of a pair promises.
fn promised(act: &Act) -> Option<(NetnsName, String)> {
    let Act::Create { value, .. } = act else { return None };
    let link = value.downcast::<Link>()?;
    let LinkKind::Veth(veth) = &link.kind else { return None };
    let peer = veth.peer.as_ref()?;
    Some((peer.netns(&link.netns).clone(), peer.name.to_string()))
}

/// Remembers what an operation brought about.
fn settle(shared: &Shared, key: &Key, answer: &Answer, promised: Option<(NetnsName, String)>) {
    let Some((netns, name)) = link_key(key) else { return };
    match answer {
        Answer::Done { facts: Some(facts) } => {
            if let Some(facts) = facts.downcast::<LinkFacts>() {
                shared.note_link(netns, name, facts.index);
            }
        }
        Answer::Failed(_) => {
            if let Some((netns, name)) = promised {
                shared.take_peer(netns.as_str(), &name);
            }
        }
        Answer::Done { .. }
        | Answer::Accepted { .. }
        | Answer::Found(_)
        | Answer::Absent
        | Answer::Listed(_)
        | Answer::ListedAs(..)
        | Answer::AsListed
        | Answer::NotAsListed => {}
    }
}

/// Namespace and name out of the key of a link.
fn link_key(key: &Key) -> Option<(&str, &str)> {
    key.as_str().strip_prefix("linux/link/")?.split_once('/')
}

/// What is there already and as it was asked for is adopted: an address of ours that came back with its link, or what
/// somebody else made.
fn second_thought(site: &Site<'_>, key: &Key, asked: Option<&ValueRef>, answer: Answer) -> Answer {
    let (Answer::Failed(failure), Some(asked)) = (&answer, asked) else { return answer };
    if !failure.message.contains("(EEXIST)") || !matches!(room(key), "address" | "route" | "rule") {
        return answer;
    }
    match crate::survey::one(site.shared, key, Some(asked)) {
        Ok(Some(found)) if is_as_asked(key, &found.value, asked) => Answer::Done { facts: found.facts },
        _ => answer,
    }
}

/// Whether what was found needs no change to be what was asked for.
fn is_as_asked(key: &Key, found: &ValueRef, asked: &ValueRef) -> bool {
    fn same<K: Kind>(kind: &K, key: &Key, found: &ValueRef, asked: &ValueRef) -> bool {
        let values = found.downcast::<K::Value>().zip(asked.downcast::<K::Value>());
        values.is_some_and(|(found, asked)| kind.transition(key, found, asked) == Transition::Same)
    }
    match room(key) {
        "address" => same(&AddressKind, key, found, asked),
        "route" => same(&RouteKind, key, found, asked),
        "rule" => same(&RuleKind, key, found, asked),
        _ => false,
    }
}

fn prepare(site: &mut Site<'_>, key: &Key, act: &Act, needs: &[(Key, Facts)]) -> Result<Prepared, Answer> {
    let prepared = match act {
        Act::Create { value, .. } => create(site, key, value, needs)?,
        Act::Update { old, new, facts, .. } => update(site, key, old, new, facts.as_ref(), needs)?,
        Act::Delete { value, facts, .. } => delete(site, key, value, facts.as_ref(), needs)?,
        Act::Retrieve { .. } | Act::RetrieveAll { .. } => return Err(not_a_change()),
    };
    prepared.map_err(Answer::from)
}

type Outcome = Result<Result<Prepared, KernelError>, Answer>;

fn create(site: &mut Site<'_>, key: &Key, value: &ValueRef, needs: &[(Key, Facts)]) -> Outcome {
    Ok(match room(key) {
        "link" => link::create(site, typed::<Link>(key, value)?, needs).map(Into::into),
        "existing" => existing::create(site, typed::<Existing>(key, value)?, needs).map(Into::into),
        "up" => up::create(site, typed::<Up>(key, value)?, needs).map(Into::into),
        "port" => port::create(site, typed::<Port>(key, value)?, needs).map(Into::into),
        "address" => address::create(site, typed::<LinkAddress>(key, value)?, needs).map(Into::into),
        "unnumbered" => unnumbered::create(site, typed::<Unnumbered>(key, value)?, needs).map(Into::into),
        "route" => route::create(site, typed::<Route>(key, value)?, needs).map(Into::into),
        "rule" => rule::create(site, typed::<Rule>(key, value)?).map(Into::into),
        "neighbour" => neighbour::create(site, typed::<Neighbour>(key, value)?, needs).map(Into::into),
        "fdb" => fdb::create(site, typed::<Fdb>(key, value)?, needs).map(Into::into),
        "qdisc" => qdisc::create(site, typed::<Qdisc>(key, value)?, needs).map(Into::into),
        "sysctl" => done(sysctl::set(site.shared, &site.space, typed::<Sysctl>(key, value)?)),
        "nftables" => done(nftables::put(site.shared, &site.space, typed::<Nftables>(key, value)?)),
        _ => return Err(unknown(key)),
    })
}

fn update(
    site: &mut Site<'_>,
    key: &Key,
    old: &ValueRef,
    new: &ValueRef,
    facts: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Outcome {
    Ok(match room(key) {
        "link" => link::update(site, typed(key, old)?, typed(key, new)?, facts, needs).map(Into::into),
        "existing" => existing::update(site, typed(key, old)?, typed(key, new)?, needs).map(Into::into),
        "up" => Ok(Order::nothing().into()),
        "port" => port::update(site, typed(key, old)?, typed(key, new)?, needs).map(Into::into),
        "address" => address::update(site, typed(key, new)?, facts, needs).map(Into::into),
        "unnumbered" => unnumbered::create(site, typed(key, new)?, needs).map(Into::into),
        "route" => route::update(site, typed(key, new)?, facts, needs).map(Into::into),
        "rule" => Ok(rule::update(site, typed(key, old)?, typed(key, new)?).into()),
        "neighbour" => neighbour::update(site, typed(key, new)?, facts, needs).map(Into::into),
        "fdb" => fdb::update(site, typed(key, new)?, needs).map(Into::into),
        "qdisc" => qdisc::update(site, typed(key, new)?, needs).map(Into::into),
        "sysctl" => done(sysctl::set(site.shared, &site.space, typed(key, new)?)),
        "nftables" => done(nftables::put(site.shared, &site.space, typed(key, new)?)),
        _ => return Err(unknown(key)),
    })
}

fn delete(
    site: &mut Site<'_>,
    key: &Key,
    value: &ValueRef,
    facts: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Outcome {
    Ok(match room(key) {
        "link" => delete_link(site, typed(key, value)?, facts, needs),
        "existing" => existing::delete(site, typed(key, value)?, needs).map(Into::into),
        "up" => up::delete(site, typed(key, value)?, needs).map(Into::into),
        "port" => port::delete(site, typed(key, value)?, needs).map(Into::into),
        "address" => address::delete(site, typed(key, value)?, needs).map(Into::into),
        "unnumbered" => unnumbered::delete(site, typed(key, value)?, needs).map(Into::into),
        "route" => Ok(route::delete(site, typed(key, value)?).into()),
        "rule" => Ok(rule::delete(site, typed(key, value)?).into()),
        "neighbour" => neighbour::delete(site, typed(key, value)?, needs).map(Into::into),
        "fdb" => fdb::delete(site, typed(key, value)?, needs).map(Into::into),
        "qdisc" => qdisc::delete(site, typed(key, value)?, needs).map(Into::into),
        "sysctl" => done(sysctl::restore(site.shared, &site.space, typed(key, value)?)),
        "nftables" => done(nftables::delete(site.shared, &site.space, typed(key, value)?)),
        _ => return Err(unknown(key)),
    })
}

fn delete_link(
    site: &mut Site<'_>,
    link: &Link,
    facts: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Result<Prepared, KernelError> {
    let index = match link::own_index(site, &link.name, facts, needs) {
        Ok(index) => index,
        Err(KernelError::NoLink { .. }) => return Ok(Prepared::Answer(Answer::done())),
        Err(error) => return Err(error),
    };
    site.shared.forget_link(site.netns.as_str(), &link.name);
    if matches!(link.kind, LinkKind::Loopback(_)) {
        return link::let_go(site, index, Side::Link, &link.fields).map(Into::into);
    }
    for side in [Side::Link, Side::Port, Side::Up] {
        site.shared.formers.forget(Place::new(&site.space, index, side));
    }
    Ok(Prepared::Remove(index))
}

fn done(result: Result<(), KernelError>) -> Result<Prepared, KernelError> {
    result.map(|()| Prepared::Answer(Answer::done()))
}

/// What kind of item a key is of: its second part.
pub(crate) fn room(key: &Key) -> &str {
    key.as_str().split('/').nth(1).unwrap_or_default()
}

fn typed<'a, V: Value>(key: &Key, value: &'a ValueRef) -> Result<&'a V, Answer> {
    value
        .downcast()
        .ok_or_else(|| OperationError::WrongType { key: key.clone(), kind: room(key).into() }.into())
}

fn unknown(key: &Key) -> Answer {
    OperationError::Unsupported { key: key.clone(), kind: room(key).into(), operation: "change" }.into()
}

fn not_a_change() -> Answer {
    let asked = "retrieve".to_owned();
    OperationError::WrongAnswer { asked, answered: "change".to_owned() }.into()
}
