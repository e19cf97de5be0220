//! Fresh namespaces: what tests and trials run in, so that nothing of the machine is touched.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

use crate::netlink::Refusal;
use crate::syscall;

/// What is hidden from the machine: namespaces get their names below it.
const RUN: &str = "/run";

/// Why there is no sandbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The kernel lets this user have no namespaces.
    #[error(
        "failed to enter fresh user, mount and network namespaces, hint: become root, or allow user namespaces \
         (`sysctl user.max_user_namespaces kernel.unprivileged_userns_clone kernel.apparmor_restrict_unprivileged_userns`)"
    )]
    Namespaces(#[source] Refusal),
    /// The user namespace did not get its users.
    #[error("failed to write `{path}`")]
    Users {
        /// The file.
        path: &'static str,
        /// Why.
        #[source]
        source: Refusal,
    },
    /// The sandbox could not be cut off from the machine's files.
    #[error("failed to {attempt} in the sandbox")]
    Mount {
        /// What was tried.
        attempt: &'static str,
        /// Why.
        #[source]
        source: Refusal,
    },
}

/// Moves the calling thread into a network namespace of its own, with nothing but a loopback that is down.
///
/// A southbound that is made on this thread afterwards takes the fresh namespace for its host. The namespace ends with
/// its last user.
pub fn enter_fresh_namespace() -> Result<(), Refusal> {
    Ok(syscall::leave_network_namespace()?)
}

/// What was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether it has a user namespace of its own: the machine does not let us without.
    pub has_user: bool,
}

/// Moves the process into fresh mount and network namespaces, and a user namespace where that takes one.
///
/// 1. Namespaces are entered, without a user namespace if we may.
/// 2. In a user namespace, we become its root.
/// 3. Mounts no longer reach the machine.
/// 4. An empty `/run` covers the machine's, so that named namespaces are ours alone.
///
/// **Guarantees**: everything made afterwards ends with the process and its children. **Assumes** that the process has
/// one thread: others would stay outside.
pub fn enter() -> Result<Sandbox, SandboxError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let has_user = match syscall::leave_the_machine(false) {
        Ok(()) => false,
        Err(Errno::PERM) => {
            syscall::leave_the_machine(true).map_err(|errno| SandboxError::Namespaces(errno.into()))?;
            // Groups that we could drop would be permissions that we could lose: the kernel wants that ruled out.
            write("/proc/self/setgroups", "deny")?;
            write("/proc/self/uid_map", &format!("0 {user} 1"))?;
            write("/proc/self/gid_map", &format!("0 {group} 1"))?;
            true
        }
        Err(errno) => return Err(SandboxError::Namespaces(errno.into())),
    };
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    let failed = |attempt| move |errno: Errno| SandboxError::Mount { attempt, source: errno.into() };
    mount_change("/", private).map_err(failed("make mounts private"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("kilter", RUN, "tmpfs", flags, Some(c"mode=755")).map_err(failed("cover `/run`"))?;
    Ok(Sandbox { has_user })
}

fn write(path: &'static str, text: &str) -> Result<(), SandboxError> {
    std::fs::write(Path::new(path), text)
        .map_err(|error: io::Error| SandboxError::Users { path, source: error.into() })
}

/// Whether the calling thread may change networks and mount namespaces under their names.
pub fn may_act() -> bool {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    capabilities(None).is_ok_and(|held| held.effective.contains(needed))
}

/// What the agent needs of root: to change networks, to enter and mount namespaces, and to ping.
const NEEDED: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::SYS_ADMIN).union(CapabilitySet::NET_RAW);

/// Gives up what the agent does not need of root, for itself and for every program it starts.
///
/// **Assumes** that the process has one thread: each thread has capabilities of its own.
pub fn drop_capabilities() -> Result<(), io::Error> {
    let held = capabilities(None)?;
    for one in CapabilitySet::all().difference(NEEDED).iter() {
        match remove_capability_from_bounding_set(one) {
            // A kernel that does not know it cannot grant it, and who may not drop it does not have it to grant.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let kept = CapabilitySets {
        effective: held.effective & NEEDED,
        permitted: held.permitted & NEEDED,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, kept)?)
}
