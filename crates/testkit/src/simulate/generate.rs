//! Generating histories: few keys, so that they meet often.

use kilter_scheduler::{Action, Key};

use super::Command;
use crate::attrs::Attrs;
use crate::dice::Dice;
use crate::world::Effect;

const KINDS: &[&str] = &["a", "b", "c", "w", "late"];
const NAMES: &[&str] = &["one", "two", "three"];
const ITEMS: &[&str] = &["x", "y"];
const HOSTS: &[&str] = &["host/eth", "host/lan"];

/// The history of a seed.
pub fn history(seed: u64) -> Vec<Command> {
    let mut dice = Dice::new(seed);
    // Some histories have no faults at all, and some are small: simple ones find simple mistakes.
    let faults = !dice.one_in(3);
    let longest = if dice.one_in(3) { 8 } else { 28 };
    let length = 4 + dice.below(longest);
    let mut commands = Vec::new();
    while commands.len() < length {
        add(&mut dice, faults, &mut commands);
    }
    commands
}

/// The most commands that bytes stand for: every history is run to its end in a moment.
const MOST: usize = 48;

/// The history that some bytes stand for, whatever they are: each throw of the dice is one of them.
pub fn decode(bytes: &[u8]) -> Vec<Command> {
    let mut dice = Dice::made(bytes);
    let mut commands = Vec::new();
    while !dice.is_used_up() && commands.len() < MOST {
        add(&mut dice, true, &mut commands);
    }
    commands
}

fn add(dice: &mut Dice, faults: bool, commands: &mut Vec<Command>) {
    match dice.below(if faults { 24 } else { 16 }) {
        0..=8 => {
            for _ in 0..=dice.below(4) {
                let key = base(dice);
                commands.push(if dice.one_in(4) {
                    Command::Remove(key)
                } else {
                    Command::Put(key, value(dice))
                });
            }
            let order = dice.one_in(2).then(|| dice.number() % 1000);
            commands.push(Command::Commit { revert: dice.one_in(3), retry: dice.one_in(2), order });
        }
        9 => {
            let key = base(dice);
            commands.push(Command::Put(key, value(dice)));
            commands.push(Command::Plan);
        }
        10 => commands.push(Command::Observe(host(dice), plain(dice))),
        11 => commands.push(Command::Unobserve(host(dice))),
        12 => commands
            .push(Command::Resync(dice.pick(&["full", "upstream", "downstream"]).copied().unwrap_or("full"))),
        13 => {
            let key = any_key(dice);
            commands.push(if dice.one_in(2) {
                Command::Lose(key)
            } else {
                Command::Alter(key, "drift".to_owned())
            });
        }
        14 if dice.one_in(3) => commands.push(Command::Register),
        14 => commands.push(Command::Refresh(base(dice))),
        15 if dice.one_in(3) => commands.push(Command::Restart),
        15 => commands.push(Command::Observe(base(dice), plain(dice))),
        16..=20 => commands.push(Command::Fail {
            action: action(dice),
            key: any_key(dice),
            effect: dice
                .pick(&[Effect::Before, Effect::Before, Effect::After, Effect::Partial])
                .copied()
                .unwrap_or_default(),
            times: u32::try_from(1 + dice.below(2)).unwrap_or(1),
            lasting: dice.one_in(4),
        }),
        21 => commands.push(Command::Accept { action: action(dice), key: any_key(dice) }),
        22 => commands.push(Command::Confirm(any_key(dice))),
        _ => commands.push(Command::Advance(1 + dice.number() % 6)),
    }
}

fn action(dice: &mut Dice) -> Action {
    dice.pick(&[Action::Create, Action::Update, Action::Delete]).copied().unwrap_or(Action::Create)
}

fn base(dice: &mut Dice) -> Key {
    let kind = dice.pick(KINDS).copied().unwrap_or("a");
    let name = dice.pick(NAMES).copied().unwrap_or("one");
    Key::new(format!("{kind}/{name}"))
}

fn host(dice: &mut Dice) -> Key {
    Key::new(dice.pick(HOSTS).copied().unwrap_or("host/eth"))
}

fn any_key(dice: &mut Dice) -> Key {
    let base = base(dice);
    if dice.one_in(3) {
        Key::new(format!("{base}/item/{}", dice.pick(ITEMS).copied().unwrap_or("x")))
    } else {
        base
    }
}

fn plain(dice: &mut Dice) -> Attrs {
    [("v", dice.below(3).to_string())].into_iter().collect()
}

/// Something to depend on.
fn target(dice: &mut Dice) -> Key {
    match dice.below(8) {
        0 | 1 => host(dice),
        2 => Key::new(format!("{}/prop/p", base(dice))),
        _ => any_key(dice),
    }
}

fn prefix(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => "host/".to_owned(),
        1 => format!("{}/item/", base(dice)),
        2 => format!("{}/t", dice.pick(KINDS).copied().unwrap_or("a")),
        3 => format!("{}/~o", dice.pick(KINDS).copied().unwrap_or("a")),
        _ => format!("{}/", dice.pick(KINDS).copied().unwrap_or("a")),
    }
}

fn value(dice: &mut Dice) -> Attrs {
    let mut attrs = plain(dice);
    if dice.one_in(4) {
        attrs.push("fixed", dice.below(2).to_string());
    }
    if dice.one_in(14) {
        attrs.push("invalid", "field");
    }
    for _ in 0..dice.below(3) {
        match dice.below(8) {
            0..=3 => attrs.push("on", target(dice).to_string()),
            4 => attrs.push("any", prefix(dice)),
            5 => attrs.push("absent", host(dice).to_string()),
            6 => attrs.push("on-create", target(dice).to_string()),
            _ => attrs.push("any-create", prefix(dice)),
        }
    }
    for item in ITEMS {
        if dice.one_in(3) {
            attrs.push("item", format!("{item}:{}", dice.below(2)));
            if dice.one_in(3) {
                attrs.push(format!("item-{item}-on"), target(dice).to_string());
            }
            if dice.one_in(6) {
                attrs.push(format!("item-{item}-fixed"), dice.below(2).to_string());
            }
        }
    }
    if dice.one_in(4) {
        attrs.push("prop", "p");
    }
    attrs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_history() {
        assert_eq!(decode(&[]), []);
        let zeros = decode(&[0; 10_000]);
        assert!(zeros.len() >= MOST && zeros.len() < MOST + 8);
        for byte in 0..=u8::MAX {
            assert!(!decode(&[byte; 40]).is_empty());
        }
    }

    #[test]
    fn every_command_can_be_reached() {
        let mut names: Vec<String> = Vec::new();
        for seed in 0..400 {
            let mut dice = Dice::new(seed);
            let bytes: Vec<u8> = (0..60).map(|_| u8::try_from(dice.below(256)).unwrap()).collect();
            names.extend(
                decode(&bytes).iter().filter_map(|command| {
                    command.to_string().split_whitespace().next().map(ToOwned::to_owned)
                }),
            );
        }
        names.sort();
        names.dedup();
        let expected = [
            "accept",
            "advance",
            "alter",
            "commit",
            "confirm",
            "fail",
            "lose",
            "observe",
            "put",
            "refresh",
            "register",
            "remove",
            "restart",
            "resync",
            "unobserve",
        ];
        assert_eq!(names, expected);
    }
}
