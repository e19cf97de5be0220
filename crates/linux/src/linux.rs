//! The southbound as one actuator: it gets the operations of all kinds together, so that one round is one batch.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use kilter_model::linux::NetnsName;
use kilter_scheduler::{Act, Answer, Expected, Key, Retrieved};
use kilter_southbound::{Actuator, Actuators, AddActuatorError, Assignment, Batch};
use tokio::sync::Semaphore;

use crate::act;
use crate::netlink::Refusal;
use crate::netlink::socket::Counts;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::space::{self, locked};
use crate::survey::{self, Survey, Tables};

/// The kinds that are made real here.
pub const KINDS: &[&str] = &[
    "linux.netns",
    "linux.link",
    "linux.existing",
    "linux.up",
    "linux.port",
    "linux.address",
    "linux.unnumbered",
    "linux.reach",
    "linux.route",
    "linux.rule",
    "linux.neighbour",
    "linux.fdb",
    "linux.sysctl",
    "linux.nftables",
    "linux.qdisc",
];

/// How many operations are put in order at once. The deadline of each counts from when its namespace gets its turn.
const AT_ONCE: usize = 8192;

/// From how many namespaces on the removal of links is put off.
const MANY: usize = 4;

/// For how long it is put off.
const MOMENT: Duration = Duration::from_millis(200);

/// Makes the linux kinds real.
///
/// **Guarantees**: what does not carry our mark is never removed. The work runs on threads that may block; the
/// runtime's own are not used for it.
#[derive(Clone, Debug)]
pub struct Linux {
    pub(crate) shared: Arc<Shared>,
    turns: Arc<Semaphore>,
    kept: Arc<Kept>,
}

type Kept = Mutex<ReadSoFar>;

/// As long as the rounds of one resync may take.
const RESYNC: Duration = Duration::from_secs(2);

/// What a resync has read so far, and when it began.
#[derive(Debug, Default)]
struct ReadSoFar {
    /// Which resync; a change counts as the end of one.
    number: u64,
    tables: Option<(Instant, Tables)>,
}

impl ReadSoFar {
    /// Nothing that was read so far counts any more, whoever still has it in hand.
    fn end(&mut self) {
        self.number += 1;
        self.tables = None;
    }

    /// Which resync it is, and what it has read before if it is not its beginning.
    fn take(&mut self, begins: bool) -> (u64, Option<(Instant, Tables)>) {
        if begins {
            self.end();
        }
        (self.number, self.tables.take().filter(|(began, _)| began.elapsed() < RESYNC))
    }

    /// Puts away what was read, unless another resync has begun.
    fn put(&mut self, number: u64, began: Instant, tables: Tables) {
        if self.number == number {
            self.tables = Some((began, tables));
        }
    }
}

impl Linux {
    /// A southbound whose host is the network namespace of the calling thread.
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        let turns = Arc::new(Semaphore::new(settings.concurrency.max(1)));
        Ok(Self { shared: Arc::new(Shared::new(settings)?), turns, kept: Arc::default() })
    }

    /// Adds the actuator of every linux kind.
    pub fn add_to(&self, actuators: &mut Actuators) -> Result<(), AddActuatorError> {
        let actuator: Arc<dyn Actuator> = Arc::new(self.clone());
        for kind in KINDS {
            actuators.add(*kind, Arc::clone(&actuator))?;
        }
        Ok(())
    }

    /// What was asked of the kernel since the start.
    pub fn counts(&self) -> Counts {
        self.shared.spaces.counters().seen()
    }

    /// Runs something on a thread that may block, when its turn comes.
    async fn blocking(&self, work: impl FnOnce(&Shared) + Send + 'static) {
        let _turn = self.turns.acquire().await.expect("nobody closes the semaphore");
        let shared = Arc::clone(&self.shared);
        // A panic there leaves its operations unanswered, and the driver says so.
        let _ = tokio::task::spawn_blocking(move || work(&shared)).await;
    }

    async fn change(&self, batch: Batch) {
        locked(&self.kept).end();
        let busy = Busy::begin(&self.shared);
        self.change_in_turns(batch).await;
        drop(busy);
        if !self.shared.put_off_in().is_empty() {
            self.catch_up_soon();
        }
    }

    async fn change_in_turns(&self, mut batch: Batch) {
        loop {
            let assignments = batch.take_ahead(AT_ONCE);
            if assignments.is_empty() {
                return;
            }
            let mut namespaces: Vec<Vec<Assignment>> = Vec::new();
            let mut inside: BTreeMap<NetnsName, Vec<Assignment>> = BTreeMap::new();
            for assignment in assignments {
                match assignment.key().map(|key| (act::room(key) == "netns", netns_of(key.as_str()))) {
                    Some((false, netns)) => inside.entry(netns).or_default().push(assignment),
                    // Each namespace is a piece of work of its own; they are shared out evenly.
                    Some((true, _)) | None => namespaces.push(vec![assignment]),
                }
            }
            let width = self.shared.spaces.settings().concurrency.max(1);
            let mut shares: Vec<Vec<Assignment>> = (0..width).map(|_| Vec::new()).collect();
            for (at, mut assignment) in namespaces.into_iter().enumerate() {
                shares[at % width].append(&mut assignment);
            }
            let on_namespaces = shares
                .into_iter()
                .filter(|share| !share.is_empty())
                .map(|share| self.blocking(move |shared| act::act_on_namespaces(shared, share)).boxed());
            let put_off = inside.len() > MANY;
            let within = inside.into_iter().map(|(netns, assignments)| {
                self.blocking(move |shared| act::act(shared, &netns, assignments, put_off)).boxed()
            });
            join_all(on_namespaces.chain(within)).await;
        }
    }

    /// Carries out what was put off when the moment is over.
    fn catch_up_soon(&self) {
        let linux = self.clone();
        tokio::spawn(async move {
            // While anything is being changed, the moment is not over.
            loop {
                let seen = linux.shared.changes();
                tokio::time::sleep(MOMENT).await;
                if linux.shared.is_quiet_since(seen) {
                    break;
                }
            }
            linux.blocking(act::catch_up_all).await;
        });
    }

    /// Performs operations that were taken out of a batch: for whoever stands between the driver and this actuator.
    #[doc(hidden)]
    pub async fn attend(&self, assignments: Vec<Assignment>) {
        locked(&self.kept).end();
        for assignment in assignments {
            let is_read = matches!(assignment.act, Act::Retrieve { .. } | Act::RetrieveAll { .. });
            let kept = Arc::clone(&self.kept);
            self.blocking(move |shared| {
                match assignment.key().map(|key| (act::room(key) == "netns", netns_of(key.as_str()))) {
                    _ if is_read => read(shared, &kept, vec![assignment]),
                    Some((false, netns)) => act::act(shared, &netns, vec![assignment], false),
                    Some((true, _)) | None => act::act_on_namespaces(shared, vec![assignment]),
                }
            })
            .await;
        }
    }

    async fn read(&self, mut batch: Batch) {
        let assignments = batch.take_all();
        let Some(assignments) = answer_as_read(&self.shared, &self.kept, assignments) else { return };
        let kept = Arc::clone(&self.kept);
        self.blocking(move |shared| read(shared, &kept, assignments)).await;
    }
}

impl Actuator for Linux {
    fn perform(&self, batch: Batch) -> BoxFuture<'_, ()> {
        if batch.is_read() { self.read(batch).boxed() } else { self.change(batch).boxed() }
    }
}

/// Says that something is being changed, as long as it lives.
struct Busy<'a>(&'a Shared);

impl<'a> Busy<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.begin_change();
        Self(shared)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.end_change();
    }
}

/// In how many namespaces everything is read in one go, and compared without a thread of its own.
const FEW: usize = 64;

/// Answers whether kinds are as they were listed, if all that tells has been read by the resync under way; nothing is asked
/// of the kernel. Gives the assignments back otherwise.
fn answer_as_read(shared: &Shared, kept: &Kept, assignments: Vec<Assignment>) -> Option<Vec<Assignment>> {
    let mut so_far = locked(kept);
    let Some((began, tables)) = &so_far.tables else { return Some(assignments) };
    let is_told = |assignment: &Assignment| {
        matches!(assignment.act, Act::RetrieveAll { since: Some(_), .. })
            && tables.tell_of(room_of(assignment))
    };
    let few = tables.spaces_count() <= FEW && began.elapsed() < RESYNC;
    if !few || !assignments.iter().all(is_told) {
        return Some(assignments);
    }
    let (began, tables) = so_far.tables.take()?;
    let mut survey = Survey::resume(shared, tables);
    let mut answers = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        if let Act::RetrieveAll { since, .. } = &assignment.act {
            let answer = survey.answer(room_of(&assignment), &[], *since).unwrap_or_else(Answer::from);
            answers.push((assignment, answer));
        }
    }
    so_far.tables = Some((began, survey.into_tables()));
    drop(so_far);
    answers.into_iter().for_each(|(assignment, answer)| assignment.answer(answer));
    None
}

/// The second part of the keys of the kind that is read.
fn room_of(assignment: &Assignment) -> &str {
    assignment.kind.strip_prefix("linux.").unwrap_or_default()
}

/// Answers reads: whole kinds out of one survey, single items by their keys.
///
/// **Guarantees**: the last answer comes after what was read is put away, and a resync that has begun since takes nothing
/// of it: whoever hears the answers may change the kernel at once, and finds the change with the next resync.
fn read(shared: &Shared, kept: &Kept, assignments: Vec<Assignment>) {
    act::catch_up_all(shared);
    let is_whole = |assignment: &Assignment| matches!(assignment.act, Act::RetrieveAll { .. });
    // A resync reads kind after kind and begins with the namespaces: what it reads on the way serves all of them.
    let begins = assignments.iter().any(|assignment| is_whole(assignment) && &*assignment.kind == KINDS[0]);
    let (resync, taken) = locked(kept).take(begins);
    let began = taken.as_ref().map_or_else(Instant::now, |(began, _)| *began);
    let mut survey = taken.map(|(_, tables)| Survey::resume(shared, tables));
    let mut last: Option<(Assignment, Answer)> = None;
    let mut together = together(shared, &assignments);
    for assignment in assignments {
        let answer = match &assignment.act {
            Act::Retrieve { key, .. } if together.contains_key(key) => {
                together.remove(key).flatten().map_or(Answer::Absent, Answer::Found)
            }
            Act::Retrieve { key, expected, .. } => match survey::one(shared, key, expected.as_ref()) {
                Ok(found) => found.map_or(Answer::Absent, Answer::Found),
                Err(error) => error.into(),
            },
            Act::RetrieveAll { expected, since } => {
                let room = room_of(&assignment);
                match survey.take().map_or_else(|| Survey::everywhere(shared), Ok) {
                    Ok(opened) => {
                        let answer = survey.insert(opened).answer(room, expected, *since);
                        answer.unwrap_or_else(Answer::from)
                    }
                    Err(error) => error.into(),
                }
            }
            Act::Create { .. } | Act::Update { .. } | Act::Delete { .. } => continue,
        };
        if let Some((assignment, answer)) = last.replace((assignment, answer)) {
            assignment.answer(answer);
        }
    }
    if let Some(survey) = survey {
        let mut tables = survey.into_tables();
        if begins && tables.spaces_count() <= FEW {
            tables.read_ahead(shared);
        }
        locked(kept).put(resync, began, tables);
    }
    if let Some((assignment, answer)) = last {
        assignment.answer(answer);
    }
}

/// From how many items of a kind in a namespace on it is worth reading all of them.
const TOGETHER: usize = 64;

/// Single items that are read together, because there are many of their kind in their namespace; `None` is one that is
/// not there. What cannot be read together is read one by one, and says why.
fn together(shared: &Shared, assignments: &[Assignment]) -> HashMap<Key, Option<Retrieved>> {
    let mut groups: HashMap<(&str, NetnsName), Vec<Expected>> = HashMap::new();
    for assignment in assignments {
        if let Act::Retrieve { key, expected: Some(value), facts } = &assignment.act
            // Of tables of others, a listing does not tell.
            && act::room(key) != "nftables"
        {
            let group = groups.entry((act::room(key), netns_of(key.as_str()))).or_default();
            group.push(Expected { key: key.clone(), value: value.clone(), facts: facts.clone() });
        }
    }
    let mut read = HashMap::new();
    for ((room, netns), expected) in groups {
        let Some(space) = shared.spaces.get(netns.as_str()).ok().filter(|_| expected.len() >= TOGETHER)
        else {
            continue;
        };
        let mut survey = Survey::resume(shared, Tables::of(vec![(netns, space)]));
        let Ok(found) = survey.all(room, &expected) else { continue };
        read.extend(expected.into_iter().map(|expected| (expected.key, None)));
        for found in found {
            if let Some(place) = read.get_mut(&found.key) {
                *place = Some(found);
            }
        }
    }
    read
}

/// The namespace in a key: its third part.
fn netns_of(key: &str) -> NetnsName {
    NetnsName::new(key.split('/').nth(2).unwrap_or(space::HOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_resync_read_is_not_taken_for_what_a_later_one_finds() {
        let mut so_far = ReadSoFar::default();
        let (first, nothing) = so_far.take(true);
        assert!(nothing.is_none());
        let (second, nothing) = so_far.take(true);
        assert!(nothing.is_none());
        so_far.put(first, Instant::now(), Tables::default());
        assert!(so_far.take(false).1.is_none(), "its reader was late");
        so_far.put(second, Instant::now(), Tables::default());
        assert!(so_far.take(false).1.is_some());
        so_far.put(second, Instant::now(), Tables::default());
        so_far.end();
        assert!(so_far.take(false).1.is_none(), "something was changed since");
    }
}
