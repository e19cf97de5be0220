//! Kernel parameters: files that show the namespace of the thread that opens them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use kilter_model::linux::{NetnsName, Sysctl};

use crate::netlink::{KernelError, Refusal};
use crate::shared::Shared;
use crate::space::{Space, locked};

/// The parameters that have the value that was declared, to be looked at now and then: of most of them the kernel does not
/// tell when somebody changes them.
#[derive(Debug, Default)]
pub(crate) struct Declared(Mutex<BTreeMap<NetnsName, BTreeMap<String, String>>>);

impl Declared {
    fn come(&self, sysctl: &Sysctl) {
        let mut declared = locked(&self.0);
        let here = declared.entry(sysctl.netns.clone()).or_default();
        here.insert(sysctl.name.clone(), sysctl.value.clone());
    }

    fn go(&self, sysctl: &Sysctl) {
        let mut declared = locked(&self.0);
        if let Some(here) = declared.get_mut(&sysctl.netns) {
            here.remove(&sysctl.name);
            if here.is_empty() {
                declared.remove(&sysctl.netns);
            }
        }
    }

    /// The namespaces in which there are any.
    pub(crate) fn namespaces(&self) -> Vec<NetnsName> {
        locked(&self.0).keys().cloned().collect()
    }

    fn in_namespace(&self, netns: &NetnsName) -> BTreeMap<String, String> {
        locked(&self.0).get(netns).cloned().unwrap_or_default()
    }
}

/// The declared parameters of a namespace that have another value, as items; one small read each.
pub(crate) fn changed(shared: &Shared, netns: &NetnsName) -> Vec<Sysctl> {
    let declared = shared.declared.in_namespace(netns);
    let Some(space) = shared.spaces.get(netns.as_str()).ok().filter(|_| !declared.is_empty()) else {
        return Vec::new();
    };
    let changed = space.inside(|| {
        let changed = declared.into_iter().filter_map(|(name, value)| {
            let is = shown(&std::fs::read_to_string(path(&name)).ok()?);
            (is != value).then(|| Sysctl { name, netns: netns.clone(), value: is })
        });
        changed.collect()
    });
    changed.unwrap_or_default()
}

/// The file of a parameter: dots and slashes change places.
fn path(name: &str) -> PathBuf {
    let swap = |character| match character {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    PathBuf::from("/proc/sys").join(name.chars().map(swap).collect::<String>())
}

/// Reads a parameter; `None` if there is none of that name.
pub(crate) fn read(space: &Space, name: &str) -> Result<Option<String>, KernelError> {
    let path = path(name);
    let read = space.inside(|| match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(shown(&text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::from(error)),
    });
    read.and_then(|read| read).map_err(|refusal| KernelError::refused("read sysctl", name, refusal))
}

/// A parameter as an item. Every parameter has a value; it is an item if the value is the declared one, or if we changed
/// it: then somebody else changed it since.
pub(crate) fn find(
    shared: &Shared,
    space: &Space,
    netns: &NetnsName,
    name: &str,
    expected: Option<&Sysctl>,
) -> Result<Option<Sysctl>, KernelError> {
    let Some(value) = read(space, name)? else { return Ok(None) };
    let as_expected = expected.is_some_and(|expected| expected.value == value);
    if let Some(expected) = expected.filter(|_| as_expected) {
        shared.declared.come(expected);
    }
    let is_item = as_expected || shared.parameters.before(space, name).is_some();
    Ok(is_item.then(|| Sysctl { name: name.to_owned(), netns: netns.clone(), value }))
}

/// A value as people write it: without the end of the line, and with blanks for tabs.
fn shown(text: &str) -> String {
    text.trim_end().replace('\t', " ")
}

fn write(space: &Space, name: &str, value: &str) -> Result<(), KernelError> {
    let path = path(name);
    let written = space.inside(|| std::fs::write(&path, value).map_err(Refusal::from));
    written.and_then(|written| written).map_err(|refusal| KernelError::refused("set sysctl", name, refusal))
}

/// Gives a parameter its value, and remembers what it was.
pub(crate) fn set(shared: &Shared, space: &Space, sysctl: &Sysctl) -> Result<(), KernelError> {
    let Some(before) = read(space, &sysctl.name)? else {
        let missing = Refusal::of(rustix::io::Errno::NOENT);
        return Err(KernelError::refused("set sysctl", &sysctl.name, missing));
    };
    shared.declared.come(sysctl);
    if before == sysctl.value {
        return Ok(());
    }
    let refused = |refusal| KernelError::refused("remember sysctl", &sysctl.name, refusal);
    shared.parameters.remember(space, &sysctl.name, before).map_err(refused)?;
    shared.spaces.counters().wrote();
    let written = write(space, &sysctl.name, &sysctl.value);
    if written.is_err() {
        shared.declared.go(sysctl);
    }
    if written.is_err() && read(space, &sysctl.name)? == shared.parameters.before(space, &sysctl.name) {
        shared.parameters.forget(space, &sysctl.name).map_err(refused)?;
    }
    written
}

/// Gives a parameter back what it was before we changed it; what nobody remembers stays as it is.
pub(crate) fn restore(shared: &Shared, space: &Space, sysctl: &Sysctl) -> Result<(), KernelError> {
    shared.declared.go(sysctl);
    let Some(before) = shared.parameters.before(space, &sysctl.name) else { return Ok(()) };
    if read(space, &sysctl.name)?.is_some_and(|present| present != before) {
        shared.spaces.counters().wrote();
        write(space, &sysctl.name, &before)?;
    }
    let refused = |refusal| KernelError::refused("forget sysctl", &sysctl.name, refusal);
    shared.parameters.forget(space, &sysctl.name).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_slashes_change_places() {
        let file = path("net.ipv4.conf.eth0/100.forwarding");
        assert_eq!(file, PathBuf::from("/proc/sys/net/ipv4/conf/eth0.100/forwarding"));
        assert_eq!(shown("4096\t131072\n"), "4096 131072");
    }
}
