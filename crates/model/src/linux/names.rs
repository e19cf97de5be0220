//! Names and small texts that many kinds use: namespaces, links, hardware addresses, routing tables.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A short name: of a link, a table, a chain.
pub type Name = CompactString;

/// The longest name of a link, in bytes.
pub const LINK_NAME_MAX: usize = 15;

/// The name of a network namespace; `host` is the one the agent runs in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NetnsName(Name);

impl NetnsName {
    /// The spelling of the namespace the agent runs in.
    pub const HOST: &'static str = "host";

    /// Makes a name; the text is not checked.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(Name::new(name))
    }

    /// The namespace the agent runs in.
    pub fn host() -> Self {
        Self(Name::const_new(Self::HOST))
    }

    /// Whether it is the namespace the agent runs in.
    pub fn is_host(&self) -> bool {
        self.0 == Self::HOST
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for NetnsName {
    fn default() -> Self {
        Self::host()
    }
}

impl fmt::Display for NetnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for NetnsName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// A hardware address of six bytes, written `02:00:00:00:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether the address names a group and not one station.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether all bytes are zero: in a forwarding table, "everything else".
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }
}

/// Why a text is not a hardware address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hardware address")]
pub struct MacError(String);

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let refused = || MacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(refused)?;
            let is_hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = match u8::from_str_radix(part, 16) {
                Ok(byte) if is_hex => byte,
                _ => return Err(refused()),
            };
        }
        if parts.next().is_some() { Err(refused()) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A link named from another item: by name in the same namespace, or with a namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkRef {
    /// The name of the link.
    pub name: Name,
    /// Its namespace; `None` is that of the item that names it.
    pub netns: Option<NetnsName>,
}

impl LinkRef {
    /// A link in the same namespace.
    pub fn here(name: impl AsRef<str>) -> Self {
        Self { name: Name::new(name), netns: None }
    }

    /// A link in a namespace, as seen from an item in `own`.
    pub fn seen_from(own: &NetnsName, netns: &NetnsName, name: impl AsRef<str>) -> Self {
        let netns = (netns != own).then(|| netns.clone());
        Self { name: Name::new(name), netns }
    }

    /// The namespace of the link, for an item in `own`.
    pub fn netns<'a>(&'a self, own: &'a NetnsName) -> &'a NetnsName {
        self.netns.as_ref().unwrap_or(own)
    }

    /// The same reference without a namespace that says nothing.
    pub fn normalise(&mut self, own: &NetnsName) {
        if self.netns.as_ref() == Some(own) {
            self.netns = None;
        }
    }
}

impl Serialize for LinkRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.netns {
            None => self.name.serialize(serializer),
            Some(netns) => {
                LinkRefFields { name: self.name.clone(), netns: Some(netns.clone()) }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct LinkRefFields {
    name: Name,
    #[serde(default)]
    netns: Option<NetnsName>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LinkRefForm {
    Name(Name),
    Fields(LinkRefFields),
}

impl<'de> Deserialize<'de> for LinkRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match LinkRefForm::deserialize(deserializer)? {
            LinkRefForm::Name(name) => Self { name, netns: None },
            LinkRefForm::Fields(LinkRefFields { name, netns }) => Self { name, netns },
        })
    }
}

/// A routing table: a number, or one of the names `main`, `local` and `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub u32);

impl Table {
    /// The table `default`.
    pub const DEFAULT: Self = Self(253);
    /// The table `main`, where routes are unless they say otherwise.
    pub const MAIN: Self = Self(254);
    /// The table `local`, which the kernel fills.
    pub const LOCAL: Self = Self(255);

    /// The name, if the table has one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::DEFAULT => Some("default"),
            Self::MAIN => Some("main"),
            Self::LOCAL => Some("local"),
            Self(_) => None,
        }
    }

    /// The table of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::DEFAULT, Self::MAIN, Self::LOCAL].into_iter().find(|table| table.name() == Some(name))
    }

    /// Whether it is the table `main`.
    pub fn is_main(&self) -> bool {
        *self == Self::MAIN
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::MAIN
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_u32(self.0),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TableForm {
    Number(u32),
    Name(Name),
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match TableForm::deserialize(deserializer)? {
            TableForm::Number(number) => Ok(Self(number)),
            TableForm::Name(name) => {
                Self::named(&name).ok_or_else(|| de::Error::custom(format!("no table is named `{name}`")))
            }
        }
    }
}

/// Gives a type the schema of a text in a format of ours, by the name under which the document checks it.
macro_rules! text_schema {
    ($type:ty, $name:literal, $schema:expr) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                $schema(generator)
            }
        }
    };
}

text_schema!(NetnsName, "NetnsName", super::texts::netns_name);
text_schema!(Mac, "Mac", super::texts::mac);
text_schema!(LinkRef, "LinkRef", super::texts::link_ref);
text_schema!(Table, "Table", super::texts::table);
