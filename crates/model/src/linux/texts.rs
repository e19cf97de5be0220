//! The schemas of texts with a form of their own. The document knows each `format` by name and says what is wrong
//! with a text; editors use the patterns.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The name of a link.
pub(crate) fn link_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "link-name", "minLength": 1, "maxLength": 15, "pattern": "^[^/:%\\s]+$" })
}

/// A list of names of links.
pub(crate) fn link_names(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": link_name(generator) })
}

/// A second name of a link.
pub(crate) fn alt_names(_: &mut SchemaGenerator) -> Schema {
    let name = json_schema!({ "type": "string", "format": "alt-name", "minLength": 1, "maxLength": 127, "pattern": "^[^/\\s]+$" });
    json_schema!({ "type": "array", "items": name, "uniqueItems": true })
}

/// The name of a namespace.
pub(crate) fn netns_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "netns-name", "minLength": 1, "maxLength": 255, "pattern": "^[^/\\s]+$" })
}

/// The name of an nftables table, chain or set.
pub(crate) fn nft_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "nft-name", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z][A-Za-z0-9_/.\\\\-]*$" })
}

/// A hardware address.
pub(crate) fn mac(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "mac", "pattern": "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$" })
}

/// An address of a host, of either family.
pub(crate) fn ip(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "ip" })
}

/// An IPv4 address of a host.
pub(crate) fn ipv4(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "ipv4" })
}

/// A host address with the length of its prefix: `10.0.0.1/24`.
pub(crate) fn cidr(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "cidr", "pattern": "^[0-9A-Fa-f:.]+/[0-9]+$" })
}

/// A network: an address without host bits, and the length of its prefix: `10.0.0.0/24`.
pub(crate) fn network(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "network", "pattern": "^[0-9A-Fa-f:.]+/[0-9]+$" })
}

/// A list of addresses of hosts.
pub(crate) fn ips(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": ip(generator) })
}

/// A link: by name, or with its namespace.
pub(crate) fn link_ref(generator: &mut SchemaGenerator) -> Schema {
    let long = json_schema!({
        "type": "object",
        "properties": { "name": link_name(generator), "netns": netns_name(generator) },
        "required": ["name"],
        "additionalProperties": false,
    });
    json_schema!({ "anyOf": [link_name(generator), long] })
}

/// A routing table.
pub(crate) fn table(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [
        { "type": "integer", "minimum": 1, "maximum": u32::MAX },
        { "type": "string", "enum": ["main", "local", "default"] },
    ] })
}

/// A dotted sysctl name below `net`.
pub(crate) fn sysctl_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "sysctl-name", "pattern": "^net\\.[^\\s.]+(\\.[^\\s.]+)*$" })
}

/// A sysctl value: a number or a text of one line.
pub(crate) fn sysctl_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer" }, { "type": "string", "format": "one-line" }] })
}

/// Where a qdisc is attached, or its handle.
pub(crate) fn qdisc_parent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "qdisc-parent", "pattern": "^(root|ingress|[0-9a-f]{1,4}:[0-9a-f]{1,4})$" })
}

/// The handle of a qdisc: `1:`.
pub(crate) fn qdisc_handle(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "qdisc-handle", "pattern": "^[0-9a-f]{1,4}:$" })
}

/// A text of one line.
pub(crate) fn one_line(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "one-line" })
}

/// The absolute path of a file.
pub(crate) fn absolute_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "absolute-path", "pattern": "^/" })
}

/// The alias of a link: one line, at most 255 bytes.
pub(crate) fn alias(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "one-line", "minLength": 1, "maxLength": 255 })
}

/// A list of texts of one line.
pub(crate) fn one_lines(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": one_line(generator) })
}
