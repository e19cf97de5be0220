//! Documents become plans: each file is one claim about what the Linux kinds need, derive and change in place.
//!
//! A file begins with the claim; then `== apply` with a document, `== remove KEY…`, `== observe KEY…` (a foreign link,
//! its being up, an address, what it lets reach) or `== forget KEY…`; then what happens, in a world where everything succeeds.
//! `UPDATE_GOLDENFILES=1` writes the last part anew.

use std::path::Path;

use kilter_model::document::{Declared, Source, read};
use kilter_model::kinds::descriptors;
use kilter_model::linux::{Address, Link, LinkAddress, LinkFields, LinkKind, Name, Reach, Up, keys};
use kilter_scheduler::{
    Answer, Change, Key, Observation, Origin, Scheduler, Stage, Timestamp, Txn, ValueRef,
};
use test_each_file::test_each_path;

/// What the kernel would tell about something that nobody declared.
fn foreign(key: &str) -> ValueRef {
    let (netns, link) = keys::netns_and_link(key).expect("the key names a link");
    let link = Name::new(link);
    match key.split('/').nth(1) {
        Some("link") => ValueRef::new(Link {
            name: link,
            netns,
            kind: LinkKind::Foreign { driver: Name::default() },
            fields: LinkFields::default(),
        }),
        Some("up") => ValueRef::new(Up { netns, link, lower: None }),
        Some("address") => {
            let address = Address::new(keys::network_at_the_end(key).expect("the key ends in an address"));
            ValueRef::new(LinkAddress { netns, link, vrf: None, after_up: false, address, read: false })
        }
        Some("reach") => {
            let address = keys::network_at_the_end(key).expect("the key ends in an address");
            ValueRef::new(Reach { netns, link, address })
        }
        _ => panic!("`{key}` is not observed here"),
    }
}

fn observation(key: &str, is_there: bool) -> Observation {
    let value = is_there.then(|| foreign(key));
    Observation { key: Key::new(key), value, facts: None, origin: Origin::Observed }
}

fn txn(command: &str, body: &str) -> Txn {
    let mut words = command.split_whitespace();
    let verb = words.next().unwrap_or_default();
    match verb {
        "apply" => {
            let declared =
                read(&[Source::new("apply", body)]).unwrap_or_else(|problems| panic!("{problems}"));
            Txn::changes(declared.iter().map(Declared::change).collect())
        }
        "remove" => Txn::changes(words.map(Change::remove).collect()),
        "observe" => Txn::notification(words.map(|key| observation(key, true)).collect()),
        "forget" => Txn::notification(words.map(|key| observation(key, false)).collect()),
        _ => panic!("`{verb}` is not a command"),
    }
}

fn run(scheduler: &mut Scheduler, txn: Txn) -> String {
    let now = Timestamp(0);
    scheduler.begin(txn, now);
    scheduler.execute();
    while scheduler.stage() == Stage::Walking {
        for operation in scheduler.ready() {
            scheduler.answer(operation.id, Answer::done(), now);
        }
    }
    let record = scheduler.finish(now);
    let text = kilter_testkit::render::record(&record);
    text.lines().filter(|line| !line.ends_with("(property)")).map(|line| format!("{line}\n")).collect()
}

fn plan(path: &Path) {
    let case = std::fs::read_to_string(path).expect("a case is text");
    let mut scheduler = Scheduler::default();
    for descriptor in descriptors().expect("the patterns are well formed") {
        scheduler.register(descriptor).expect("the kinds do not overlap");
    }
    let (given, expected) = case.split_once("== expected\n").unwrap_or((&case, ""));
    let mut happened = String::new();
    for part in given.split("\n== ").skip(1) {
        let (command, body) = part.split_once('\n').unwrap_or((part, ""));
        happened.push_str(&run(&mut scheduler, txn(command, body)));
    }
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(path, format!("{given}== expected\n{happened}")).expect("the case can be written");
        return;
    }
    assert_eq!(happened, expected, "{}", path.display());
}

test_each_path! { in "./crates/model/tests/plans" as plans => plan }
