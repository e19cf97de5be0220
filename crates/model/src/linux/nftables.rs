//! `nftables`: one table, owned whole and replaced at once; its content is nft text, or chains and sets.

use std::fmt::Write as _;

use kilter_scheduler::{FieldError, Key, Kind, Needs, Transition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::error;
use super::keys;
use super::names::{Name, NetnsName};
use crate::declare::Declare;

/// The family of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NftFamily {
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Both.
    #[default]
    Inet,
    /// ARP.
    Arp,
    /// Frames on a bridge.
    Bridge,
    /// Packets on a link, before anything else.
    Netdev,
}

impl NftFamily {
    /// The word that nft uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Inet => "inet",
            Self::Arp => "arp",
            Self::Bridge => "bridge",
            Self::Netdev => "netdev",
        }
    }
}

/// What a base chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainType {
    /// Lets packets pass or not.
    Filter,
    /// Translates addresses.
    Nat,
    /// Changes what routing looks at.
    Route,
}

/// Where a base chain is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainHook {
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After routing.
    Postrouting,
    /// On a link, incoming.
    Ingress,
    /// On a link, outgoing.
    Egress,
}

/// What happens to a packet that no rule decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChainPolicy {
    /// It passes.
    Accept,
    /// It is dropped.
    Drop,
}

/// A chain of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NftChain {
    /// The name.
    #[schemars(schema_with = "crate::linux::texts::nft_name")]
    pub name: Name,
    /// What the chain is for; only with `hook`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub chain_type: Option<ChainType>,
    /// Where the chain is attached; without it, other chains jump to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<ChainHook>,
    /// When the chain is run among those of its hook; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -2_147_483_648, max = 2_147_483_647))]
    pub priority: Option<i32>,
    /// The link of an `ingress` or `egress` hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::linux::texts::link_name")]
    pub link: Option<Name>,
    /// What happens to a packet that no rule decides about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ChainPolicy>,
    /// The rules, in nft's language, one per entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::texts::one_lines")]
    pub rules: Vec<String>,
}

/// A set of elements that rules look up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NftSet {
    /// The name.
    #[schemars(schema_with = "crate::linux::texts::nft_name")]
    pub name: Name,
    /// The type of the elements, in nft's language: `ipv4_addr . inet_service`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "crate::linux::texts::one_line")]
    pub element_type: String,
    /// Flags, in nft's language: `interval`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::texts::one_lines")]
    pub flags: Vec<String>,
    /// The elements, in nft's language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::linux::texts::one_lines")]
    pub elements: Vec<String>,
}

/// An nftables table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Nftables {
    /// The name of the table.
    #[schemars(schema_with = "crate::linux::texts::nft_name")]
    pub name: Name,
    /// The namespace; the agent's own if left out.
    #[serde(default, skip_serializing_if = "NetnsName::is_host")]
    pub netns: NetnsName,
    /// The family; `inet` if left out.
    #[serde(default, skip_serializing_if = "is_inet")]
    pub family: NftFamily,
    /// What stands between the braces of `table FAMILY NAME { … }`, in nft's language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The sets, instead of `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<NftSet>,
    /// The chains, instead of `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<NftChain>,
    /// What the table read back says about itself: the digest that its maker left. Never declared.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub digest: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_inet(family: &NftFamily) -> bool {
    *family == NftFamily::Inet
}

impl Nftables {
    /// What stands between the braces of the table, in nft's language.
    pub fn body(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let mut body = String::new();
        for set in &self.sets {
            set.write(&mut body);
        }
        for chain in &self.chains {
            chain.write(&mut body);
        }
        body
    }

    /// The digest of the content, for the mark on the table: the one its maker left, or that of the body.
    pub fn digest(&self) -> String {
        match &self.digest {
            Some(digest) => digest.clone(),
            None => blake3::hash(self.body().as_bytes()).to_hex()[..32].to_owned(),
        }
    }
}

impl NftSet {
    fn write(&self, body: &mut String) {
        let _ = writeln!(body, "set {} {{\n  type {};", self.name, self.element_type);
        if !self.flags.is_empty() {
            let _ = writeln!(body, "  flags {};", self.flags.join(", "));
        }
        if !self.elements.is_empty() {
            let _ = writeln!(body, "  elements = {{ {} }};", self.elements.join(", "));
        }
        body.push_str("}\n");
    }
}

impl NftChain {
    fn write(&self, body: &mut String) {
        let _ = writeln!(body, "chain {} {{", self.name);
        if let (Some(chain_type), Some(hook)) = (self.chain_type, self.hook) {
            let (chain_type, hook) = (word(&chain_type), word(&hook));
            let device = self.link.as_ref().map_or_else(String::new, |link| format!(" device \"{link}\""));
            let priority = self.priority.unwrap_or(0);
            let _ = write!(body, "  type {chain_type} hook {hook}{device} priority {priority};");
            if let Some(policy) = self.policy {
                let _ = write!(body, " policy {};", word(&policy));
            }
            body.push('\n');
        }
        for rule in &self.rules {
            let _ = writeln!(body, "  {rule}");
        }
        body.push_str("}\n");
    }
}

fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Declare for Nftables {
    const WORD: &'static str = "nftables";
    const ABOUT: &'static str = "An nftables table, owned whole and replaced at once.";

    fn key(&self) -> Key {
        keys::nftables(&self.netns, self.family.word(), &self.name)
    }

    fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let is_structured = !self.sets.is_empty() || !self.chains.is_empty();
        if self.text.is_some() && is_structured {
            errors.push(error("text", "a table is `text`, or `sets` and `chains`, not both"));
        }
        for (path, text) in self.texts() {
            if let Some(what) = unbalanced(text) {
                errors.push(error(path, what));
            }
        }
        let names: Vec<&Name> = self.chains.iter().map(|chain| &chain.name).collect();
        super::compare::twice("chains", &names, &mut errors);
        let names: Vec<&Name> = self.sets.iter().map(|set| &set.name).collect();
        super::compare::twice("sets", &names, &mut errors);
        for (at, chain) in self.chains.iter().enumerate() {
            chain.check(&format!("chains[{at}]"), &mut errors);
        }
        errors
    }
}

impl Nftables {
    /// Every text that nft will read, with its path.
    fn texts(&self) -> Vec<(String, &str)> {
        let mut texts: Vec<(String, &str)> = Vec::new();
        texts.extend(self.text.iter().map(|text| ("text".to_owned(), text.as_str())));
        for (at, chain) in self.chains.iter().enumerate() {
            let path = |rule: usize| format!("chains[{at}].rules[{rule}]");
            texts.extend(chain.rules.iter().enumerate().map(|(rule, text)| (path(rule), text.as_str())));
        }
        for (at, set) in self.sets.iter().enumerate() {
            texts.push((format!("sets[{at}].type"), &set.element_type));
            let path = |one: usize| format!("sets[{at}].elements[{one}]");
            texts.extend(set.elements.iter().enumerate().map(|(one, text)| (path(one), text.as_str())));
        }
        texts
    }
}

impl NftChain {
    fn check(&self, path: &str, errors: &mut Vec<FieldError>) {
        let field = |name: &str| format!("{path}.{name}");
        let of_a_hook = [
            ("type", self.chain_type.is_some()),
            ("priority", self.priority.is_some()),
            ("policy", self.policy.is_some()),
            ("link", self.link.is_some()),
        ];
        let is_on_link = matches!(self.hook, Some(ChainHook::Ingress | ChainHook::Egress));
        match self.hook {
            None => {
                for (name, _) in of_a_hook.iter().filter(|(_, is_said)| *is_said) {
                    errors.push(error(field(name), "is for a chain with a `hook` only"));
                }
            }
            Some(_) => {
                if self.chain_type.is_none() {
                    errors.push(error(field("hook"), "a chain with a `hook` needs `type`"));
                }
                if is_on_link != self.link.is_some() {
                    let (name, what) = if is_on_link {
                        ("hook", "needs `link`")
                    } else {
                        ("link", "is for hooks `ingress` and `egress` only")
                    };
                    errors.push(error(field(name), what));
                }
            }
        }
    }
}

/// What is wrong with the brackets of a text, so that it cannot end the table it stands in.
fn unbalanced(text: &str) -> Option<String> {
    let mut open = 0_usize;
    let mut is_quoted = false;
    let mut is_comment = false;
    for (at, line) in text.lines().enumerate() {
        for letter in line.chars() {
            match letter {
                '"' if !is_comment => is_quoted = !is_quoted,
                '#' if !is_quoted => is_comment = true,
                '{' if !is_quoted && !is_comment => open += 1,
                '}' if !is_quoted && !is_comment => match open.checked_sub(1) {
                    Some(left) => open = left,
                    None => return Some(format!("line {}: `}}` closes nothing", at + 1)),
                },
                _ => {}
            }
        }
        is_comment = false;
    }
    match (open, is_quoted) {
        (0, false) => None,
        (_, true) => Some("a `\"` is not closed".to_owned()),
        (open, false) => Some(format!("{open} `{{` not closed")),
    }
}

/// Describes `linux.nftables`.
pub struct NftablesKind;

impl Kind for NftablesKind {
    type Value = Nftables;
    const NAME: &'static str = "linux.nftables";
    const KEYS: &'static [&'static str] = &["linux/nftables/*/*/*"];

    fn validate(&self, _key: &Key, table: &Nftables) -> Vec<FieldError> {
        table.check()
    }

    /// The namespace, and the links of its `ingress` and `egress` chains.
    fn needs(&self, _key: &Key, table: &Nftables, needs: &mut Needs) {
        keys::need_netns(&table.netns, needs);
        for link in table.chains.iter().filter_map(|chain| chain.link.as_ref()) {
            needs.on(format_args!("linux/link/{}/{link}", table.netns));
        }
    }

    /// The whole table is replaced at once.
    fn transition(&self, _key: &Key, old: &Nftables, new: &Nftables) -> Transition {
        if old.digest() == new.digest() { Transition::Same } else { Transition::InPlace }
    }

    fn reads_after(&self) -> &[&str] {
        &["linux.netns"]
    }
}
