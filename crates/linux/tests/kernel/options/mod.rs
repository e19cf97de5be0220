//! Every option that can be declared, one by one: made with it, read back, changed, taken out, and taken back.

mod links;
mod others;

use kilter_scheduler::{Action, Change, Outcome, Record, Txn};

use crate::faults::{Faults, Fuse};
use crate::harness::{House, assert_same, calm, items, knows_users_of, removal, steps, unnumbered_links};

/// Options of one thing.
struct Group<'a> {
    /// What it stands on.
    ground: &'a str,
    /// The thing; `@` is where an option is said.
    item: &'a str,
    /// What shows it.
    show: &'a str,
    options: &'a [Choice],
}

/// An option with two of its values.
struct Choice {
    said: [&'static str; 2],
    /// What is shown then; not shown if it begins with `!`.
    seen: [&'static str; 2],
    /// What it takes to get from one to the other.
    change: Cost,
    /// What it takes to say it where it was not said, and the other way round; `None` if it has to be said.
    taking: Option<[Cost; 2]>,
    /// It is told from its other value when it is read.
    is_told: bool,
}

/// What a change takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// This many requests, on what is there.
    Requests(u64),
    /// It is removed and made again.
    Again,
}

/// An option that can be left out, and that one request changes.
const fn open(said: [&'static str; 2], seen: [&'static str; 2]) -> Choice {
    costing(Cost::Requests(1), Some([Cost::Requests(1); 2]), said, seen)
}

/// An option that can be left out, and for which the thing is made again.
const fn fixed(said: [&'static str; 2], seen: [&'static str; 2]) -> Choice {
    costing(Cost::Again, Some([Cost::Again; 2]), said, seen)
}

/// A time that the kernel counts down: what is left of the longer one may be the shorter one.
const fn fading(said: [&'static str; 2], seen: [&'static str; 2]) -> Choice {
    Choice { is_told: false, ..open(said, seen) }
}

/// An option that has to be said, and that one request changes.
const fn needed(said: [&'static str; 2], seen: [&'static str; 2]) -> Choice {
    costing(Cost::Requests(1), None, said, seen)
}

const fn costing(
    change: Cost,
    taking: Option<[Cost; 2]>,
    said: [&'static str; 2],
    seen: [&'static str; 2],
) -> Choice {
    Choice { said, seen, change, taking, is_told: true }
}

/// Fails after everything else in its transaction.
const LAST: &str = "{kind: rule, priority: 9999, table: 9999}";

/// One option in one house.
struct Trial<'a> {
    group: &'a Group<'a>,
    choice: &'a Choice,
    house: House,
    fuse: std::sync::Arc<Fuse>,
}

impl Trial<'_> {
    fn item(&self, said: Option<usize>) -> String {
        let option = said.map_or_else(String::new, |at| format!(", {}", self.choice.said[at]));
        let item = self.group.item.replace('@', &option);
        if item.starts_with("{, ") { item.replacen("{, ", "{", 1) } else { item }
    }

    fn all(&self, said: Option<usize>) -> String {
        let texts = [self.group.ground, &self.item(said)];
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n---\n")
    }

    /// Everything there is, and how the thing is shown.
    fn look(&self) -> String {
        let all = unnumbered_links(&(self.house.dump() + &calm(&self.shown())));
        all.lines().map(without_bridge_ids).collect()
    }

    fn shown(&self) -> String {
        crate::harness::try_sh(self.group.show).0
    }

    fn assert_seen(&self, at: usize, when: &str) {
        let shown = self.shown();
        let word = self.choice.seen[at];
        let is_seen = match word.strip_prefix('!') {
            Some(word) => !shown.contains(word),
            None => shown.contains(word),
        };
        assert!(is_seen, "{when}: `{}` shall show `{word}`: {shown}", self.item(Some(at)));
    }

    /// Performs a transaction that must do exactly what the change takes.
    fn change(&mut self, said: Option<usize>, cost: Cost, when: &str) {
        let text = self.item(said);
        let changes = items(&text);
        let before = self.house.counts().writes;
        let record = self.house.run(Txn::all_or_nothing(changes));
        let writes = self.house.counts().writes - before;
        assert_eq!(record.outcome, Outcome::Applied, "{when}: `{text}`\n{}", steps(&record));
        self.house.verify(&record);
        self.assert_cost(&record, writes, cost, &format!("{when}: `{text}`"));
    }

    fn assert_cost(&self, record: &Record, writes: u64, cost: Cost, what: &str) {
        let made = record.steps().iter().filter(|step| step.action == Action::Create).count();
        let gone = record.steps().iter().filter(|step| step.action == Action::Delete).count();
        match cost {
            Cost::Requests(count) => assert_eq!(writes, count, "{what}\n{}", steps(record)),
            Cost::Again => assert!(made > 0 && gone > 0, "{what} is not made again:\n{}", steps(record)),
        }
    }

    /// Neither this agent nor a fresh one finds anything to do.
    fn assert_quiet(&mut self, said: Option<usize>, when: &str) {
        let all = self.all(said);
        let writes = self.house.writes(|house| assert_nothing(&house.resync(&all), when));
        assert_eq!(writes, 0, "{when}: a second resync writes for\n{all}");
        let mut fresh = House::over(&self.house.folder);
        let writes = fresh.writes(|fresh| assert_nothing(&fresh.resync(&all), when));
        std::mem::forget(fresh); // its folder is the house's
        assert_eq!(writes, 0, "{when}: a fresh agent writes for\n{all}");
    }

    /// Whichever operation of a change fails, everything is as before; in the end it is changed.
    fn assert_back(&mut self, to: usize) {
        let before = self.look();
        let text = format!("{}\n---\n{LAST}", self.item(Some(to)));
        for at in 0.. {
            self.fuse.light(at);
            let record = self.house.run(Txn::all_or_nothing(items(&text)));
            if record.outcome == Outcome::Applied {
                assert!(at >= 2, "`{text}` takes {at} operations");
                break;
            }
            assert!(
                matches!(record.outcome, Outcome::Reverted(_)),
                "{at}: `{text}`: {:?}\n{}",
                record.outcome,
                steps(&record)
            );
            println!("`{text}`, {at}:\n{}", steps(&record));
            assert_same(&self.look(), &before);
        }
        self.fuse.put_out();
        self.house.commit(removal(&items(LAST)));
    }

    /// What a fresh agent reads differs from the other value by what the change takes, and no less is healed.
    fn assert_told_apart(&mut self) {
        let (first, second) = (self.all(Some(0)), self.all(Some(1)));
        let cost = self.choice.change;
        let mut fresh = House::over(&self.house.folder);
        let before = fresh.counts().writes;
        let record = fresh.resync(&second);
        let writes = fresh.counts().writes - before;
        std::mem::forget(fresh);
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
        self.assert_cost(&record, writes, cost, &format!("a fresh agent makes it `{second}`"));
        self.assert_seen(1, "changed by a fresh agent");
        let before = self.house.counts().writes;
        let record = self.house.resync(&first);
        let writes = self.house.counts().writes - before;
        assert_eq!(record.outcome, Outcome::Applied, "{}", steps(&record));
        self.assert_cost(&record, writes, cost, &format!("a resync makes it `{first}`"));
        self.assert_seen(0, "brought back by a resync");
    }

    fn run(mut self) {
        if !self.group.ground.is_empty() {
            self.house.apply(self.group.ground);
        }
        let nothing = self.look();
        self.house.apply(&self.item(Some(0)));
        self.assert_seen(0, "made with it");
        self.assert_quiet(Some(0), "made with it");
        self.assert_back(1);
        self.assert_seen(1, "changed");
        self.assert_quiet(Some(1), "changed");
        self.change(Some(0), self.choice.change, "changed back");
        self.assert_seen(0, "changed back");
        if self.choice.is_told {
            self.assert_told_apart();
        }
        let gone: Vec<Change> = removal(&items(&self.item(Some(0))));
        self.house.commit(gone.clone());
        assert_same(&self.look(), &nothing);
        let Some([adding, taking]) = self.choice.taking else { return };
        self.house.apply(&self.item(None));
        let without = self.look();
        self.assert_back(0);
        self.assert_seen(0, "said later");
        self.assert_quiet(Some(0), "said later");
        self.change(None, taking, "taken out");
        assert_same(&self.look(), &without);
        self.assert_quiet(None, "taken out");
        self.change(Some(0), adding, "said again");
        self.house.commit(gone);
        assert_same(&self.look(), &nothing);
    }
}

/// A line without the name that a bridge goes by: it has none until it gets a hardware address or a port.
fn without_bridge_ids(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    while let Some(at) = words.iter().position(|word| ["bridge_id", "designated_root"].contains(word)) {
        words.drain(at..words.len().min(at + 2));
    }
    words.join(" ") + "\n"
}

/// A transaction that did nothing.
fn assert_nothing(record: &Record, when: &str) {
    let is_change = |action| matches!(action, Action::Create | Action::Update | Action::Delete);
    let changes = record.steps().iter().filter(|step| is_change(step.action)).count();
    assert_eq!((&record.outcome, changes), (&Outcome::Applied, 0), "{when}:\n{}", steps(record));
}

/// Tries every option of a group, each in a house of its own, and tells of all that are not as they shall be.
fn try_all(group: &Group<'_>) {
    try_all_in(group, |_| {});
}

/// The same in houses that are made ready first.
fn try_all_in(group: &Group<'_>, ready: impl Fn(&House)) {
    let is_wrong = |choice: &&Choice| {
        println!("== {} with {:?}", group.item, choice.said);
        let (house, fuse) = Faults::fused();
        ready(&house);
        let trial = Trial { group, choice, house, fuse };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trial.run())).is_err()
    };
    let can_be = |choice: &&Choice| knows_users_of(choice.said[0]);
    let wrong: Vec<_> =
        group.options.iter().filter(can_be).filter(is_wrong).map(|choice| choice.said).collect();
    assert!(wrong.is_empty(), "{}: {wrong:#?}", group.item);
}
