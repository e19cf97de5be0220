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

use super::others::Others;
use super::{Noticed, changed_parameters};
use crate::link::read::Seen;
use crate::netlink::message::Messages;
use crate::netlink::rtnl::{self, group};
use crate::netlink::{KernelError, Received, Refusal, socket, with_scratch};
use crate::order::{LinkFacts, Maker};
use crate::shared::Shared;
use crate::space::Space;
use crate::survey;
use crate::syscall::{NetlinkOption, readable, set_netlink_option};
use crate::{address, fdb, link, neighbour, port, qdisc, route, rule};

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
    group::IPV4_NETCONF,
    group::IPV6_NETCONF,
];

/// Links and addresses: what everything else stands on.
type Ground = (Vec<Seen>, Vec<address::Seen>);

fn read_ground(space: &Space) -> Result<Ground, Refusal> {
    let links = link::read::read_all(&mut space.requests())?;
    Ok((links, address::read_all(&mut space.requests())?))
}

/// Begins to watch a namespace; when this returns, nothing is missed any more. What is in it already is told if asked.
pub(super) async fn watch_namespace(
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Vec<Noticed>>,
    netns: NetnsName,
    tell: bool,
) -> Result<JoinHandle<()>, KernelError> {
    let opened = tokio::task::spawn_blocking(move || Watcher::open(shared, netns)).await;
    let failed = |_| KernelError::refused("watch", "namespace", Refusal::of(Errno::INTR));
    let (mut watcher, socket) = opened.map_err(failed)??;
    if !tell {
        watcher.heard.clear();
    }
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
    /// The number that the namespace has among all that there were.
    cookie: u64,
    /// The links by their index, as they were last seen.
    links: HashMap<u32, Seen>,
    /// Which links carry an address that they borrow.
    borrowed: HashMap<IpAddr, BTreeSet<u32>>,
    /// The addresses that others put on links.
    others: Others,
    /// The last word about each item that was heard of since the last report.
    heard: BTreeMap<Key, Observation>,
    /// Whether a kernel parameter was heard of since, one of the few that the kernel tells of.
    parameters: bool,
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
        let (port, cookie) = (space.port, space.cookie);
        let mut watcher = Self {
            shared: Arc::clone(&shared),
            netns,
            port,
            cookie,
            links: HashMap::new(),
            borrowed: HashMap::new(),
            others: Others::default(),
            heard: BTreeMap::new(),
            parameters: false,
        };
        let refused = |refusal| KernelError::refused("read links and addresses", &watcher.netns, refusal);
        let read = read_ground(&space).map_err(refused)?;
        watcher.take_ground(read);
        Ok((watcher, socket))
    }

    /// Takes in which links and addresses there are, and says what of it is news. What is declared is read by others.
    fn take_ground(&mut self, (links, addresses): Ground) {
        let there: BTreeSet<u32> = links.iter().map(|seen| seen.index).collect();
        let gone: Vec<u32> = self.links.keys().filter(|index| !there.contains(index)).copied().collect();
        gone.into_iter().for_each(|index| self.lose_link(index));
        // Those that something is bound to come first: a port is told with the name of its bridge.
        let (ports, masters): (Vec<Seen>, Vec<Seen>) =
            links.into_iter().partition(|seen| seen.master.is_some());
        masters.into_iter().chain(ports).for_each(|seen| self.see_link(seen));
        self.borrowed.clear();
        let mut before = std::mem::take(&mut self.others);
        for seen in addresses {
            if seen.protocol == self.shared.borrowed_protocol() {
                self.borrowed.entry(seen.address.address.addr()).or_default().insert(seen.index);
                continue;
            }
            before.go(seen.index, &seen.address);
            self.see_address(seen, false);
        }
        for (index, address) in before.all() {
            self.see_address(address::Seen { index, address, protocol: 0 }, true);
        }
    }

    async fn run(mut self, socket: AsyncFd<OwnedFd>, sender: mpsc::UnboundedSender<Vec<Noticed>>) {
        // What was there from the beginning, if anybody wants to know.
        if !self.heard.is_empty() {
            let noticed = std::mem::take(&mut self.heard).into_values().map(Noticed::Item).collect();
            if sender.send(noticed).is_err() {
                return;
            }
        }
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
                    read_ground(&*shared.spaces.get(netns.as_str()).ok()?).ok()
                });
                if let Ok(Some(ground)) = read.await {
                    self.take_ground(ground);
                    noticed.extend(std::mem::take(&mut self.heard).into_values().map(Noticed::Item));
                }
            }
            if std::mem::take(&mut self.parameters) {
                let (shared, netns) = (Arc::clone(&self.shared), self.netns.clone());
                let look = tokio::task::spawn_blocking(move || changed_parameters(&shared, &netns));
                noticed.extend(look.await.unwrap_or_default());
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
            rtnl::NEWNETCONF => self.parameters = true,
            _ => {}
        }
    }

    fn hear_link(&mut self, received: &Received<'_>) {
        match received.payload.first() {
            Some(&rtnl::family::UNSPEC) => {}
            Some(&rtnl::family::BRIDGE) => return self.hear_port(received),
            _ => return,
        }
        let Some(seen) = link::read::decode(received) else { return };
        if received.kind == rtnl::DELLINK { self.lose_link(seen.index) } else { self.see_link(seen) }
    }

    /// A bridge tells about its ports in messages of its own family, which leave most of a link out.
    fn hear_port(&mut self, received: &Received<'_>) {
        let Some((index, options)) = port::decode(received) else { return };
        if let Some(seen) = self.links.get(&index).filter(|seen| seen.port.is_some()) {
            let seen = Seen { port: Some(options), ..seen.clone() };
            self.see_link(seen);
        }
    }

    /// A link is gone.
    fn lose_link(&mut self, index: u32) {
        if let Some(before) = self.links.remove(&index) {
            self.forget_link(&before.name, before.is_ours());
            self.say_reaches(&before, false);
        }
        self.others.forget(index);
    }

    /// A link is there.
    fn see_link(&mut self, seen: Seen) {
        let before = self.links.remove(&seen.index);
        if let Some(before) = before.as_ref().filter(|before| before.name != seen.name) {
            self.forget_link(&before.name, before.is_ours());
            self.say_reaches(before, false);
        }
        if before.as_ref() == Some(&seen) {
            self.links.insert(seen.index, seen);
            return;
        }
        for found in survey::link_family(&self.shared, (&self.netns, self.cookie), &seen, |master| {
            self.links.get(&master).map(|master| master.name.clone())
        }) {
            let (key, value, origin) = (found.key, found.value, found.origin);
            let facts = Some(Facts::new(LinkFacts { index: seen.index }));
            let observation = Observation { key: key.clone(), value, facts, origin };
            self.heard.insert(key, observation);
        }
        if before.is_none_or(|before| before.up != seen.up || before.name != seen.name) {
            self.say_reaches(&seen, seen.up);
        }
        self.links.insert(seen.index, seen);
    }

    /// What the addresses of others let reach comes and goes with their link being up, which the kernel does not tell.
    fn say_reaches(&mut self, link: &Seen, up: bool) {
        for address in self.others.on(link.index) {
            for (key, reach) in Reach::of(&self.netns, &link.name, address) {
                let value = up.then(|| ValueRef::new(reach));
                let origin = Origin::Observed;
                self.heard.insert(key.clone(), Observation { key, value, facts: None, origin });
            }
        }
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
        self.tell(is_gone, key, value, ours);
    }

    fn tell(&mut self, is_gone: bool, key: Key, value: impl Value, ours: bool) {
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
        if seen.protocol == self.shared.borrowed_protocol() {
            let Some(link) = self.name(seen.index) else { return };
            let key = keys::unnumbered(&self.netns, &link);
            self.say(received, key, (), true);
            return;
        }
        self.see_address(seen, received.kind == rtnl::DELADDR);
    }

    /// An address that is not borrowed is there, or is gone.
    fn see_address(&mut self, seen: address::Seen, is_gone: bool) {
        let Some(link) = self.name(seen.index) else { return };
        let ours = seen.protocol == self.shared.protocol();
        // Of our own, what the address and the link need of each other tells.
        if !ours {
            if is_gone || self.links.get(&seen.index).is_some_and(|link| link.up) {
                for (key, reach) in Reach::of(&self.netns, &link, &seen.address) {
                    self.tell(is_gone, key, reach, ours);
                }
            }
            if is_gone {
                self.others.go(seen.index, &seen.address);
            } else {
                self.others.come(seen.index, seen.address.clone());
            }
        }
        let key = keys::address(&self.netns, &link, seen.address.address);
        let (netns, address) = (self.netns.clone(), seen.address);
        let value = LinkAddress { netns, link, vrf: None, after_up: false, address, read: true };
        self.tell(is_gone, key.clone(), value, ours);
        if let Some(heard) = self.heard.get_mut(&key).filter(|heard| heard.value.is_some()) {
            heard.facts = Maker::facts(&self.shared, seen.protocol);
        }
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
