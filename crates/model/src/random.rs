//! Random items of every kind, made out of the shapes, and what must hold for all of them.

use kilter_testkit::Dice;
use serde_json::{Map, Value};

use crate::KINDS;
use crate::document::{Source, read};
use crate::export::{document, export, to_json};
use crate::kinds::descriptors;
use crate::shape::{Field, Shape};

fn value(dice: &mut Dice, shape: &Shape) -> Value {
    match shape {
        Shape::Bool => Value::Bool(dice.one_in(2)),
        Shape::Number { min, max } => {
            let span = u64::try_from(max - min).unwrap_or(u64::MAX).saturating_add(1);
            let number = if dice.one_in(3) { *min } else { min + i128::from(dice.number() % span) };
            Value::from(i64::try_from(number).unwrap_or(i64::MAX))
        }
        Shape::Choice(words) => Value::from(dice.pick(words).expect("a choice has words").word.clone()),
        Shape::Text { format, .. } => Value::from(text(dice, format.as_deref().unwrap_or_default())),
        Shape::List { of, .. } => (0..dice.below(4)).map(|_| value(dice, of)).collect(),
        Shape::Fields(fields) => Value::Object(map(dice, fields)),
        Shape::Either(shapes) => {
            let at = dice.below(shapes.len());
            value(dice, &shapes[at])
        }
    }
}

fn map(dice: &mut Dice, fields: &[Field]) -> Map<String, Value> {
    let mut map = Map::new();
    for field in fields {
        if field.required || dice.one_in(4) {
            map.insert(field.name.clone(), value(dice, &field.shape));
        }
    }
    map
}

fn text(dice: &mut Dice, format: &str) -> String {
    let mut one = |texts: &[&str]| (*dice.pick(texts).expect("there are some")).to_owned();
    match format {
        "link-name" => {
            one(&["eth0", "br0", "a", "1", "true", "0x10", "eth0.100", "-", "~", "null", "é", "#x", "lo"])
        }
        "alt-name" => one(&["one", "two:three", "5", "no", "[x]"]),
        "netns-name" => one(&["blue", "host", "1.5", "*x", "yes"]),
        "nft-name" => one(&["t", "my-table", "null"]),
        "mac" => one(&["02:00:00:00:00:01", "01:00:5e:00:00:01", "00:00:00:00:00:00", "12:34:56:78:90:12"]),
        "ip" => one(&["10.0.0.1", "fd00::1", "::1", "239.1.1.1", "fe80::1"]),
        "ipv4" => one(&["10.0.0.255", "0.0.0.0"]),
        "cidr" => one(&["10.0.0.1/24", "fd00::1/64", "192.0.2.1/32", "::1/128"]),
        "network" => one(&["0.0.0.0/0", "::/0", "10.0.0.0/8", "fd00::/8", "192.0.2.0/24"]),
        "sysctl-name" => one(&["net.ipv4.ip_forward", "net.ipv4.conf.eth0/100.forwarding"]),
        "one-line" => {
            one(&["x", "a: b", "- c", "'", "\"", "\\", "é 🦀", " ", "#", "{ }", "1", "%", "\u{2028}"])
        }
        "absolute-path" => one(&["/run/netns/x", "/a b"]),
        "qdisc-parent" => one(&["root", "ingress", "1:10"]),
        "qdisc-handle" => one(&["1:", "ff:"]),
        _ => one(&[
            "",
            "one\ntwo\n",
            "chain a {\n}\n",
            " lead\n",
            "trail \n",
            "\n\n",
            "x\n\n",
            "tab\t\r\n",
            "\u{7f}\u{85}",
            "#",
        ]),
    }
}

/// As many items of each kind as pass the check, with how many were tried.
fn items(tries: u64, mut each: impl FnMut(&str, &str, crate::document::Declared)) {
    for kind in KINDS {
        let mut passed = 0;
        for seed in 0..tries {
            let mut item = map(&mut Dice::new(seed), kind.shape().fields());
            item.insert("kind".to_owned(), Value::from(kind.word));
            let text = Value::Object(item).to_string();
            let Ok(read) = read(&[Source::new("random", text.clone())]) else { continue };
            for declared in read {
                passed += 1;
                each(kind.word, &text, declared);
            }
        }
        assert!(passed > tries / 50, "{}: {passed} of {tries} pass", kind.word);
    }
}

#[test]
fn an_export_reads_back_as_the_same_items_and_exports_as_the_same_text() {
    items(400, |kind, text, declared| {
        let exported = export([(&declared.key, &declared.value)]);
        let again = read(&[Source::new("export", exported.clone())]);
        let again = again.unwrap_or_else(|problems| panic!("{kind}\n{text}\n{exported}\n{problems}"));
        assert_eq!(again.len(), 1, "{kind}\n{text}\n{exported}");
        assert_eq!(again[0].key, declared.key, "{kind}\n{text}\n{exported}");
        assert_eq!(again[0].value, declared.value, "{kind}\n{text}\n{exported}");
        assert_eq!(document(&again[0].value), Some(exported), "{kind}\n{text}");
    });
}

#[test]
fn json_of_an_item_reads_back_as_the_item() {
    items(200, |kind, text, declared| {
        let json = to_json(&declared.value).unwrap().to_string();
        let again = read(&[Source::new("json", json.clone())]);
        let again = again.unwrap_or_else(|problems| panic!("{kind}\n{text}\n{json}\n{problems}"));
        assert_eq!(again[0].value, declared.value, "{kind}\n{text}\n{json}");
    });
}

#[test]
fn what_is_written_down_of_any_value_reads_back_also_of_what_is_derived() {
    items(100, |kind, text, declared| {
        let mut scheduler = kilter_scheduler::Scheduler::default();
        descriptors().unwrap().into_iter().for_each(|one| {
            scheduler.register(one).unwrap();
        });
        let txn = kilter_scheduler::Txn::changes(vec![declared.change()]);
        scheduler.begin(txn, kilter_scheduler::Timestamp(0));
        for step in &scheduler.plan().unwrap().steps {
            let Some(value) = &step.after.value else { continue };
            let again = crate::typed::read_value(&step.key, &value.to_json());
            let again = again.unwrap_or_else(|error| panic!("{kind}\n{text}\n{}: {error:?}", step.key));
            assert_eq!(again.to_json(), value.to_json(), "{kind}\n{text}\n{}", step.key);
        }
    });
    let foreign = serde_json::json!({"name": "eth0", "kind": "foreign", "driver": "", "mtu": 1500});
    let key = kilter_scheduler::Key::new("linux/link/host/eth0");
    assert_eq!(crate::typed::read_value(&key, &foreign).unwrap().to_json(), foreign);
    let table = serde_json::json!({"name": "guard", "text": "chain a {\n}", "digest": "39"});
    let key = kilter_scheduler::Key::new("linux/nftables/host/inet/guard");
    assert_eq!(crate::typed::read_value(&key, &table).unwrap().to_json(), table);
    assert!(crate::typed::read_value(&kilter_scheduler::Key::new("else/x"), &foreign).is_err());
}

#[test]
fn every_key_belongs_to_the_kind_that_knows_its_value() {
    let mut registry = kilter_scheduler::Registry::default();
    crate::kinds::register(&mut registry).unwrap();
    items(100, |kind, text, declared| {
        let owner =
            registry.owner(declared.key.as_str()).unwrap_or_else(|| panic!("{kind}: {}", declared.key));
        let descriptor = registry.descriptor(owner);
        let errors = descriptor.validate(&declared.key, &declared.value);
        assert!(errors.is_empty(), "{kind}\n{text}\n{errors:?}");
        let same = descriptor.transition(&declared.key, &declared.value, &declared.value);
        assert_eq!(same, kilter_scheduler::Transition::Same, "{kind}\n{text}");
    });
}

#[test]
fn all_kinds_register_together() {
    let names: Vec<String> = descriptors().unwrap().iter().map(|one| one.kind().to_owned()).collect();
    assert_eq!(names.len(), 15);
    let mut registry = kilter_scheduler::Registry::default();
    crate::kinds::register(&mut registry).unwrap();
}
