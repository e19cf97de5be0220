//! Watching the packet filters of one namespace: whoever touches a table that we wrote is noticed.
//!
//! The kernel tells of a commit as everything that it touched, and then its generation. A generation that we made is left
//! out. Of the others only the tables that we wrote are told, as changed or as gone: what is in them is read by whoever
//! heals them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kilter_model::linux::{NetnsName, keys};
use kilter_scheduler::{Key, Observation, Origin, ValueRef};
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Noticed;
use crate::netlink::message::Messages;
use crate::netlink::{KernelError, Refusal, socket, with_scratch};
use crate::nftables::{Told, decode_told};
use crate::shared::Shared;
use crate::syscall::{NetlinkOption, readable, set_netlink_option};

/// The group of the events of nftables.
const GROUP: u32 = 7;

/// Begins to watch the packet filters of a namespace.
pub(super) async fn watch_filters(
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Vec<Noticed>>,
    netns: NetnsName,
) -> Result<JoinHandle<()>, KernelError> {
    let (of, name) = (Arc::clone(&shared), netns.clone());
    let opened = tokio::task::spawn_blocking(move || open(&of, &name)).await;
    let failed = |_| KernelError::refused("watch", "packet filters", Refusal::of(Errno::INTR));
    let socket = opened.map_err(failed)??;
    let refused = |error: std::io::Error| KernelError::refused("watch", &netns, error.into());
    let socket = readable(socket).map_err(refused)?;
    let watcher = Watcher { shared, netns, touched: BTreeMap::new(), heard: BTreeMap::new() };
    Ok(tokio::spawn(watcher.run(socket, sender)))
}

fn open(shared: &Shared, netns: &NetnsName) -> Result<OwnedFd, KernelError> {
    let space = shared.spaces.get(netns.as_str())?;
    let opened = space.inside(|| -> Result<OwnedFd, Refusal> {
        let socket = socket::open(Some(rustix::net::netlink::NETFILTER))?;
        set_netlink_option(&socket, NetlinkOption::Membership(GROUP))?;
        // Without the right to a large buffer, overruns come earlier, and are told all the same.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, shared.spaces.settings().watch_buffer);
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    });
    let refused = |refusal| KernelError::refused("watch packet filters of", netns, refusal);
    opened.and_then(|opened| opened).map_err(refused)
}

struct Watcher {
    shared: Arc<Shared>,
    netns: NetnsName,
    /// The tables of ours that the commit under way touched, and whether each is there.
    touched: BTreeMap<Key, bool>,
    /// The last word about each table.
    heard: BTreeMap<Key, Observation>,
}

impl Watcher {
    async fn run(mut self, socket: AsyncFd<OwnedFd>, sender: mpsc::UnboundedSender<Vec<Noticed>>) {
        loop {
            let Ok(mut ready) = socket.readable().await else { return };
            let overrun = with_scratch(|buffer| self.drain(socket.get_ref(), buffer));
            ready.clear_ready();
            let heard = std::mem::take(&mut self.heard).into_values().map(Noticed::Item);
            let lost = overrun.then(|| Noticed::Overrun { netns: self.netns.clone() });
            let noticed: Vec<Noticed> = heard.chain(lost).collect();
            if !noticed.is_empty() && sender.send(noticed).is_err() {
                return;
            }
        }
    }

    /// Hears everything that is there to be heard; says whether something was lost.
    fn drain(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> bool {
        let mut overrun = false;
        loop {
            match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    for told in Messages(&buffer[..length]).filter_map(|received| decode_told(&received)) {
                        self.hear(told);
                    }
                }
                Err(Errno::NOBUFS) => overrun = true,
                Err(Errno::INTR) => {}
                Err(_) => return overrun,
            }
        }
    }

    fn hear(&mut self, told: Told) {
        let (family, name, is_there) = match told {
            Told::Touched(family, name) => (family, name, true),
            Told::Removed(family, name) => (family, name, false),
            Told::Generation(number) => return self.end_generation(number),
        };
        if self.shared.table(self.netns.as_str(), family.word(), &name).is_some() {
            self.touched.insert(keys::nftables(&self.netns, family.word(), &name), is_there);
        }
    }

    fn end_generation(&mut self, number: u32) {
        let touched = std::mem::take(&mut self.touched);
        if self.shared.take_generation(self.netns.as_str(), number) {
            return;
        }
        for (key, is_there) in touched {
            // What a table contains is not told here: that it differs is.
            let value = is_there.then(|| ValueRef::new(()));
            let observation = Observation { key: key.clone(), value, facts: None, origin: Origin::Declared };
            self.heard.insert(key, observation);
        }
    }
}
