//! Makes the linux kinds real over netlink, and watches the kernel.
mod netlink;
pub mod sandbox;
mod settings;
mod space;
mod syscall;

pub use netlink::socket::{Counts, decode_refusals};
pub use netlink::{KernelError, Refusal};
pub use settings::{PROTOCOL, Settings};
