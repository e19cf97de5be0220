//! The rules for texts with a form of their own, by the name of the format in the schema.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::linux::Mac;
use crate::linux::names::LINK_NAME_MAX;

/// What is wrong with a text: what it must be, and a hint.
pub(crate) struct Refused {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

fn refuse(what: impl Into<String>) -> Result<(), Refused> {
    Err(Refused { what: what.into(), hint: None })
}

fn refuse_with(what: impl Into<String>, hint: impl Into<String>) -> Result<(), Refused> {
    Err(Refused { what: what.into(), hint: Some(hint.into()) })
}

/// What a text of that format is called.
pub(crate) fn noun(format: &str) -> &str {
    match format {
        "link-name" => "the name of a link",
        "alt-name" => "a second name of a link",
        "netns-name" => "the name of a namespace",
        "nft-name" => "a name in nftables",
        "mac" => "a hardware address such as `02:00:00:00:00:01`",
        "ip" => "an IP address",
        "ipv4" => "an IPv4 address",
        "cidr" => "an address with the length of its prefix such as `10.0.0.1/24`",
        "network" => "a network such as `10.0.0.0/24`",
        "sysctl-name" => "a name such as `net.ipv4.ip_forward`",
        "one-line" => "a text of one line",
        "absolute-path" => "an absolute path",
        "qdisc-parent" => "`root`, `ingress` or a class such as `1:10`",
        "qdisc-handle" => "a handle such as `1:`",
        _ => "a text",
    }
}

/// Checks a text against the rule of a format.
pub(crate) fn check(format: &str, text: &str) -> Result<(), Refused> {
    match format {
        "link-name" => link_name(text),
        "alt-name" => name(text, 127, &['/']),
        "netns-name" => netns_name(text),
        "nft-name" => nft_name(text),
        "mac" => text.parse::<Mac>().map(drop).or_else(|_| mac(text)),
        "ip" => match (text.parse::<IpAddr>(), text.split_once('/')) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some((address, _))) if address.parse::<IpAddr>().is_ok() => {
                refuse_with("an IP address without a prefix length", format!("did you mean `{address}`?"))
            }
            (Err(_), _) => refuse(noun(format)),
        },
        "ipv4" => text.parse::<Ipv4Addr>().map(drop).or_else(|_| refuse(noun(format))),
        "cidr" => prefixed(text, noun(format)).map(drop),
        "network" => network(text),
        "sysctl-name" => sysctl_name(text),
        "one-line" if text.chars().any(char::is_control) => refuse("a text of one line"),
        "absolute-path" if !text.starts_with('/') || text.contains('\0') => refuse("an absolute path"),
        "qdisc-parent" if !matches!(text, "root" | "ingress") && !is_class(text, false) => {
            refuse(noun(format))
        }
        "qdisc-handle" if !is_class(text, true) => refuse(noun(format)),
        _ => Ok(()),
    }
}

fn mac(text: &str) -> Result<(), Refused> {
    let with_colons = text.replace('-', ":");
    match with_colons.parse::<Mac>() {
        Ok(mac) => refuse_with(noun("mac"), format!("did you mean `{mac}`?")),
        Err(_) => refuse(noun("mac")),
    }
}

fn link_name(text: &str) -> Result<(), Refused> {
    name(text, LINK_NAME_MAX, &['/', ':', '%'])
}

fn name(text: &str, max: usize, refused: &[char]) -> Result<(), Refused> {
    if text.is_empty() {
        return refuse("a name of at least one letter");
    }
    if text.len() > max {
        return refuse(format!("a name of at most {max} bytes, and this one has {}", text.len()));
    }
    if matches!(text, "." | "..") {
        return refuse("a name other than `.` and `..`");
    }
    match text
        .chars()
        .find(|letter| letter.is_whitespace() || letter.is_control() || refused.contains(letter))
    {
        Some(letter) => refuse(format!("a name without {letter:?}")),
        None => Ok(()),
    }
}

fn netns_name(text: &str) -> Result<(), Refused> {
    name(text, 255, &['/'])
}

fn nft_name(text: &str) -> Result<(), Refused> {
    name(text, 128, &[])?;
    let is_first = text.chars().next().is_some_and(|letter| letter.is_ascii_alphabetic());
    let is_rest = |letter: char| letter.is_ascii_alphanumeric() || "_/.\\-".contains(letter);
    if is_first && text.chars().all(is_rest) && !text.contains('/') {
        Ok(())
    } else {
        refuse("a name that begins with a letter and goes on with letters, digits, `_`, `-` and `.`")
    }
}

/// An address and a length; the error says which of the two is wrong.
fn prefixed(text: &str, noun: &str) -> Result<IpNet, Refused> {
    if let Ok(network) = text.parse::<IpNet>() {
        return Ok(network);
    }
    let refused = |what: String, hint: Option<String>| Err(Refused { what, hint });
    let Some((address, length)) = text.split_once('/') else {
        let hint = text.parse::<IpAddr>().ok().map(|address| {
            let host = if address.is_ipv4() { 32 } else { 128 };
            format!("add the length of the prefix: `{text}/{host}` is this one address")
        });
        return refused(noun.to_owned(), hint);
    };
    match address.parse::<IpAddr>() {
        Ok(address) => {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            refused(format!("an {family} prefix of length 0 to {longest}, and `{length}` is none"), None)
        }
        Err(_) => refused(noun.to_owned(), None),
    }
}

fn network(text: &str) -> Result<(), Refused> {
    if matches!(text, "default" | "any" | "all") {
        return refuse_with(noun("network"), "write `0.0.0.0/0` for all of IPv4, `::/0` for all of IPv6");
    }
    let network = prefixed(text, noun("network"))?;
    if network.trunc() == network {
        return Ok(());
    }
    refuse_with(
        format!("a network, and `{text}` is an address in one"),
        format!("did you mean `{}`?", network.trunc()),
    )
}

fn sysctl_name(text: &str) -> Result<(), Refused> {
    if !text.starts_with("net.") && !text.starts_with("net/") {
        return refuse_with("a name below `net.`", "only those belong to a namespace");
    }
    if text.starts_with("net/") {
        let dotted: String = text.chars().map(|letter| if letter == '/' { '.' } else { letter }).collect();
        return refuse_with("a name with dots", format!("did you mean `{dotted}`?"));
    }
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|letter| letter.is_ascii_graphic())
            && part.split('/').all(|piece| !piece.is_empty() && piece != ".." && piece != ".")
    };
    if text.split('.').all(is_part) { Ok(()) } else { refuse(noun("sysctl-name")) }
}

/// Whether the text is `MAJOR:MINOR`, or `MAJOR:` for a handle.
fn is_class(text: &str, is_handle: bool) -> bool {
    let is_number = |text: &str| {
        !text.is_empty()
            && text.len() <= 4
            && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    text.split_once(':').is_some_and(|(major, minor)| {
        is_number(major) && if is_handle { minor.is_empty() } else { is_number(minor) }
    })
}
