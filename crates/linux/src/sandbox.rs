//! A fresh network namespace for one thread: what tests and trials run in.

use crate::netlink::Refusal;
use crate::syscall;

/// Moves the calling thread into a network namespace of its own, with nothing but a loopback that is down.
///
/// A southbound that is made on this thread afterwards takes the fresh namespace for its host. The namespace ends with
/// its last user.
pub fn enter_fresh_namespace() -> Result<(), Refusal> {
    Ok(syscall::leave_network_namespace()?)
}
