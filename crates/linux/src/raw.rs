//! The bare requests for a known piece of work, pipelined, with nothing around them: what benchmarks compare with.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use kilter_model::linux::Address;

use crate::link::attribute as attr;
use crate::link::write::{bind, header, switch};
use crate::mark::FIRST_INDEX;
use crate::netlink::{Message, Refusal, Requests, flag, rtnl};
use crate::{address, settings};

/// The most memory that any process had that this one started and waited for, in KiB: what a tool of others needs.
pub fn peak_of_children() -> std::io::Result<u64> {
    Ok(crate::syscall::peak_of_children()?)
}

/// A sender of bare requests in the namespace of the calling thread.
#[derive(Debug)]
pub struct Raw(Requests);

impl Raw {
    /// Opens its socket.
    pub fn open() -> Result<Self, Refusal> {
        Requests::open(Arc::default()).map(Self)
    }

    /// Makes ports `from..to` of a bridge, the bridge with the first: pairs, bound, addressed, then up.
    pub fn make_ports(&mut self, from: u32, to: u32) -> Result<u64, Refusal> {
        let mut messages = Vec::new();
        let bridge = FIRST_INDEX;
        let near = |at: u32| FIRST_INDEX + 1 + 2 * at;
        if from == 0 {
            messages.push(link(bridge, "br0", "bridge", |_| ()));
        }
        for at in from..to {
            messages.push(link(near(at), &format!("p{at}"), "veth", |data| {
                data.nest_after(attr::VETH_INFO_PEER, &header(near(at) + 1, 0, 0), |peer| {
                    peer.text(attr::IFNAME, &format!("q{at}"));
                });
            }));
        }
        messages.extend((from..to).map(|at| bind(near(at), bridge)));
        for at in from..to {
            let [.., high, low] = at.to_be_bytes();
            let net = Ipv4Net::new(Ipv4Addr::new(10, high, low, 1), 24).expect("24 is a length");
            let address = Address::new(IpNet::V4(net));
            let flags = flag::CREATE | flag::EXCL;
            messages.push(address::message(rtnl::NEWADDR, flags, near(at) + 1, &address, settings::PROTOCOL));
        }
        messages.extend((from..to).flat_map(|at| [switch(near(at), true), switch(near(at) + 1, true)]));
        if from == 0 {
            messages.push(switch(bridge, true));
        }
        self.send(&messages)
    }

    /// Adds or removes the routes `from..to` over the gateway `10.255.0.9`.
    pub fn routes(&mut self, from: u32, to: u32, add: bool) -> Result<u64, Refusal> {
        let kind = if add { rtnl::NEWROUTE } else { rtnl::DELROUTE };
        let flags = if add { flag::CREATE | flag::EXCL } else { 0 };
        let route = |at: u32| {
            let body = [2, 32, 0, 0, 254, settings::PROTOCOL, 0, 1, 0, 0, 0, 0];
            let mut message = Message::new(kind, flags).body(&body);
            let [_, a, b, c] = at.to_be_bytes();
            message.bytes(1, &[11 + a, b, c, 1]);
            message.bytes(5, &[10, 255, 0, 9]);
            message
        };
        self.send(&(from..to).map(route).collect::<Vec<_>>())
    }

    /// Reads the tables that a comparison of the work needs, without looking at them.
    pub fn dump(&mut self, routes: bool) -> Result<u64, Refusal> {
        let tables = if routes {
            let own = [2, 0, 0, 0, 0, settings::PROTOCOL, 0, 0, 0, 0, 0, 0];
            vec![Message::new(rtnl::GETROUTE, 0).body(&own)]
        } else {
            vec![crate::link::read::request_all(), Message::new(rtnl::GETADDR, 0).body(&[0; 8])]
        };
        for table in tables {
            self.0.dump(&table, || 0_u64, |count, _| *count += 1)?;
        }
        Ok(0)
    }

    /// Removes everything that [`Raw::make_ports`] made.
    pub fn remove_ports(&mut self, count: u32) -> Result<u64, Refusal> {
        let indexes: Vec<u32> =
            std::iter::once(FIRST_INDEX).chain((0..count).map(|at| FIRST_INDEX + 1 + 2 * at)).collect();
        crate::link::remove::remove(&mut self.0, &indexes).into_iter().collect::<Result<(), _>>()?;
        Ok(indexes.len() as u64 + 1)
    }

    fn send(&mut self, messages: &[Message]) -> Result<u64, Refusal> {
        self.0.change(messages).into_iter().collect::<Result<(), _>>()?;
        Ok(messages.len() as u64)
    }
}

fn link(index: u32, name: &str, driver: &str, data: impl FnOnce(&mut Message)) -> Message {
    let mut message = Message::new(rtnl::NEWLINK, flag::CREATE | flag::EXCL).body(&header(index, 0, 0));
    message.text(attr::IFNAME, name);
    message.nest(attr::LINKINFO, |info| {
        info.text(attr::INFO_KIND, driver);
        info.nest(attr::INFO_DATA, data);
    });
    message
}
