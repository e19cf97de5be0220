//! System calls that have no safe wrapper: the only file of the crate with `unsafe` code.
//!
//! Decided here: nothing. Each function is one call with its types; what it is for is decided by its callers.
#![allow(
    unsafe_code,
    reason = "rustix leaves these calls to us: netlink options, leaving a namespace, tun devices, ending with us,\n              what a process was started with, signals"
)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::{Errno, FdFlags, Result};
use rustix::ioctl;
use rustix::process::Signal;
use rustix::thread::UnshareFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An option of netlink sockets that is on or a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetlinkOption {
    /// Receives a multicast group.
    Membership(u32),
    /// An acknowledgement does not repeat the request.
    CapAck,
    /// An acknowledgement says in words what is wrong.
    ExtAck,
    /// The kernel filters dumps and refuses filters it does not know.
    StrictCheck,
}

/// Sets an option of a netlink socket.
pub(crate) fn set_netlink_option(socket: impl AsFd, option: NetlinkOption) -> Result<()> {
    let (name, value): (libc::c_int, libc::c_int) = match option {
        NetlinkOption::Membership(group) => {
            (libc::NETLINK_ADD_MEMBERSHIP, i32::try_from(group).map_err(|_| Errno::INVAL)?)
        }
        NetlinkOption::CapAck => (libc::NETLINK_CAP_ACK, 1),
        NetlinkOption::ExtAck => (libc::NETLINK_EXT_ACK, 1),
        NetlinkOption::StrictCheck => (libc::NETLINK_GET_STRICT_CHK, 1),
    };
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel reads `size_of::<c_int>()` bytes from the
    // pointer, which is where `value` lives for the duration of the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_NETLINK,
            name,
            (&raw const value).cast(),
            libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The number of the network namespace of a socket, which no other one gets as long as the machine runs.
pub(crate) fn namespace_cookie(socket: impl AsFd) -> Result<u64> {
    let mut cookie = 0_u64;
    let mut size = libc::socklen_t::try_from(size_of::<u64>()).unwrap_or(0);
    // SAFETY: the descriptor is open as long as it is borrowed; the kernel writes at most `size` bytes to the first
    // pointer, which is where `cookie` lives, and their number to the second.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(last_errno()) }
}

/// The most memory that any process had that this one started and waited for, in KiB.
pub(crate) fn peak_of_children() -> Result<u64> {
    // SAFETY: all bits nought is a value of this struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` to the pointer, which is where `usage` lives.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    if result == 0 { Ok(u64::try_from(usage.ru_maxrss).unwrap_or(0)) } else { Err(last_errno()) }
}

/// Lets the process, and the program that it becomes, take no notice of a hang-up until somebody listens for it.
pub(crate) fn ignore_hang_up() -> Result<()> {
    // SAFETY: `SIG_IGN` is no code that could run at a bad moment.
    let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}

/// Moves the calling thread into a network namespace of its own.
pub(crate) fn leave_network_namespace() -> Result<()> {
    // SAFETY: only the network namespace is left. The call is unsafe for the sake of `UnshareFlags::FILES`, which
    // would give the thread a table of descriptors of its own.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}

/// Moves the calling thread into network and mount namespaces of its own, and first into a user namespace if asked.
pub(crate) fn leave_the_machine(user: bool) -> Result<()> {
    let user = if user { UnshareFlags::NEWUSER } else { UnshareFlags::empty() };
    // SAFETY: as above; the table of descriptors stays shared.
    unsafe { rustix::thread::unshare_unsafe(user | UnshareFlags::NEWNS | UnshareFlags::NEWNET) }
}

/// Has the kernel end the program when the thread that started it ends: what an agent that was killed has begun must not
/// happen behind the back of the next one.
pub(crate) fn end_with_us(program: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only one system call is made; it allocates nothing and takes no lock.
    unsafe {
        program.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
        })
    }
}

/// Takes over a descriptor that the process was started with; no program that is started from here gets it.
///
/// **Assumes** that nothing else in the process owns it.
pub(crate) fn inherit(number: RawFd) -> Result<OwnedFd> {
    if number <= 2 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is borrowed for one call, which only says whether it is open and marks it.
    rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and the caller promises that it is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Lets the runtime say when there is something to read.
pub(crate) fn readable(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open, and stays the same one, until it is dropped, which `AsyncFd` does after
    // it has taken it off the runtime's list.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

/// What is asked of a tun device.
#[derive(Clone, Debug)]
pub(crate) struct TunRequest {
    /// The name, at most 15 bytes.
    pub(crate) name: String,
    /// `IFF_TUN` or `IFF_TAP`, with `IFF_NO_PI` and further flags.
    pub(crate) flags: u16,
    /// The index that the device shall have; `None` lets the kernel choose.
    pub(crate) index: Option<u32>,
    /// The user that may attach to it.
    pub(crate) owner: Option<u32>,
    /// The group that may attach to it.
    pub(crate) group: Option<u32>,
}

const TUNSETIFF: ioctl::Opcode = 0x4004_54ca;
const TUNSETPERSIST: ioctl::Opcode = 0x4004_54cb;
const TUNSETOWNER: ioctl::Opcode = 0x4004_54cc;
const TUNSETGROUP: ioctl::Opcode = 0x4004_54ce;
const TUNSETIFINDEX: ioctl::Opcode = 0x4004_54da;
const IFREQ_LENGTH: usize = 40;
const NAME_LENGTH: usize = 16;

/// Makes a tun device that stays when `tun` is closed. Its namespace is the one in which `tun` was opened.
pub(crate) fn make_tun(tun: &File, request: &TunRequest) -> Result<()> {
    let mut ifreq = [0_u8; IFREQ_LENGTH];
    let name = request.name.as_bytes();
    if name.len() >= NAME_LENGTH {
        return Err(Errno::NAMETOOLONG);
    }
    ifreq[..name.len()].copy_from_slice(name);
    ifreq[NAME_LENGTH..NAME_LENGTH + 2].copy_from_slice(&request.flags.to_ne_bytes());
    if let Some(index) = request.index {
        // SAFETY: the call reads one `unsigned int` from the pointer.
        unsafe { ioctl::ioctl(tun, ioctl::Setter::<TUNSETIFINDEX, u32>::new(index)) }?;
    }
    // SAFETY: the call reads and writes one `struct ifreq`, which is 40 bytes on 64-bit systems.
    unsafe { ioctl::ioctl(tun, ioctl::Updater::<TUNSETIFF, [u8; IFREQ_LENGTH]>::new(&mut ifreq)) }?;
    if let Some(owner) = request.owner {
        set_number::<TUNSETOWNER>(tun, owner)?;
    }
    if let Some(group) = request.group {
        set_number::<TUNSETGROUP>(tun, group)?;
    }
    set_number::<TUNSETPERSIST>(tun, 1)
}

/// A call of the tun device that takes a number.
fn set_number<const OPCODE: ioctl::Opcode>(tun: &File, number: u32) -> Result<()> {
    // SAFETY: the callers name calls whose argument is a number; no memory is touched.
    unsafe { ioctl::ioctl(tun, ioctl::IntegerSetter::<OPCODE>::new_usize(number as usize)) }
}
