//! Network namespaces as items: made, adopted, or only opened.
//!
//! A namespace of ours is marked inside before it gets its name, so that whatever carries the name carries the mark. The
//! file it is mounted on is marked too: what a crash between the two leaves behind is known as ours, and taken away.

use std::path::{Path, PathBuf};

use kilter_model::linux::{Netns, NetnsName};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::link::attribute as attr;
use crate::link::read::read_one;
use crate::link::write::header;
use crate::mark::{NETNS_FILE_MARK, NETNS_MARK};
use crate::netlink::{KernelError, Message, Refusal, Requests, flag, rtnl};
use crate::shared::Shared;
use crate::space::{Place, on_a_thread, open_namespace};
use crate::syscall;

const LOOPBACK: u32 = 1;

/// What the names of drafts begin with; the number of the process and the name follow.
const DRAFT: &str = ".kilter-";

/// Where a namespace is found, by what is declared.
pub(crate) fn place_of(netns: &Netns) -> Place {
    match (&netns.path, netns.pid) {
        (Some(path), _) => Place::Path(PathBuf::from(path)),
        (None, Some(pid)) => Place::Process(pid),
        (None, None) => Place::Named,
    }
}

/// Makes a namespace, or opens one that somebody else made.
pub(crate) fn create(shared: &Shared, netns: &Netns) -> Result<(), KernelError> {
    let name = netns.name.as_str();
    let place = place_of(netns);
    let is_named = place == Place::Named;
    shared.spaces.place(name, place);
    if !is_named {
        shared.spaces.get(name)?;
        shared.spaces.note_made();
        return Ok(());
    }
    let path = shared.spaces.path(name);
    let refused = |refusal| KernelError::refused("add network namespace", name, refusal);
    shared.spaces.counters().wrote();
    make(shared, &path).map_err(refused)?;
    shared.spaces.note_made();
    Ok(())
}

fn make(shared: &Shared, path: &Path) -> Result<(), Refusal> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    clear_debris(path)?;
    place_mark(path)?;
    let counters = shared.spaces.counters();
    let made = on_a_thread(|| {
        syscall::leave_network_namespace()?;
        let mut requests = Requests::open(std::sync::Arc::clone(counters))?;
        let mut mark = Message::new(rtnl::NEWLINKPROP, flag::CREATE | flag::EXCL | flag::APPEND)
            .body(&header(LOOPBACK, 0, 0));
        mark.nest(attr::PROP_LIST, |list| list.text(attr::ALT_IFNAME, NETNS_MARK));
        requests.change_one(&mark)?;
        Ok(rustix::mount::mount_bind("/proc/thread-self/ns/net", path)?)
    });
    if made.is_err() {
        let _ = std::fs::remove_file(path);
    }
    made
}

/// Makes the file that the namespace is mounted on, with its mark in it from the first moment.
fn place_mark(path: &Path) -> Result<(), Refusal> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!("{DRAFT}{}-{name}", std::process::id()));
    std::fs::write(&draft, NETNS_FILE_MARK)?;
    let placed = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    Ok(placed?)
}

/// Whether a file is a draft of a process that is no more.
fn is_abandoned_draft(name: &str) -> bool {
    let process = name.strip_prefix(DRAFT).and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// Takes away the file of a namespace whose making was interrupted; anything else is left.
fn clear_debris(path: &Path) -> Result<(), Refusal> {
    if open_namespace(path)?.is_none()
        && std::fs::read_to_string(path).is_ok_and(|text| text == NETNS_FILE_MARK)
    {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Takes away the files of namespaces whose making was interrupted.
pub(crate) fn clear_all_debris(shared: &Shared) {
    let entries = std::fs::read_dir(&shared.spaces.settings().netns_dir);
    for entry in entries.into_iter().flatten().flatten() {
        // Only what is surely ours: an empty file may be somebody else's making under way.
        if std::fs::read_to_string(entry.path()).is_ok_and(|text| text == NETNS_FILE_MARK)
            || is_abandoned_draft(&entry.file_name().to_string_lossy())
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes a namespace that we made; one that was only opened is let go.
pub(crate) fn delete(shared: &Shared, netns: &Netns) -> Result<(), KernelError> {
    let name = netns.name.as_str();
    if place_of(netns) != Place::Named {
        shared.spaces.displace(name);
        return Ok(());
    }
    match is_ours(shared, name)? {
        None => return Ok(()),
        Some(false) => {
            return Err(KernelError::Foreign {
                subject: name.to_owned(),
                reason: "it would have to be removed".to_owned(),
            });
        }
        Some(true) => {}
    }
    shared.take_put_off(name);
    // An open socket would keep the namespace alive without its name.
    shared.spaces.forget(name);
    shared.spaces.counters().wrote();
    let path = shared.spaces.path(name);
    let unmounted = match rustix::mount::unmount(&path, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(Refusal::of(errno)),
    };
    let removed = unmounted.and_then(|()| match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Refusal::from(error)),
        _ => Ok(()),
    });
    removed.map_err(|refusal| KernelError::refused("remove network namespace", name, refusal))
}

/// Whether a namespace is ours; `None` if there is none of that name.
pub(crate) fn is_ours(shared: &Shared, name: &str) -> Result<Option<bool>, KernelError> {
    let space = match shared.spaces.get(name) {
        Ok(space) => space,
        Err(KernelError::NoNamespace { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let refused = |refusal| KernelError::refused("read network namespace", name, refusal);
    let loopback = read_one(&mut space.requests(), "lo").map_err(refused)?;
    Ok(Some(loopback.is_some_and(|loopback| loopback.alt_names.iter().any(|name| name == NETNS_MARK))))
}

/// A namespace as an item, by where it is found.
pub(crate) fn item(shared: &Shared, name: &str) -> Netns {
    let (path, pid) = match shared.spaces.place_of(name) {
        Place::Named => (None, None),
        Place::Path(path) => (Some(path.to_string_lossy().into_owned()), None),
        Place::Process(pid) => (None, Some(pid)),
    };
    Netns { name: NetnsName::new(name), path, pid }
}
