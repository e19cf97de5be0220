//! Makes the linux kinds real over netlink, and watches the kernel.
//!
//! Decided here: how an item becomes kernel state and how it is read back, what marks it as ours, and what a change in
//! the kernel means for the items. Not decided here: what shall be (the model says what a declaration may be, the
//! scheduler when it is made).
//!
//! Read next: [`Linux`] for how operations come in, `act` for how they become batches, `survey` for reading, one file
//! per kind for what it is on the wire.

mod act;
mod address;
mod bond;
mod bridge;
pub mod drift;
mod existing;
mod fdb;
mod former;
#[doc(hidden)]
pub mod fuzzed;
pub mod inherited;
mod ip;
mod link;
mod linux;
mod macvlan;
mod mark;
mod neighbour;
mod netlink;
mod netns;
mod nftables;
mod order;
mod parameters;
mod port;
mod qdisc;
#[doc(hidden)]
pub mod raw;
mod route;
mod rule;
pub mod sandbox;
mod settings;
mod shared;
mod space;
mod survey;
mod syscall;
mod sysctl;
mod tap;
mod unnumbered;
mod up;
mod vlan;
mod vxlan;
mod watch;

pub use linux::{KINDS, Linux};
pub use netlink::socket::Counts;
pub use netlink::{KernelError, Refusal};
pub use order::LinkFacts;
pub use settings::{PROTOCOL, Settings};
pub use watch::{Noticed, Watch};
