//! The one value type of all test kinds.

use std::fmt;

use kilter_scheduler::ValueRef;
use serde::de::{MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde::{Deserialize, Deserializer};

/// An ordered list of named texts, for example `v=1 item=x item=y`. A name may come more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attrs(Vec<(String, String)>);

impl Attrs {
    /// Reads `name=text` words separated by blanks.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split_whitespace()
            .map(|word| word.split_once('=').ok_or_else(|| format!("`{word}` is not of the form name=text")))
            .collect()
    }

    /// The first text of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, text)| text)
    }

    /// Every text of that name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(other, _)| *other == name).map(|(_, text)| text)
    }

    /// Every name with its text, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Adds at the end.
    pub fn push(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.0.push((name.into(), text.into()));
    }

    /// Replaces every text of that name by this one.
    pub fn set(&mut self, name: &str, text: &str) {
        let at = self.0.iter().position(|(other, _)| other == name).unwrap_or(self.0.len());
        self.0.retain(|(other, _)| other != name);
        self.0.insert(at, (name.to_owned(), text.to_owned()));
    }

    /// The same with the overlay laid over it: texts of these names are added, of any other name they replace.
    #[must_use]
    pub fn merged(&self, overlay: &Self, lists: &[&str]) -> Self {
        let mut merged = self.clone();
        for (name, text) in overlay.iter() {
            if !lists.contains(&name) {
                merged.set(name, text);
            } else if !merged.all(name).any(|other| other == text) {
                let last = merged.0.iter().rposition(|(other, _)| other == name);
                let at = last.map_or(merged.0.len(), |last| last + 1);
                merged.0.insert(at, (name.to_owned(), text.to_owned()));
            }
        }
        merged
    }

    /// The same without the names that do not pass.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        self.iter().filter(|(name, _)| keep(name)).collect()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shares it as a value of the scheduler.
    pub fn to_value(&self) -> ValueRef {
        ValueRef::new(self.clone())
    }

    /// What is inside a value of the scheduler.
    ///
    /// **Assumes** that the value belongs to a test kind.
    pub fn of(value: &ValueRef) -> &Self {
        value.downcast().expect("the values of test kinds are attributes")
    }
}

impl<N: Into<String>, T: Into<String>> FromIterator<(N, T)> for Attrs {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }
}

impl fmt::Display for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, text)) in self.iter().enumerate() {
            write!(f, "{}{name}={text}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl Serialize for Attrs {
    /// As a map; a name that comes more than once has a list of texts.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, (name, text)) in self.iter().enumerate() {
            if self.iter().take(at).any(|(earlier, _)| earlier == name) {
                continue;
            }
            let texts: Vec<&str> = self.all(name).collect();
            if texts.len() == 1 {
                map.serialize_entry(name, text)?;
            } else {
                map.serialize_entry(name, &texts)?;
            }
        }
        map.end()
    }
}

/// One text, or the texts of a name that comes more than once.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for Attrs {
    /// The inverse of its JSON; a name that came more than once comes at one place.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Attrs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Attrs, M::Error> {
                let mut attrs = Attrs::default();
                while let Some((name, texts)) = map.next_entry::<String, Texts>()? {
                    match texts {
                        Texts::One(text) => attrs.push(name, text),
                        Texts::Many(texts) => {
                            texts.into_iter().for_each(|text| attrs.push(name.clone(), text))
                        }
                    }
                }
                Ok(attrs)
            }
        }

        deserializer.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lists_only_what_comes_more_than_once() {
        let attrs = Attrs::parse("v=1 item=x item=y").unwrap();
        assert_eq!(serde_json::to_string(&attrs).unwrap(), r#"{"v":"1","item":["x","y"]}"#);
        assert_eq!(attrs.to_string(), "v=1 item=x item=y");
        assert_eq!(serde_json::from_str::<Attrs>(r#"{"v":"1","item":["x","y"]}"#).unwrap(), attrs);
    }

    #[test]
    fn lists_append_and_other_names_are_replaced() {
        let own = Attrs::parse("v=1 item=x on=b/1").unwrap();
        let merged = own.merged(&Attrs::parse("item=y v=2 item=x new=1").unwrap(), &["item", "on"]);
        assert_eq!(merged.to_string(), "v=2 item=x item=y on=b/1 new=1");
    }

    #[test]
    fn setting_replaces_in_place() {
        let mut attrs = Attrs::parse("a=1 v=1 b=1 v=2").unwrap();
        attrs.set("v", "3");
        assert_eq!(attrs.to_string(), "a=1 v=3 b=1");
        attrs.set("new", "4");
        assert_eq!(attrs.to_string(), "a=1 v=3 b=1 new=4");
    }
}
