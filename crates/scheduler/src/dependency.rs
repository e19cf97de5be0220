//! What an item needs: the collector that descriptors write into.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crate::key::Key;

/// A named test on keys, used by [`Needs::any_of`].
///
/// **Assumes** that two predicates with the same name mean the same: dependencies with equal prefixes and equally
/// named predicates share one index entry.
#[derive(Clone)]
pub struct Predicate {
    /// The name, shown to people after the prefix: `containing 10.0.0.1`.
    pub name: Arc<str>,
    test: Arc<dyn Fn(&Key) -> bool + Send + Sync>,
}

impl Predicate {
    /// Names a test.
    pub fn new(name: impl Into<Arc<str>>, test: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        Self { name: name.into(), test: Arc::new(test) }
    }

    /// Whether the key passes.
    pub fn test(&self, key: &Key) -> bool {
        (self.test)(key)
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Predicate({})", self.name)
    }
}

/// For how long a dependency must be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// As long as the item exists: lost, the item is removed and held.
    Exists,
    /// Only for the creation: lost later, the item stays.
    Created,
}

/// Collects what one value needs. Texts are kept in one buffer, so that asking costs no allocation per dependency.
///
/// ```
/// # use kilter_scheduler::{Needs, Predicate};
/// # let (interface, mut needs) = ("eth1", Needs::default());
/// needs.on(format_args!("linux/interface/{interface}"));
/// needs.any_of([format!("linux/address/{interface}/")], None);
/// needs.on("cluster/broker").to_create();
/// needs.absent("linux/host/legacy0");
/// ```
#[derive(Default, Debug)]
pub struct Needs {
    text: String,
    list: Vec<Listed>,
}

#[derive(Debug)]
struct Listed {
    what: ListedWhat,
    until: Until,
}

#[derive(Debug)]
enum ListedWhat {
    On(Range<usize>),
    Absent(Range<usize>),
    AnyOf { prefixes: Vec<String>, matching: Option<Predicate> },
}

/// One dependency, as the graph reads it.
pub(crate) enum Need<'a> {
    On(&'a str),
    Absent(&'a str),
    AnyOf { prefixes: &'a [String], matching: Option<&'a Predicate> },
}

/// The dependency just added; lets the descriptor qualify it.
pub struct Added<'a>(&'a mut Listed);

impl Added<'_> {
    /// Marks the dependency as needed only for the creation: lost later, the item stays.
    pub fn to_create(self) {
        self.0.until = Until::Created;
    }
}

impl Needs {
    /// Needs the item with this key to exist.
    pub fn on(&mut self, key: impl fmt::Display) -> Added<'_> {
        let range = self.write(key);
        self.push(ListedWhat::On(range))
    }

    /// Needs at least one item whose key starts with one of the prefixes (plain text, no segment rule) and passes
    /// the predicate.
    pub fn any_of<P: Into<String>>(
        &mut self,
        prefixes: impl IntoIterator<Item = P>,
        matching: Option<Predicate>,
    ) -> Added<'_> {
        let mut prefixes: Vec<String> = prefixes.into_iter().map(Into::into).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        self.push(ListedWhat::AnyOf { prefixes, matching })
    }

    /// Needs the *observed* item with this key not to exist. A declared item under that key does not count.
    pub fn absent(&mut self, key: impl fmt::Display) -> Added<'_> {
        let range = self.write(key);
        self.push(ListedWhat::Absent(range))
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Need<'_>, Until)> {
        self.list.iter().map(|listed| {
            let need = match &listed.what {
                ListedWhat::On(range) => Need::On(&self.text[range.clone()]),
                ListedWhat::Absent(range) => Need::Absent(&self.text[range.clone()]),
                ListedWhat::AnyOf { prefixes, matching } => {
                    Need::AnyOf { prefixes, matching: matching.as_ref() }
                }
            };
            (need, listed.until)
        })
    }

    fn write(&mut self, key: impl fmt::Display) -> Range<usize> {
        let start = self.text.len();
        write!(self.text, "{key}").expect("writing to a string cannot fail");
        start..self.text.len()
    }

    fn push(&mut self, what: ListedWhat) -> Added<'_> {
        self.list.push(Listed { what, until: Until::Exists });
        Added(self.list.last_mut().expect("an entry was just pushed"))
    }
}
