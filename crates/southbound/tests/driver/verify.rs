//! What verifying promises.

use kilter_scheduler::{Change, Txn, ValueRef};
use kilter_southbound::{Actuators, Difference, Discrepancy, Settings};

use crate::world::{House, Script, Thing, needing, put, thing};

#[tokio::test(start_paused = true)]
async fn verify_finds_nothing_when_the_world_is_as_believed() {
    let mut house = House::new();
    house.world.script("b/2", Script::Fails("no room"));
    let record = house.run(put(&[("a/1", thing()), ("b/1", needing(&["a/1"])), ("b/2", thing())])).await;
    let verification = house.driver.verify(&house.scheduler, &record).await;
    assert!(verification.is_clean(), "{verification:?}");
    let read: Vec<&str> = verification.read.iter().map(|key| key.as_str()).collect();
    assert_eq!(read, ["a/1", "b/1", "b/2"]);
}

#[tokio::test(start_paused = true)]
async fn verify_reports_what_the_world_lost() {
    let mut house = House::new();
    let record = house.run(put(&[("a/1", thing()), ("a/2", thing())])).await;
    house.world.lock().items.remove("a/2");
    let verification = house.driver.verify(&house.scheduler, &record).await;
    let expected = ValueRef::new(thing());
    let lost = Difference { key: "a/2".into(), kind: Discrepancy::ExpectedToExist { expected } };
    assert_eq!(verification.differences, [lost]);
    assert_eq!(house.state("a/2").0, "CONFIGURED", "verifying changes nothing");
}

#[tokio::test(start_paused = true)]
async fn verify_reports_what_is_not_equivalent() {
    let mut house = House::new();
    let record = house.run(put(&[("a/1", thing()), ("a/2", thing())])).await;
    let remarked = Thing { remark: "makes no difference", ..thing() };
    let grown = Thing { size: 7, ..thing() };
    house.world.lock().items.insert("a/1".into(), remarked);
    house.world.lock().items.insert("a/2".into(), grown.clone());
    let verification = house.driver.verify(&house.scheduler, &record).await;
    let kind = Discrepancy::NotEquivalent { expected: ValueRef::new(thing()), found: ValueRef::new(grown) };
    assert_eq!(verification.differences, [Difference { key: "a/2".into(), kind }]);
}

#[tokio::test(start_paused = true)]
async fn verify_reports_what_should_be_gone() {
    let mut house = House::new();
    house.run(put(&[("a/1", thing())])).await;
    let record = house.run(Txn::changes(vec![Change::remove("a/1")])).await;
    house.world.lock().items.insert("a/1".into(), thing());
    let verification = house.driver.verify(&house.scheduler, &record).await;
    let kind = Discrepancy::ExpectedNotToExist { found: ValueRef::new(thing()) };
    assert_eq!(verification.differences, [Difference { key: "a/1".into(), kind }]);
}

#[tokio::test(start_paused = true)]
async fn verify_says_what_it_could_not_read() {
    let mut house = House::with(Default::default(), Actuators::new(), Settings::default());
    let record = house.run(put(&[("a/1", thing())])).await;
    let verification = house.driver.verify(&house.scheduler, &record).await;
    let unreadable: Vec<(&str, &str)> =
        verification.unreadable.iter().map(|(key, failure)| (key.as_str(), &*failure.message)).collect();
    assert_eq!(unreadable, [("a/1", "kind `a` has no actuator")]);
    assert!(!verification.is_clean());
}
