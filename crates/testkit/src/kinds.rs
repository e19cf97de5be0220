//! The kinds of the scenarios. All values are [`Attrs`].
//!
//! Kinds of the seeds, as in the examples of the scripts: `host/*`, `af-packet/*` (`host=H` needs it), `tap/*`
//! (`rx-ring=` cannot change in place; `address=A` and `unnumbered=L` are derived), `route/*` (`via=T`), `bd/*`
//! (`interface=T` is derived).
//!
//! Generic kinds `a/*` to `e/*`, `w/*`, `n/*` and `late/*`, with these attributes:
//!
//! | attribute | meaning |
//! |---|---|
//! | `on=KEY`, `any=PREFIX`, `any=PREFIX~ENDING`, `absent=KEY` | what the item needs to exist; may be repeated |
//! | `on-create=KEY`, `any-create=PREFIX` | what it needs only to be created |
//! | `item=X`, `item=X:V` | derives `…/item/X`, with the attribute `v=V` |
//! | `item-X-NAME=TEXT` | gives item `X` the attribute `NAME=TEXT` |
//! | `prop=X`, `prop=X:V` | derives the property `…/prop/X` |
//! | `derives=KEY` | derives any key at all |
//! | `fixed=…` | a change forces a re-creation |
//! | `invalid=FIELD` | the value is refused because of that field |
//! | anything else, such as `v=…` | changes in place |
//!
//! `w` differs from `a`: its items are read with their base, and adding or dropping one is no update of the base.
//! `n` cannot be read. `late` is registered when a script says so.

use kilter_scheduler::{
    Derived, Descriptor, FieldError, Key, KeyPattern, Needs, Reads, Transition, ValueRef,
};

use crate::attrs::Attrs;
use crate::needs::{Dependency, Need};

/// A kind of the scenarios.
#[derive(Clone, Copy, Debug)]
pub struct TestKind {
    name: &'static str,
    keys: &'static str,
    shape: Shape,
    reads: Reads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing special.
    Plain,
    AfPacket,
    Tap,
    Unnumbered,
    Route,
    Bd,
    BdInterface,
    Generic,
    /// Generic, and its items are none of the base's business.
    WithItems,
    Item,
}

const fn kind(name: &'static str, keys: &'static str, shape: Shape, reads: Reads) -> TestKind {
    TestKind { name, keys, shape, reads }
}

/// The kinds that every scenario starts with.
pub const KINDS: &[TestKind] = &[
    kind("seed.host", "host/*", Shape::Plain, Reads::Itself),
    kind("seed.af-packet", "af-packet/*", Shape::AfPacket, Reads::Itself),
    kind("seed.tap", "tap/*", Shape::Tap, Reads::Itself),
    kind("seed.tap-address", "tap/*/address/**", Shape::Plain, Reads::Itself),
    kind("seed.tap-unnumbered", "tap/*/unnumbered", Shape::Unnumbered, Reads::Itself),
    kind("seed.route", "route/*", Shape::Route, Reads::Itself),
    kind("seed.bd", "bd/*", Shape::Bd, Reads::Itself),
    kind("seed.bd-interface", "bd/*/interface/*", Shape::BdInterface, Reads::Itself),
    kind("test.a", "a/*", Shape::Generic, Reads::Itself),
    kind("test.a-item", "a/*/item/*", Shape::Item, Reads::Itself),
    kind("test.b", "b/*", Shape::Generic, Reads::Itself),
    kind("test.b-item", "b/*/item/*", Shape::Item, Reads::Itself),
    kind("test.c", "c/*", Shape::Generic, Reads::Itself),
    kind("test.c-item", "c/*/item/*", Shape::Item, Reads::Itself),
    kind("test.d", "d/*", Shape::Generic, Reads::Itself),
    kind("test.d-item", "d/*/item/*", Shape::Item, Reads::Itself),
    kind("test.e", "e/*", Shape::Generic, Reads::Itself),
    kind("test.e-item", "e/*/item/*", Shape::Item, Reads::Itself),
    kind("test.n", "n/*", Shape::Generic, Reads::Never),
    kind("test.n-item", "n/*/item/*", Shape::Item, Reads::Never),
    kind("test.w", "w/*", Shape::WithItems, Reads::Itself),
    kind("test.w-item", "w/*/item/*", Shape::Item, Reads::WithBase),
];

/// The kinds that a script registers with `register late`.
pub const LATE_KINDS: &[TestKind] = &[
    kind("test.late", "late/*", Shape::Generic, Reads::Itself),
    kind("test.late-item", "late/*/item/*", Shape::Item, Reads::Itself),
];

/// The attributes that may be repeated: an overlay adds to them.
const LISTS: &[&str] =
    &["on", "any", "absent", "on-create", "any-create", "item", "prop", "derives", "address", "interface"];

/// The test kind that owns the key, registered or not.
pub fn kind_of(key: &Key) -> Option<TestKind> {
    KINDS.iter().chain(LATE_KINDS).find(|kind| kind.pattern().matches(key.as_str())).copied()
}

/// The base item of a derived item of a test kind; `None` for a base item. Does not know about `derives=KEY`.
pub fn base_of(key: &Key) -> Option<Key> {
    let mut slashes = key.as_str().match_indices('/').map(|(at, _)| at);
    slashes.nth(1).map(|end| Key::new(&key.as_str()[..end]))
}

impl TestKind {
    /// The name of the kind.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How the actual state is learnt.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// The keys that belong to the kind.
    pub fn pattern(&self) -> KeyPattern {
        KeyPattern::parse(self.keys).expect("the patterns of the test kinds are well formed")
    }

    /// The descriptor, to be registered.
    pub fn descriptor(&self) -> Box<dyn Descriptor> {
        Box::new(*self)
    }

    /// What the value needs.
    pub fn dependencies(&self, attrs: &Attrs) -> Vec<Dependency> {
        let on = |key: String| Dependency::to_exist(Need::On(Key::new(key)));
        match self.shape {
            Shape::Plain | Shape::Tap | Shape::Bd => Vec::new(),
            Shape::AfPacket => attrs.all("host").map(|host| on(format!("host/{host}"))).collect(),
            Shape::Route => attrs.all("via").map(|tap| on(format!("tap/{tap}"))).collect(),
            Shape::BdInterface => attrs.all("interface").map(|tap| on(format!("tap/{tap}"))).collect(),
            Shape::Unnumbered => attrs
                .all("lender")
                .map(|tap| Dependency::to_exist(Need::any(&format!("tap/{tap}/address/"))))
                .collect(),
            Shape::Generic | Shape::WithItems | Shape::Item => attrs
                .iter()
                .filter_map(|(name, text)| match name {
                    "on" => Some(Dependency::to_exist(Need::On(Key::new(text)))),
                    "on-create" => Some(Dependency::to_create(Need::On(Key::new(text)))),
                    "any" => Some(Dependency::to_exist(Need::any(text))),
                    "any-create" => Some(Dependency::to_create(Need::any(text))),
                    "absent" => Some(Dependency::to_exist(Need::Absent(Key::new(text)))),
                    _ => None,
                })
                .collect(),
        }
    }

    /// What the value derives.
    pub fn derived(&self, key: &Key, attrs: &Attrs) -> Vec<(Key, Attrs)> {
        let named = |name: &str, text: &str| Attrs::from_iter([(name, text)]);
        match self.shape {
            Shape::Plain
            | Shape::AfPacket
            | Shape::Route
            | Shape::BdInterface
            | Shape::Unnumbered
            | Shape::Item => Vec::new(),
            Shape::Tap => attrs
                .iter()
                .filter_map(|(name, text)| match name {
                    "address" => Some((Key::new(format!("{key}/address/{text}")), Attrs::default())),
                    "unnumbered" => Some((Key::new(format!("{key}/unnumbered")), named("lender", text))),
                    _ => None,
                })
                .collect(),
            Shape::Bd => attrs
                .all("interface")
                .map(|tap| (Key::new(format!("{key}/interface/{tap}")), named("interface", tap)))
                .collect(),
            Shape::Generic | Shape::WithItems => attrs
                .iter()
                .filter_map(|(name, text)| match name {
                    "item" => {
                        let (item, value) = item(text, attrs);
                        Some((Key::new(format!("{key}/item/{item}")), value))
                    }
                    "prop" => {
                        let (item, value) = text.split_once(':').unwrap_or((text, ""));
                        let value = if value.is_empty() { Attrs::default() } else { named("v", value) };
                        Some((Key::new(format!("{key}/prop/{item}")), value))
                    }
                    "derives" => Some((Key::new(text), Attrs::default())),
                    _ => None,
                })
                .collect(),
        }
    }

    /// What an operation on the item itself is about: its value without what only its derived items care for.
    pub fn own(&self, attrs: &Attrs) -> Attrs {
        match self.shape {
            Shape::Tap => attrs.filtered(|name| name != "address" && name != "unnumbered"),
            Shape::Bd => attrs.filtered(|name| name != "interface"),
            Shape::WithItems => attrs.filtered(|name| name != "item" && !name.starts_with("item-")),
            Shape::Plain
            | Shape::AfPacket
            | Shape::Route
            | Shape::BdInterface
            | Shape::Unnumbered
            | Shape::Generic
            | Shape::Item => attrs.clone(),
        }
    }

    /// Whether the two values mean the same for the item itself.
    pub fn same(&self, a: &Attrs, b: &Attrs) -> bool {
        self.own(a) == self.own(b)
    }

    /// The attribute that cannot change in place.
    fn fixed(&self) -> &'static str {
        if self.shape == Shape::Tap { "rx-ring" } else { "fixed" }
    }
}

/// The name and the value of an item out of `X` or `X:V`.
fn item<'a>(text: &'a str, base: &Attrs) -> (&'a str, Attrs) {
    let (name, v) = match text.split_once(':') {
        Some((name, v)) => (name, Some(v)),
        None => (text, None),
    };
    let prefix = format!("item-{name}-");
    let own = base.iter().filter_map(|(name, text)| Some((name.strip_prefix(&prefix)?, text)));
    (name, v.map(|v| ("v", v)).into_iter().chain(own).collect())
}

/// The attributes of a base that give it this item: the inverse of deriving.
pub fn item_attrs(name: &str, value: &Attrs) -> Attrs {
    let head = match value.get("v") {
        Some(v) => format!("{name}:{v}"),
        None => name.to_owned(),
    };
    let rest = value.iter().filter(|(attr, _)| *attr != "v");
    let rest = rest.map(|(attr, text)| (format!("item-{name}-{attr}"), text.to_owned()));
    std::iter::once(("item".to_owned(), head)).chain(rest).collect()
}

impl Descriptor for TestKind {
    fn kind(&self) -> &str {
        self.name
    }

    fn keys(&self) -> Vec<KeyPattern> {
        vec![self.pattern()]
    }

    fn validate(&self, _key: &Key, value: &ValueRef) -> Vec<FieldError> {
        let error = |path: &str| FieldError { path: path.to_owned(), message: "is not allowed".to_owned() };
        Attrs::of(value).all("invalid").map(error).collect()
    }

    fn needs(&self, _key: &Key, value: &ValueRef, needs: &mut Needs) {
        for dependency in self.dependencies(Attrs::of(value)) {
            dependency.tell(needs);
        }
    }

    fn derive(&self, key: &Key, value: &ValueRef, derived: &mut Derived) {
        for (key, attrs) in self.derived(key, Attrs::of(value)) {
            derived.item(key, attrs);
        }
    }

    fn transition(&self, _key: &Key, old: &ValueRef, new: &ValueRef) -> Transition {
        let (old, new) = (self.own(Attrs::of(old)), self.own(Attrs::of(new)));
        let name = self.fixed();
        match (old.get(name), new.get(name)) {
            (before, after) if before != after => {
                let (before, after) = (before.unwrap_or("none"), after.unwrap_or("none"));
                Transition::Recreate { reason: format!("{name} {before} → {after}") }
            }
            _ if old == new => Transition::Same,
            _ => Transition::InPlace,
        }
    }

    fn merge(&self, _key: &Key, value: &ValueRef, overlay: &ValueRef) -> ValueRef {
        Attrs::of(value).merged(Attrs::of(overlay), LISTS).to_value()
    }

    fn reads(&self) -> Reads {
        self.reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attrs(text: &str) -> Attrs {
        Attrs::parse(text).unwrap()
    }

    fn of(key: &str) -> TestKind {
        kind_of(&Key::new(key)).unwrap()
    }

    #[test]
    fn patterns_do_not_overlap() {
        let all: Vec<_> = KINDS.iter().chain(LATE_KINDS).collect();
        for (at, kind) in all.iter().enumerate() {
            for other in &all[..at] {
                assert!(!kind.pattern().overlaps(&other.pattern()), "{} and {}", kind.name, other.name);
            }
        }
    }

    #[test]
    fn items_carry_their_own_attributes() {
        let base = attrs("v=1 item=x:2 item-x-on=b/1 item=y");
        let derived = of("a/1").derived(&Key::new("a/1"), &base);
        let expected = [(Key::new("a/1/item/x"), attrs("v=2 on=b/1")), (Key::new("a/1/item/y"), attrs(""))];
        assert_eq!(derived, expected);
        assert_eq!(item_attrs("x", &derived[0].1), attrs("item=x:2 item-x-on=b/1"));
        assert_eq!(base_of(&derived[0].0), Some(Key::new("a/1")));
        assert_eq!(base_of(&Key::new("a/1")), None);
    }

    #[test]
    fn derived_attributes_of_a_tap_are_not_its_own() {
        let tap = of("tap/t");
        let change = |old: &str, new: &str| {
            tap.transition(&Key::new("tap/t"), &attrs(old).to_value(), &attrs(new).to_value())
        };
        assert_eq!(change("address=1", "address=2"), Transition::Same);
        assert_eq!(change("mtu=1", "mtu=2"), Transition::InPlace);
        let reason = "rx-ring 256 → 512".to_owned();
        assert_eq!(change("rx-ring=256", "rx-ring=512"), Transition::Recreate { reason });
    }
}
