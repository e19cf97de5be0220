//! Watching one namespace: from messages to the last word about each item.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kilter_model::declare::Declare as _;
use kilter_model::linux::{LinkAddress, Name, NetnsName, Reach, keys};
use kilter_scheduler::{Facts, Key, Observation, Origin, Value, ValueRef};
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Noticed;
use crate::link::read::Seen;
use crate::netlink::message::Messages;
use crate::netlink::rtnl::{self, group};
use crate::netlink::{KernelError, Received, Refusal, socket, with_scratch};
use crate::order::LinkFacts;
use crate::shared::Shared;
use crate::space::Space;
use crate::survey;
use crate::syscall::{NetlinkOption, readable, set_netlink_option};
use crate::{address, fdb, link, neighbour, qdisc, route, rule};

const GROUPS: &[u32] = &[
    group::LINK,
    group::NEIGH,
    group::TC,
    group::IPV4_ADDRESS,
    group::IPV4_ROUTE,
    group::IPV4_RULE,
    group::IPV6_ADDRESS,
    group::IPV6_ROUTE,
    group::IPV6_RULE,
];

/// Begins to watch a namespace; when this returns, nothing is missed any more.
pub(super) async fn watch_namespace(
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Vec<Noticed>>,
    netns: NetnsName,
) -> Result<JoinHandle<()>, KernelError> {
    let opened = tokio::task::spawn_blocking(move || Watcher::open(shared, netns)).await;
    let failed = |_| KernelError::refused("watch", "namespace", Refusal::of(Errno::INTR));
    let (watcher, socket) = opened.map_err(failed)??;
    let refused = |error: std::io::Error| KernelError::refused("watch", &watcher.netns, error.into());
    let socket = readable(socket).map_err(refused)?;
    Ok(tokio::spawn(watcher.run(socket, sender)))
}

/// What is known of the namespace while it is watched.
struct Watcher {
    shared: Arc<Shared>,
    netns: NetnsName,
    /// The port of our own requests.
    port: u32,
    /// The links by their index, as they were last seen.
    links: HashMap<u32, Seen>,
    /// Which links carry an address that they borrow.
    borrowed: HashMap<IpAddr, BTreeSet<u32>>,
    /// The last word about each item that was heard of since the last report.
    heard: BTreeMap<Key, Observation>,
}

impl Watcher {
    fn open(shared: Arc<Shared>, netns: NetnsName) -> Result<(Self, OwnedFd), KernelError> {
        let space = shared.spaces.get(netns.as_str())?;
        let size = shared.spaces.settings().watch_buffer;
        let opened = space.inside(|| -> Result<OwnedFd, Refusal> {
            let socket = socket::open(None)?;
            for group in GROUPS {
                set_netlink_option(&socket, NetlinkOption::Membership(*group))?;
            }
            // Without the right to a large buffer, overruns come earlier, and are told all the same.
            let _ = sockopt::set_socket_recv_buffer_size_force(&socket, size);
            rustix::io::ioctl_fionbio(&socket, true)?;
            Ok(socket)
        });
        let refused = |refusal| KernelError::refused("watch", &netns, refusal);
        let socket = opened.and_then(|opened| opened).map_err(refused)?;
        let port = space.port;
        let mut watcher = Self {
            shared: Arc::clone(&shared),
            netns,
            port,
            links: HashMap::new(),
            borrowed: HashMap::new(),
            heard: BTreeMap::new(),
        };
        watcher.read_links(&space)?;
        watcher.read_borrowed(&space)?;
        Ok((watcher, socket))
    }

    fn read_links(&mut self, space: &Space) -> Result<(), KernelError> {
        let refused = |refusal| KernelError::refused("read links", &self.netns, refusal);
        let links = link::read::read_all(&mut space.requests()).map_err(refused)?;
        self.links = links.into_iter().map(|seen| (seen.index, seen)).collect();
        Ok(())
    }

    fn read_borrowed(&mut self, space: &Space) -> Result<(), KernelError> {
        let refused = |refusal| KernelError::refused("read addresses", &self.netns, refusal);
        let protocol = self.shared.borrowed_protocol();
        for seen in address::read_all(&mut space.requests()).map_err(refused)? {
            if seen.protocol == protocol {
                self.borrowed.entry(seen.address.address.addr()).or_default().insert(seen.index);
            }
        }
        Ok(())
    }

    async fn run(mut self, socket: AsyncFd<OwnedFd>, sender: mpsc::UnboundedSender<Vec<Noticed>>) {
        loop {
            let Ok(mut ready) = socket.readable().await else { return };
            let overrun = self.drain(socket.get_ref());
            ready.clear_ready();
            let mut noticed: Vec<Noticed> =
                std::mem::take(&mut self.heard).into_values().map(Noticed::Item).collect();
            if overrun {
                noticed = vec![Noticed::Overrun { netns: self.netns.clone() }];
                let (shared, netns) = (Arc::clone(&self.shared), self.netns.clone());
                let read = tokio::task::spawn_blocking(move || {
                    let space = shared.spaces.get(netns.as_str()).ok()?;
                    link::read::read_all(&mut space.requests()).ok()
                });
                if let Ok(Some(links)) = read.await {
                    self.links = links.into_iter().map(|seen| (seen.index, seen)).collect();
                }
            }
            if !noticed.is_empty() && sender.send(noticed).is_err() {
                return;
            }
        }
    }

    /// Hears everything that is there to be heard; says whether something was lost.
    fn drain(&mut self, socket: &OwnedFd) -> bool {
        with_scratch(|buffer| {
            let mut overrun = false;
            loop {
                match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
                    Ok((length, _)) => {
                        for received in Messages(&buffer[..length]) {
                            self.hear(&received);
                        }
                    }
                    Err(Errno::NOBUFS) => overrun = true,
                    Err(Errno::INTR) => {}
                    Err(_) => return overrun,
                }
            }
        })
    }

    fn hear(&mut self, received: &Received<'_>) {
        if matches!(received.kind, rtnl::NEWADDR | rtnl::DELADDR) {
            self.follow_lending(received);
        }
        match received.kind {
            rtnl::NEWLINK | rtnl::DELLINK => self.hear_link(received),
            // Whose request it was, the kernel says for everything but links.
            _ if received.port == self.port => {}
            rtnl::NEWADDR | rtnl::DELADDR => self.hear_address(received),
            rtnl::NEWROUTE | rtnl::DELROUTE => self.hear_route(received),
            rtnl::NEWRULE | rtnl::DELRULE => self.hear_rule(received),
            rtnl::NEWNEIGH | rtnl::DELNEIGH => self.hear_neighbour(received),
            rtnl::NEWQDISC | rtnl::DELQDISC => self.hear_qdisc(received),
            _ => {}
        }
    }

    fn hear_link(&mut self, received: &Received<'_>) {
        // A bridge tells about its ports in messages of its own family, which leave most of a link out.
        if received.payload.first() != Some(&rtnl::family::UNSPEC) {
            return;
        }
        let Some(seen) = link::read::decode(received) else { return };
        let before = self.links.remove(&seen.index);
        if let Some(before) =
            before.as_ref().filter(|before| received.kind == rtnl::DELLINK || before.name != seen.name)
        {
            self.forget_link(&before.name.clone(), before.is_ours());
        }
        if received.kind == rtnl::DELLINK {
            return;
        }
        if before.as_ref() == Some(&seen) {
            self.links.insert(seen.index, seen);
            return;
        }
        for found in survey::link_family(&self.shared, &self.netns, &seen, |master| {
            self.links.get(&master).map(|master| master.name.clone())
        }) {
            let (key, value, origin) = (found.key, found.value, found.origin);
            let facts = Some(Facts::new(LinkFacts { index: seen.index }));
            let observation = Observation { key: key.clone(), value, facts, origin };
            self.heard.insert(key, observation);
        }
        self.links.insert(seen.index, seen);
    }

    fn forget_link(&mut self, name: &Name, ours: bool) {
        let origin = if ours { Origin::Declared } else { Origin::Observed };
        for key in [keys::link(&self.netns, name), keys::up(&self.netns, name), keys::port(&self.netns, name)]
        {
            self.heard.insert(key.clone(), Observation { key, value: None, facts: None, origin });
        }
    }

    fn name(&self, index: u32) -> Option<Name> {
        self.links.get(&index).map(|seen| seen.name.clone())
    }

    fn say(&mut self, received: &Received<'_>, key: Key, value: impl Value, ours: bool) {
        let is_gone = matches!(
            received.kind,
            rtnl::DELADDR | rtnl::DELROUTE | rtnl::DELRULE | rtnl::DELNEIGH | rtnl::DELQDISC
        );
        let value = (!is_gone).then(|| ValueRef::new(value));
        let origin = if ours { Origin::Declared } else { Origin::Observed };
        self.heard.insert(key.clone(), Observation { key, value, facts: None, origin });
    }

    /// Keeps in mind who borrows what. An address that goes, by whose doing ever, is one that a borrower may not keep.
    fn follow_lending(&mut self, received: &Received<'_>) {
        let Some(seen) = address::decode(received) else { return };
        let (ip, is_gone) = (seen.address.address.addr(), received.kind == rtnl::DELADDR);
        if seen.protocol != self.shared.borrowed_protocol() {
            let borrowers = if is_gone { self.borrowed.get(&ip).cloned() } else { None };
            let links: Vec<Name> =
                borrowers.into_iter().flatten().filter_map(|index| self.name(index)).collect();
            for link in links {
                let key = keys::unnumbered(&self.netns, &link);
                let value = Some(ValueRef::new(()));
                let origin = Origin::Declared;
                self.heard.insert(key.clone(), Observation { key, value, facts: None, origin });
            }
            return;
        }
        let borrowers = self.borrowed.entry(ip).or_default();
        if is_gone {
            borrowers.remove(&seen.index);
        } else {
            borrowers.insert(seen.index);
        }
        if borrowers.is_empty() {
            self.borrowed.remove(&ip);
        }
    }

    fn hear_address(&mut self, received: &Received<'_>) {
        let Some(seen) = address::decode(received) else { return };
        let Some(link) = self.name(seen.index) else { return };
        if seen.protocol == self.shared.borrowed_protocol() {
            let key = keys::unnumbered(&self.netns, &link);
            self.say(received, key, (), true);
            return;
        }
        let ours = seen.protocol == self.shared.protocol();
        // Of our own, what the address and the link need of each other tells.
        for (key, reach) in Reach::of(&self.netns, &link, &seen.address).filter(|_| !ours) {
            self.say(received, key, reach, ours);
        }
        let key = keys::address(&self.netns, &link, seen.address.address);
        let value = LinkAddress { netns: self.netns.clone(), link, vrf: None, address: seen.address };
        self.say(received, key, value, ours);
    }

    fn hear_route(&mut self, received: &Received<'_>) {
        let Some(seen) = route::decode(received, &self.netns) else { return };
        let ours = seen.protocol == self.shared.protocol();
        let key = keys::route(&self.netns, seen.route.table, seen.route.destination, seen.route.metric());
        let route = seen.named(|index| self.name(index));
        self.say(received, key, route, ours);
    }

    fn hear_rule(&mut self, received: &Received<'_>) {
        let Some((rule, protocol)) = rule::decode(received, &self.netns) else { return };
        self.say(received, rule.key(), rule, protocol == self.shared.protocol());
    }

    fn hear_neighbour(&mut self, received: &Received<'_>) {
        if let Some(seen) = fdb::decode(received) {
            let Some(link) = self.name(seen.index) else { return };
            let entry = seen.item(&self.netns, link);
            return self.say(received, entry.key(), entry, false);
        }
        let Some(seen) = neighbour::decode(received) else { return };
        let Some(link) = self.name(seen.index) else { return };
        let ours = seen.protocol == self.shared.protocol();
        if let Some(neighbour) = seen.item(&self.netns, link.clone()) {
            self.say(received, neighbour.key(), neighbour, ours);
        } else if ours {
            // It is ours and does not stay as we made it.
            let address = seen.address;
            let key = Key::from(format!("linux/neighbour/{}/{link}/{address}", self.netns));
            self.say(received, key, (), ours);
        }
    }

    fn hear_qdisc(&mut self, received: &Received<'_>) {
        let Some(seen) = qdisc::decode(received) else { return };
        let Some(link) = self.name(seen.index) else { return };
        let qdisc = seen.item(&self.netns, link);
        self.say(received, qdisc.key(), qdisc, false);
    }
}

/// Fuzzed: whatever a kernel may tell about any kind; gives how many items it makes of it.
#[doc(hidden)]
pub fn decode_events(bytes: &[u8]) -> usize {
    let netns = NetnsName::host();
    let mut count = 0;
    for received in Messages(bytes) {
        count += usize::from(link::read::decode(&received).is_some());
        count += usize::from(address::decode(&received).is_some());
        count += usize::from(route::decode(&received, &netns).is_some());
        count += usize::from(rule::decode(&received, &netns).is_some());
        count += usize::from(neighbour::decode(&received).is_some());
        count += usize::from(fdb::decode(&received).is_some());
        count += usize::from(qdisc::decode(&received).is_some());
        count += usize::from(crate::nftables::decode(&received).is_some());
        count += usize::from(crate::nftables::decode_told(&received).is_some());
    }
    count
}
