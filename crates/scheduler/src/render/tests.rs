//! The text of a whole transaction, and what it must survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Serialize, Serializer};

use super::*;
use crate::key::Key;
use crate::record::{Cause, Executed, Marks, Side};
use crate::state::Unmet;

fn json(text: &str) -> ValueRef {
    ValueRef::new(serde_json::from_str::<serde_json::Value>(text).unwrap())
}

fn side(state: State, value: Option<&ValueRef>) -> Side {
    Side { state, value: value.cloned() }
}

fn step_of(action: Action, key: &str, before: Side, after: Side) -> Step {
    Step {
        key: Key::new(key),
        base: None,
        action,
        before,
        after,
        error: None,
        note: None,
        marks: Marks::default(),
    }
}

fn record(arguments: Vec<Argument>, planned: Vec<Step>, executed: Executed) -> Record {
    Record {
        seq: 5,
        txn_type: TxnType::Changes { on_failure: OnFailure::Continue },
        description: "example transaction".to_owned(),
        start: Timestamp(1_548_070_167_794_325_984),
        stop: Timestamp(1_548_070_167_797_588_452),
        arguments,
        ignored: Vec::new(),
        planned: Some(planned),
        executed,
        settled: Vec::new(),
        stirred: Vec::new(),
        outcome: Outcome::Applied,
        failures: Vec::new(),
    }
}

const GOLDEN: &str = "\
+======================================================================================================================+
| Transaction #5                                                                                      declared changes |
+======================================================================================================================+
  * transaction arguments:
      - seq-num: 5
      - type: declared changes
      - Description: example transaction
      - values:
          - key: nat/kubernetes
            value: \"label\":\"default/kubernetes\",\"ports\":[{\"external\":443,\"local\":6443}]
          - key: neighbours
            value: \"mode\":\"IPv4\"
          - key: old
            value: <NIL>
  * planned operations:
      1. CREATE:
          - key: nat/kubernetes
          - value: \"label\":\"default/kubernetes\",\"ports\":[{\"external\":443,\"local\":6443}]
      2. HOLD [DERIVED, IS-PENDING]:
          - key: nat/kubernetes/pool
          - value: <EMPTY>
          - needs: interface/eth1
          - needs: any pool/*
      3. UPDATE [WAS-FAILED]:
          - key: neighbours
          - prev-value: \"mode\":\"IPv6\"
          - new-value: \"mode\":\"IPv4\"
o----------------------------------------------------------------------------------------------------------------------o
  * executed operations (2019-01-21T11:29:27.794325984Z - 2019-01-21T11:29:27.797588452Z, duration = 3.262468ms):
      1. CREATE [RETRY, IS-RETRYING]:
          - key: nat/kubernetes
          - value: \"label\":\"default/kubernetes\",\"ports\":[{\"external\":443,\"local\":6443}]
          - error: pool exhausted\\nask the administrator
  * incomplete: nat/kubernetes: pool exhausted\\nask the administrator
x----------------------------------------------------------------------------------------------------------------------x
x #5                                                                                                          took 3ms x
x----------------------------------------------------------------------------------------------------------------------x
";

#[test]
fn transaction_reads_as_in_the_first_example() {
    let nat = json(r#"{"label":"default/kubernetes","ports":[{"external":443,"local":6443}]}"#);
    let (six, four, empty) = (json(r#"{"mode":"IPv6"}"#), json(r#"{"mode":"IPv4"}"#), json("{}"));
    let nothing = side(State::Nonexistent, None);
    let create =
        step_of(Action::Create, "nat/kubernetes", nothing.clone(), side(State::Configured, Some(&nat)));
    let mut hold =
        step_of(Action::Hold, "nat/kubernetes/pool", nothing.clone(), side(State::Pending, Some(&empty)));
    hold.marks.derived = true;
    let any = Unmet::AnyOf { prefixes: vec!["pool/".to_owned()], matching: None };
    hold.note = Some(Arc::new(Note::Needs(vec![Unmet::On(Key::new("interface/eth1")), any])));
    let (before, after) = (side(State::Failed, Some(&six)), side(State::Configured, Some(&four)));
    let update = step_of(Action::Update, "neighbours", before, after);
    let mut failed = step_of(Action::Create, "nat/kubernetes", nothing, side(State::Retrying, Some(&nat)));
    failed.error = Some("pool exhausted\nask the administrator".into());
    failed.marks.retry = true;
    let cause =
        Cause { key: Key::new("nat/kubernetes"), error: "pool exhausted\nask the administrator".into() };
    let argument =
        |key: &str, value: Option<&ValueRef>| Argument { key: Key::new(key), value: value.cloned() };
    let arguments = vec![
        argument("nat/kubernetes", Some(&nat)),
        argument("neighbours", Some(&four)),
        argument("old", None),
    ];
    let mut record = record(arguments, vec![create, hold, update], Executed::Steps(vec![failed]));
    record.outcome = Outcome::Incomplete(cause.clone());
    record.failures = vec![cause];
    assert_eq!(record.text(), GOLDEN);
    assert_eq!(record.text(), opening(&record.opening()) + &closing(&record));
}

#[test]
fn removal_shows_what_goes_and_both_halves_of_a_recreation_say_so() {
    let (old, new) = (json(r#"{"ring":256}"#), json(r#"{"ring":512}"#));
    let mut down =
        step_of(Action::Delete, "tap/t", side(State::Configured, Some(&old)), side(State::Removed, None));
    down.marks.recreate = true;
    down.note = Some(Arc::new(Note::Recreate("ring 256 → 512".to_owned())));
    let mut up =
        step_of(Action::Create, "tap/t", side(State::Removed, None), side(State::Configured, Some(&new)));
    up.marks.recreate = true;
    let mut text = String::new();
    steps(&mut text, "planned operations", &[down, up]).unwrap();
    let expected = "  * planned operations:
      1. DELETE [RECREATE]:
          - key: tap/t
          - value: \"ring\":256
          - recreated for: ring 256 → 512
      2. CREATE [RECREATE]:
          - key: tap/t
          - value: \"ring\":512\n";
    assert_eq!(text, expected);
}

#[test]
fn text_of_others_stays_on_its_line_and_is_cut_between_characters() {
    for length in [0, 1, LONGEST - 1, LONGEST, LONGEST + 1, LONGEST * 3] {
        for sample in
            ["x", "é", "漢", "🦀", "\n", "\u{85}", "\u{2028}", "\u{202e}", "\u{1b}[2J", "\"", "\\", "\0"]
        {
            let text = sample.repeat(length);
            let named = ValueRef::new(std::collections::BTreeMap::from([(text.clone(), text.clone())]));
            let mut nasty = step_of(
                Action::Update,
                &text,
                side(State::Invalid, Some(&named)),
                side(State::Invalid, Some(&ValueRef::new(text.clone()))),
            );
            nasty.error = Some(text.as_str().into());
            nasty.note = Some(Arc::new(Note::Refused(text.clone())));
            let mut record = record(Vec::new(), vec![nasty], Executed::AsPlanned);
            record.description.clone_from(&text);
            let shown = record.text();
            let lines = if length == 0 { 25 } else { 26 };
            assert_eq!(shown.lines().count(), lines, "{sample:?} {length}\n{shown}");
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
            assert!(shown.lines().all(|line| line.chars().count() < LONGEST + 100));
        }
    }
    let cut = |text: &str| {
        let mut out = String::new();
        line(&mut out, "key", text).unwrap();
        out
    };
    assert_eq!(cut(&"é".repeat(LONGEST)), format!("key: {}\n", "é".repeat(LONGEST)));
    assert_eq!(
        cut(&"é".repeat(LONGEST + 7)),
        format!("key: {}… and 7 more characters\n", "é".repeat(LONGEST))
    );
}

/// A value that counts how often it is rendered.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl PartialEq for Counted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        serializer.serialize_str("counted")
    }
}

/// A sink that counts what it is given.
#[derive(Default)]
struct Meter {
    bytes: usize,
    writes: usize,
}

impl Write for Meter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes += text.len();
        self.writes += 1;
        Ok(())
    }
}

#[test]
fn work_grows_with_the_number_of_steps_and_not_faster() {
    let measure = |count: usize| {
        let rendered = Arc::new(AtomicUsize::new(0));
        let value = ValueRef::new(Counted(Arc::clone(&rendered)));
        let key = |number: usize| format!("a/{number:08}");
        let step = |number| {
            let (before, after) = (side(State::Nonexistent, None), side(State::Configured, Some(&value)));
            step_of(Action::Create, &key(number), before, after)
        };
        let arguments = (0..count).map(|n| Argument { key: Key::new(key(n)), value: Some(value.clone()) });
        let record = record(arguments.collect(), (0..count).map(step).collect(), Executed::AsPlanned);
        let mut meter = Meter::default();
        write_opening(&mut meter, &record.opening()).unwrap();
        write_closing(&mut meter, &record).unwrap();
        let renderings = rendered.load(Ordering::Relaxed);
        assert_eq!(meter.bytes, record.text().len(), "every byte is written once");
        (meter.bytes, meter.writes, renderings)
    };
    let ((bytes, writes, renderings), (more_bytes, more_writes, more_renderings)) =
        (measure(1_000), measure(10_000));
    assert_eq!((renderings, more_renderings), (3_000, 30_000), "a value is rendered where it is shown");
    // The number of a step has one digit more.
    assert!(more_bytes > 9 * bytes && more_bytes < 11 * bytes, "{bytes} {more_bytes}");
    assert!(more_writes > 9 * writes && more_writes < 11 * writes, "{writes} {more_writes}");
}

#[test]
fn moments_are_dates_in_utc() {
    let shown = |seconds: u64| Timestamp(seconds * 1_000_000_000).to_string();
    assert_eq!(shown(0), "1970-01-01T00:00:00.000000000Z");
    assert_eq!(shown(68_169_599), "1972-02-28T23:59:59.000000000Z");
    assert_eq!(shown(68_169_600), "1972-02-29T00:00:00.000000000Z");
    assert_eq!(shown(951_782_400), "2000-02-29T00:00:00.000000000Z");
    assert_eq!(shown(951_868_800), "2000-03-01T00:00:00.000000000Z");
    assert_eq!(shown(4_107_542_399), "2100-02-28T23:59:59.000000000Z");
    assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00.000000000Z");
    assert_eq!(Timestamp(u64::MAX).to_string(), "2554-07-21T23:34:33.709551615Z");
}

#[test]
fn days_follow_one_another() {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut expected = (1970, 1, 1);
    for day in 0..220_000 {
        assert_eq!(civil(day), expected);
        let (year, month, date) = expected;
        let length = match month {
            2 => 28 + u64::from(leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        expected = match (month, date) {
            (12, 31) => (year + 1, 1, 1),
            (_, date) if date == length => (year, month + 1, 1),
            _ => (year, month, date + 1),
        };
    }
}
