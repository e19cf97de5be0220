//! The fake world itself, without a scheduler.

use kilter_scheduler::{Act, Answer, Facts, Key, Origin};

use super::{Index, World};
use crate::attrs::Attrs;
use crate::kinds;

fn attrs(text: &str) -> Attrs {
    Attrs::parse(text).unwrap()
}

fn create(key: &str, value: &str) -> Act {
    Act::Create { key: Key::new(key), value: attrs(value).to_value() }
}

fn update(key: &str, old: &str, new: &str) -> Act {
    let (old, new) = (attrs(old).to_value(), attrs(new).to_value());
    Act::Update { key: Key::new(key), old, new, facts: None }
}

fn delete(key: &str, value: &str) -> Act {
    Act::Delete { key: Key::new(key), value: attrs(value).to_value(), facts: None }
}

fn perform(world: &mut World, act: &Act) -> Answer {
    let kind = kinds::kind_of(act.key().unwrap()).unwrap();
    world.act(&kind, act)
}

fn world(acts: &[(&str, &str)]) -> World {
    let mut world = World::default();
    for (key, value) in acts {
        perform(&mut world, &create(key, value));
    }
    world
}

fn index(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Done { facts } => Some(facts.as_ref()?.downcast::<Index>()?.0),
        Answer::Found(found) => Some(found.facts.as_ref()?.downcast::<Index>()?.0),
        Answer::Accepted { .. }
        | Answer::Failed(_)
        | Answer::Absent
        | Answer::Listed(_)
        | Answer::ListedAs(..)
        | Answer::AsListed
        | Answer::NotAsListed => None,
    }
}

#[test]
fn an_item_made_again_has_another_index() {
    let mut world = World::default();
    let first = index(&perform(&mut world, &create("a/1", ""))).unwrap();
    perform(&mut world, &delete("a/1", ""));
    let second = index(&perform(&mut world, &create("a/1", ""))).unwrap();
    assert!(second > first);
}

#[test]
fn creating_what_exists_fails_and_deleting_what_is_gone_succeeds() {
    let mut world = world(&[("a/1", "")]);
    assert!(matches!(perform(&mut world, &create("a/1", "")), Answer::Failed(_)));
    world.lose(&Key::new("a/1")).unwrap();
    assert!(matches!(perform(&mut world, &delete("a/1", "")), Answer::Done { .. }));
}

#[test]
fn reading_a_base_tells_which_of_its_items_exist() {
    let mut world = world(&[("w/1", "v=1 item=x:2 item=y"), ("w/1/item/x", "v=2 on=b/1")]);
    assert_eq!(world.readable(&Key::new("w/1")), Some(attrs("v=1 item=x:2 item-x-on=b/1")));
    world.lose(&Key::new("w/1/item/x")).unwrap();
    assert_eq!(world.readable(&Key::new("w/1")), Some(attrs("v=1")));
}

#[test]
fn an_item_may_not_come_before_what_it_needs() {
    let mut world = world(&[]);
    assert_eq!(world.violations(&create("b/1", "on=a/1")).len(), 1);
    assert_eq!(world.violations(&create("b/1", "any-create=a/")).len(), 1);
    perform(&mut world, &create("a/1", ""));
    assert!(world.violations(&create("b/1", "on=a/1 any-create=a/")).is_empty());
}

#[test]
fn an_item_may_not_go_before_what_stands_on_it() {
    let mut world =
        world(&[("a/1", "item=x"), ("a/2", ""), ("b/1", "on=a/1"), ("b/2", "any=a/ on-create=a/1")]);
    assert_eq!(world.violations(&delete("a/1", "item=x")).len(), 1);
    perform(&mut world, &delete("b/1", "on=a/1"));
    assert!(world.violations(&delete("a/1", "item=x")).is_empty());
    perform(&mut world, &create("a/1/item/x", ""));
    assert_eq!(world.violations(&delete("a/1", "item=x")).len(), 1);
}

#[test]
fn the_last_of_many_may_not_go_either() {
    let mut world = world(&[("a/1", ""), ("a/2", ""), ("b/1", "any=a/")]);
    assert!(world.violations(&delete("a/1", "")).is_empty());
    perform(&mut world, &delete("a/1", ""));
    assert_eq!(world.violations(&delete("a/2", "")).len(), 1);
}

#[test]
fn members_of_a_circle_are_excused_among_themselves() {
    let mut world = World::default();
    let declared = [(Key::new("a/1"), attrs("on=a/2")), (Key::new("a/2"), attrs("on=a/1"))];
    world.begin(declared.iter().map(|(key, value)| (key, value)));
    assert!(world.violations(&create("a/1", "on=a/2")).is_empty());
    assert_eq!(world.violations(&create("b/1", "on=a/2")).len(), 1);
    perform(&mut world, &create("a/1", "on=a/2"));
    assert_eq!(world.unmet().len(), 1);
    perform(&mut world, &create("a/2", "on=a/1"));
    assert!(world.unmet().is_empty());
    world.begin([]);
    assert!(world.violations(&delete("a/1", "on=a/2")).is_empty());
    perform(&mut world, &delete("a/1", "on=a/2"));
    assert!(world.violations(&delete("a/2", "on=a/1")).is_empty());
}

#[test]
fn a_property_goes_with_the_update_that_drops_it() {
    let world = world(&[("a/1", "prop=up"), ("b/1", "on=a/1/prop/up")]);
    assert!(world.violations(&update("a/1", "prop=up", "prop=up v=2")).is_empty());
    assert_eq!(world.violations(&update("a/1", "prop=up", "v=2")).len(), 1);
}

#[test]
fn an_update_may_not_need_what_is_not_there() {
    let world = world(&[("b/1", "")]);
    assert_eq!(world.violations(&update("b/1", "", "on=a/1")).len(), 1);
    assert!(world.violations(&update("b/1", "", "on-create=a/1")).is_empty());
}

#[test]
fn an_observation_leaves_what_is_ours_alone() {
    let mut world = world(&[("a/1", "v=1")]);
    world.observe(&Key::new("a/1"), attrs("v=2"));
    world.observe(&Key::new("a/2"), attrs("v=2"));
    assert_eq!(world.get(&Key::new("a/1")).unwrap().value, attrs("v=1"));
    assert_eq!(world.get(&Key::new("a/2")).unwrap().origin, Origin::Observed);
    world.unobserve(&Key::new("a/2"));
    assert_eq!(world.get(&Key::new("a/2")), None);
}

#[test]
#[should_panic(expected = "`a/1` is `v=1`, not `v=2` as the agent says")]
fn a_wrong_old_value_is_a_panic() {
    let world = world(&[("a/1", "v=1")]);
    world.check(&kinds::kind_of(&Key::new("a/1")).unwrap(), &delete("a/1", "v=2"));
}

#[test]
#[should_panic(expected = "the index of `a/1` is Some(1), not Some(7) as the agent says")]
fn wrong_facts_are_a_panic() {
    let world = world(&[("a/1", "v=1")]);
    let value = attrs("v=1").to_value();
    let act = Act::Delete { key: Key::new("a/1"), value, facts: Some(Facts::new(Index(7))) };
    world.check(&kinds::kind_of(&Key::new("a/1")).unwrap(), &act);
}

#[test]
#[should_panic(expected = "delete of `a/1`, which is foreign")]
fn deleting_a_foreign_item_is_a_panic() {
    let mut world = World::default();
    world.observe(&Key::new("a/1"), attrs(""));
    world.tell(&Key::new("a/1"));
    world.check(&kinds::kind_of(&Key::new("a/1")).unwrap(), &delete("a/1", ""));
}
