//! nftables: one table, owned whole and replaced at once.
//!
//! The table is written by `nft`, in one transaction of the kernel; its comment is our mark, with the digest of what was
//! declared. Which tables there are is read over netlink. What a table contains is listed by `nft` and compared with how
//! it was listed after we wrote it: the kernel has no digest of its own.

use std::io::Write as _;
use std::process::{Command, Stdio};

use kilter_model::linux::nftables::{NftFamily, Nftables};
use kilter_model::linux::{Name, NetnsName};
use rustix::io::Errno;

use crate::mark::NFTABLES_MARK;
use crate::netlink::message::u16_at;
use crate::netlink::{Attributes, KernelError, Message, Received, Refusal};
use crate::shared::Shared;
use crate::space::Space;
use crate::syscall::end_with_us;

/// The family of these messages among those of packet filters.
const FILTERS: u16 = 10;
const GETTABLE: u16 = (FILTERS << 8) | 1;
const NEWTABLE: u16 = FILTERS << 8;
const DELTABLE: u16 = (FILTERS << 8) | 2;
const NEWGEN: u16 = (FILTERS << 8) | 15;
const GETGEN: u16 = (FILTERS << 8) | 16;
const GEN_ID: u16 = 1;
const TABLE_NAME: u16 = 1;
const TABLE_USERDATA: u16 = 6;
const USERDATA_COMMENT: u8 = 0;

/// The digest of a table that somebody else has changed, or made.
const CHANGED: &str = "changed";

const FAMILIES: &[(u8, NftFamily)] = &[
    (1, NftFamily::Inet),
    (2, NftFamily::Ip),
    (3, NftFamily::Arp),
    (5, NftFamily::Netdev),
    (7, NftFamily::Bridge),
    (10, NftFamily::Ip6),
];

/// A table as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) family: NftFamily,
    pub(crate) name: Name,
    /// The digest that its maker left, if it is ours.
    pub(crate) digest: Option<String>,
}

/// Reads the message of a table.
pub(crate) fn decode(received: &Received<'_>) -> Option<Seen> {
    if received.kind != NEWTABLE {
        return None;
    }
    let number = *received.payload.first()?;
    let (_, family) = FAMILIES.iter().find(|(other, _)| *other == number)?;
    let attributes = Attributes::after(received.payload, 4);
    let name = Name::from(attributes.get(TABLE_NAME)?.as_text());
    let comment = attributes.get(TABLE_USERDATA).and_then(|data| comment(data.payload));
    let digest = comment.and_then(|comment| comment.strip_prefix(NFTABLES_MARK).map(str::to_owned));
    Some(Seen { family: *family, name, digest })
}

/// The comment in what a user attached to a table: records of type, length and content.
fn comment(mut records: &[u8]) -> Option<String> {
    while let Some((kind, length)) = u16_at(records, 0).map(|_| (records[0], usize::from(records[1]))) {
        let content = records.get(2..2 + length)?;
        if kind == USERDATA_COMMENT {
            let end = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
            return Some(String::from_utf8_lossy(&content[..end]).into_owned());
        }
        records = &records[2 + length..];
    }
    None
}

/// What one message about packet filters says: a commit is told as everything that it touched, then its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Something in a table was added, changed or removed.
    Touched(NftFamily, Name),
    /// The table went.
    Removed(NftFamily, Name),
    /// What was told so far belongs to this generation.
    Generation(u32),
}

/// Reads a message about a change of packet filters. In all of them the first attribute names the table.
pub(crate) fn decode_told(received: &Received<'_>) -> Option<Told> {
    if received.kind >> 8 != FILTERS {
        return None;
    }
    let attributes = Attributes::after(received.payload, 4);
    if received.kind == NEWGEN {
        return generation_in(attributes).map(Told::Generation);
    }
    let number = *received.payload.first()?;
    let (_, family) = FAMILIES.iter().find(|(other, _)| *other == number)?;
    let name = Name::from(attributes.get(TABLE_NAME)?.as_text());
    Some(if received.kind == DELTABLE { Told::Removed(*family, name) } else { Told::Touched(*family, name) })
}

fn generation_in(attributes: Attributes<'_>) -> Option<u32> {
    attributes.get(GEN_ID)?.as_u32().map(u32::from_be)
}

/// The present generation of the packet filters of a namespace.
fn generation(shared: &Shared, space: &Space) -> Result<u32, KernelError> {
    let read = space.of_filters(shared.spaces.counters(), |requests| {
        let request = Message::new(GETGEN, 0).body(&[0; 4]);
        requests.read(&request, |received| generation_in(Attributes::after(received.payload, 4)))
    });
    let refused = |refusal| KernelError::refused("read nftables generation", &space.name, refusal);
    let missing = || Refusal::of(Errno::OPNOTSUPP);
    read.and_then(|read| read.ok_or_else(missing)).map_err(refused)
}

/// Every table of the namespace.
pub(crate) fn tables(shared: &Shared, space: &Space) -> Result<Vec<Seen>, KernelError> {
    let read = space.of_filters(shared.spaces.counters(), |requests| {
        let request = Message::new(GETTABLE, 0).body(&[0; 4]);
        requests.dump(&request, Vec::new, |tables, received| tables.extend(decode(received)))
    });
    match read {
        // A kernel without nftables has no tables.
        Err(refusal) if refusal.is_unsupported() || refusal.is(Errno::INVAL) => Ok(Vec::new()),
        read => read.map_err(|refusal| KernelError::refused("list nftables", &space.name, refusal)),
    }
}

/// The table as an item: what it contains, and whether that is what its maker left.
pub(crate) fn item(
    shared: &Shared,
    space: &Space,
    netns: &NetnsName,
    seen: &Seen,
) -> Result<Option<Nftables>, KernelError> {
    let mut table = Nftables {
        name: seen.name.clone(),
        netns: netns.clone(),
        family: seen.family,
        text: None,
        sets: Vec::new(),
        chains: Vec::new(),
        digest: Some(seen.digest.clone().unwrap_or_else(|| CHANGED.to_owned())),
    };
    let Some(listed) = list(space, seen.family, &seen.name)? else { return Ok(None) };
    match shared.table(&space.name, seen.family.word(), &seen.name) {
        Some(written) if written != listed => table.digest = Some(CHANGED.to_owned()),
        // What an earlier run left is trusted as it is found, and from here on compared.
        None if seen.digest.is_some() => {
            shared.remember_table(&space.name, seen.family.word(), &seen.name, listed.clone());
        }
        Some(_) | None => {}
    }
    table.text = Some(listed);
    Ok(Some(table))
}

/// What stands between the braces of a table, without our mark; `None` if the table is gone.
fn list(space: &Space, family: NftFamily, name: &str) -> Result<Option<String>, KernelError> {
    let output = run(space, &["-s", "list", "table", family.word(), name], "", "list nftables", name);
    let text = match output {
        Ok(text) => text,
        Err(KernelError::Program { message, .. }) if message.contains("No such file") => return Ok(None),
        Err(error) => return Err(error),
    };
    let inner =
        text.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inner, _)| inner);
    let lines = inner.lines().filter(|line| !line.trim_start().starts_with("comment \"kilter "));
    Ok(Some(lines.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()))
}

/// Writes a table: all of it, at once, in the place of what it was.
pub(crate) fn put(shared: &Shared, space: &Space, table: &Nftables) -> Result<(), KernelError> {
    let (family, name) = (table.family.word(), &table.name);
    refuse_foreign(shared, space, table, "it would have to be replaced")?;
    let digest = Nftables { digest: None, ..table.clone() }.digest();
    let script = format!(
        "table {family} {name}\ndelete table {family} {name}\n\
         table {family} {name} {{\n\tcomment \"{NFTABLES_MARK}{digest}\"\n{}\n}}\n",
        table.body()
    );
    let own = generation(shared, space)?.wrapping_add(1);
    shared.expect_generation(&space.name, own);
    shared.spaces.counters().wrote();
    let written = run(space, &["-f", "-"], &script, "write nftables table", name);
    if written.is_err() || generation(shared, space)? != own {
        // Nothing was written, or somebody else wrote too: whose the generation is, is not certain.
        shared.take_generation(&space.name, own);
    }
    written?;
    if let Some(listed) = list(space, table.family, name)? {
        shared.remember_table(&space.name, family, name, listed);
    }
    Ok(())
}

/// Removes a table of ours.
pub(crate) fn delete(shared: &Shared, space: &Space, table: &Nftables) -> Result<(), KernelError> {
    let (family, name) = (table.family.word(), &table.name);
    if !refuse_foreign(shared, space, table, "it would have to be removed")? {
        return Ok(());
    }
    // Forgotten first: whatever is heard of it from here on is not drift.
    shared.forget_table(&space.name, family, name);
    shared.spaces.counters().wrote();
    let script = format!("delete table {family} {name}\n");
    run(space, &["-f", "-"], &script, "remove nftables table", name).map(|_| ())
}

/// Whether the table is there; one that is not ours is an error.
fn refuse_foreign(
    shared: &Shared,
    space: &Space,
    table: &Nftables,
    reason: &str,
) -> Result<bool, KernelError> {
    let tables = tables(shared, space)?;
    let found = tables.iter().find(|seen| seen.family == table.family && seen.name == table.name);
    match found {
        Some(Seen { digest: None, .. }) => {
            let subject = format!("table {} {}", table.family.word(), table.name);
            Err(KernelError::Foreign { subject, reason: reason.to_owned() })
        }
        found => Ok(found.is_some()),
    }
}

/// Runs `nft` inside the namespace.
fn run(
    space: &Space,
    arguments: &[&str],
    script: &str,
    operation: &'static str,
    subject: &str,
) -> Result<String, KernelError> {
    let failed = |message: String| KernelError::Program { operation, subject: subject.to_owned(), message };
    let ran = space.inside(|| -> std::io::Result<std::process::Output> {
        let mut child = end_with_us(&mut Command::new("nft"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read on has said why.
            let _ = stdin.write_all(script.as_bytes());
        }
        child.wait_with_output()
    });
    let output = match ran.map_err(|refusal| failed(refusal.to_string()))? {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(failed(
                "the program `nft` is missing, hint: install the package `nftables`".to_owned(),
            ));
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(said))
}
