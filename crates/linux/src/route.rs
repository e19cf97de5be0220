//! Routes.

use std::net::IpAddr;

use kilter_model::linux::{Name, NetnsName, Nexthop, Route, RouteType, Table};
use kilter_scheduler::{Facts, Key};
use rustix::io::Errno;

use crate::address::{scope_number, scope_of};
use crate::ip;
use crate::netlink::message::{u16_at, u32_at};
use crate::netlink::rows::{Rows, read_against};
use crate::netlink::rtnl::family;
use crate::netlink::{Attributes, KernelError, Message, Received, Refusal, Requests, flag, rtnl};
use crate::order::{Maker, Order, Site};

const DST: u16 = 1;
const OIF: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const PREFSRC: u16 = 7;
const METRICS: u16 = 8;
const MULTIPATH: u16 = 9;
const TABLE: u16 = 15;
const VIA: u16 = 18;
const METRIC_MTU: u16 = 2;

const ONLINK: u32 = 4;
const CLONED: u32 = 0x200;
const LOOKUP_TABLE: u32 = 0x1000;
const FIB_MATCH: u32 = 0x2000;
const SCOPE_NOWHERE: u8 = 255;

/// Refusals that mean that a route is gone already: with its link, or with the last address of its link.
const GONE: &[Errno] = &[Errno::SRCH, Errno::NODEV, Errno::NOENT];

/// Adds a route.
pub(crate) fn create(
    site: &mut Site<'_>,
    route: &Route,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let message = set(site, route, needs, flag::CREATE | flag::EXCL, site.shared.protocol())?;
    Ok(Order::new("add route", vec![message]))
}

/// Puts a route in the place of another; it stays whose it is.
pub(crate) fn update(
    site: &mut Site<'_>,
    route: &Route,
    own: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let protocol = Maker::protocol(site.shared, own);
    let message = set(site, route, needs, flag::CREATE | flag::REPLACE, protocol)?;
    Ok(Order::new("change route", vec![message]))
}

/// Removes a route; the kernel leaves one that has another protocol.
pub(crate) fn delete(site: &Site<'_>, route: &Route) -> Order {
    let mut message =
        Message::new(rtnl::DELROUTE, 0).body(&header(route, site.shared.protocol(), SCOPE_NOWHERE, 0));
    place(&mut message, route);
    Order::new("remove route", vec![message]).tolerating(GONE)
}

fn header(route: &Route, protocol: u8, scope: u8, flags: u32) -> [u8; 12] {
    let family = ip::family(route.destination.addr());
    let table = u8::try_from(route.table.0).unwrap_or(0);
    let mut header = [family, route.destination.prefix_len(), 0, 0, table, protocol, scope, 0, 0, 0, 0, 0];
    header[7] = type_number(route.route_type);
    header[8..].copy_from_slice(&flags.to_ne_bytes());
    header
}

/// What tells routes apart.
fn place(message: &mut Message, route: &Route) {
    message.u32(TABLE, route.table.0);
    if route.destination.prefix_len() > 0 {
        message.bytes(DST, &ip::bytes(route.destination.addr()));
    }
    if route.metric() != 0 {
        message.u32(PRIORITY, route.metric());
    }
}

fn set(
    site: &mut Site<'_>,
    route: &Route,
    needs: &[(Key, Facts)],
    flags: u16,
    protocol: u8,
) -> Result<Message, KernelError> {
    let scope = route.scope.map_or_else(|| usual_scope(route), scope_number);
    let onlink = if route.onlink { ONLINK } else { 0 };
    let header = header(route, protocol, scope, onlink);
    let mut message = Message::new(rtnl::NEWROUTE, flags).body(&header);
    place(&mut message, route);
    if let Some(via) = route.via {
        gateway(&mut message, via, route.destination.addr());
    }
    if let Some(link) = &route.link {
        message.u32(OIF, site.index(link, needs)?);
    }
    if let Some(source) = route.source {
        message.bytes(PREFSRC, &ip::bytes(source));
    }
    if let Some(mtu) = route.mtu {
        message.nest(METRICS, |metrics| metrics.u32(METRIC_MTU, mtu));
    }
    if !route.nexthops.is_empty() {
        let mut hops = Vec::new();
        for hop in &route.nexthops {
            let index = hop.link.as_ref().map(|link| site.index(link, needs)).transpose()?;
            hops.push((hop, index.unwrap_or(0)));
        }
        message.nest(MULTIPATH, |list| {
            for (hop, index) in hops {
                write_hop(list, hop, index, route.destination.addr());
            }
        });
    }
    Ok(message)
}

fn gateway(message: &mut Message, via: IpAddr, destination: IpAddr) {
    if via.is_ipv4() == destination.is_ipv4() {
        return message.bytes(GATEWAY, &ip::bytes(via));
    }
    let mut payload = u16::from(ip::family(via)).to_ne_bytes().to_vec();
    payload.extend(ip::bytes(via));
    message.bytes(VIA, &payload);
}

fn write_hop(list: &mut Message, hop: &Nexthop, index: u32, destination: IpAddr) {
    let start = list.len();
    let flags = if hop.onlink { 4 } else { 0 };
    let weight = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    let mut header = [0, 0, flags, weight, 0, 0, 0, 0];
    header[4..].copy_from_slice(&index.to_ne_bytes());
    list.raw(&header);
    if let Some(via) = hop.via {
        gateway(list, via, destination);
    }
    list.set_length_at(start);
}

fn type_number(route_type: RouteType) -> u8 {
    match route_type {
        RouteType::Unicast => 1,
        RouteType::Blackhole => 6,
        RouteType::Unreachable => 7,
        RouteType::Prohibit => 8,
    }
}

/// The scope that a route has if nobody says one: IPv6 has none.
fn usual_scope(route: &Route) -> u8 {
    let direct = route.via.is_none() && route.nexthops.iter().all(|hop| hop.via.is_none());
    let is_v4 = route.destination.addr().is_ipv4();
    if is_v4 && direct && route.route_type == RouteType::Unicast {
        scope_number(kilter_model::linux::Scope::Link)
    } else {
        0
    }
}

/// A route as the kernel tells of it; links are known by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Without links.
    pub(crate) route: Route,
    pub(crate) link: Option<u32>,
    /// The links of the next hops.
    pub(crate) hops: Vec<u32>,
    pub(crate) protocol: u8,
}

/// Reads the message of a route; routes that the kernel keeps for itself are left out.
pub(crate) fn decode(received: &Received<'_>, netns: &NetnsName) -> Option<Seen> {
    if !matches!(received.kind, rtnl::NEWROUTE | rtnl::DELROUTE) {
        return None;
    }
    decode_row(received.payload, netns)
}

/// The same for what stands behind the header of the message.
pub(crate) fn decode_row(row: &[u8], netns: &NetnsName) -> Option<Seen> {
    let header = row.get(..12)?;
    let (family, length, table, protocol, scope, kind) =
        (header[0], header[1], header[4], header[5], header[6], header[7]);
    let flags = u32_at(header, 8)?;
    let route_type = [RouteType::Unicast, RouteType::Blackhole, RouteType::Unreachable, RouteType::Prohibit]
        .into_iter()
        .find(|route_type| type_number(*route_type) == kind)?;
    if flags & CLONED != 0 || header[2] != 0 || header[3] != 0 {
        return None;
    }
    let mut route = Route {
        netns: netns.clone(),
        destination: ip::network(family, None, 0)?,
        route_type,
        via: None,
        link: None,
        onlink: flags & ONLINK != 0,
        nexthops: Vec::new(),
        table: Table(u32::from(table)),
        metric: None,
        source: None,
        scope: None,
        mtu: None,
    };
    let (mut destination, mut link, mut hops) = (None, None, Vec::new());
    for attribute in Attributes::after(row, 12) {
        match attribute.kind {
            DST => destination = ip::read(attribute.payload),
            OIF => link = attribute.as_u32(),
            GATEWAY => route.via = ip::read(attribute.payload),
            VIA => route.via = attribute.payload.get(2..).and_then(ip::read),
            PRIORITY => route.metric = attribute.as_u32(),
            PREFSRC => route.source = ip::read(attribute.payload),
            TABLE => route.table = Table(attribute.as_u32()?),
            METRICS => route.mtu = attribute.nested().get(METRIC_MTU).and_then(|mtu| mtu.as_u32()),
            MULTIPATH => (route.nexthops, hops) = decode_hops(attribute.payload),
            _ => {}
        }
    }
    route.destination = ip::network(family, destination, length)?;
    if family == family::INET6 && route.route_type != RouteType::Unicast {
        // The kernel shows such a route on the loopback, wherever it was said to be.
        link = None;
    }
    route.normalise();
    route.scope = scope_of(scope).filter(|_| family == family::INET && scope != usual_scope(&route));
    Some(Seen { route, link, hops, protocol })
}

fn decode_hops(mut payload: &[u8]) -> (Vec<Nexthop>, Vec<u32>) {
    let (mut hops, mut links) = (Vec::new(), Vec::new());
    while let (Some(length), Some(index)) = (u16_at(payload, 0), u32_at(payload, 4)) {
        let Some(record) = payload.get(..usize::from(length)).filter(|record| record.len() >= 8) else {
            break;
        };
        let attributes = Attributes::after(record, 8);
        let via = attributes.get(GATEWAY).and_then(|via| ip::read(via.payload));
        let other = attributes.get(VIA).and_then(|via| via.payload.get(2..).and_then(ip::read));
        hops.push(Nexthop {
            via: via.or(other),
            link: None,
            weight: u16::from(record[3]) + 1,
            onlink: u32::from(record[2]) & ONLINK != 0,
        });
        links.push(index);
        payload = payload.get((record.len() + 3) & !3..).unwrap_or_default();
    }
    (hops, links)
}

impl Seen {
    /// The route with the names of its links.
    pub(crate) fn named(mut self, name: impl Fn(u32) -> Option<Name>) -> Route {
        self.route.link = self.link.and_then(&name);
        for (hop, index) in self.route.nexthops.iter_mut().zip(&self.hops) {
            hop.link = name(*index);
        }
        self.route
    }
}

/// The routes of one family in all tables, of one protocol or (nought) of all; the kernel filters.
pub(crate) fn read_rows(requests: &mut Requests, family: u8, protocol: u8) -> Result<Rows, Refusal> {
    let rows = read_rows_against(requests, family, protocol, &Rows::default())?;
    Ok(rows.unwrap_or_default())
}

/// The routes of one family in one table; the kernel filters.
pub(crate) fn read_table(requests: &mut Requests, family: u8, table: Table) -> Result<Rows, Refusal> {
    let number = u8::try_from(table.0).unwrap_or(0);
    let mut request = Message::new(rtnl::GETROUTE, 0).body(&[family, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0]);
    request.u32(TABLE, table.0);
    match read_against(requests, &request, rtnl::NEWROUTE, &Rows::default()) {
        // A table without routes is none, and a kernel without the family has none.
        Err(refusal) if refusal.is(Errno::NOENT) || refusal.is_unsupported() => Ok(Rows::default()),
        read => Ok(read?.unwrap_or_default()),
    }
}

/// The same; `None` if they are byte by byte as they were before.
pub(crate) fn read_rows_against(
    requests: &mut Requests,
    family: u8,
    protocol: u8,
    before: &Rows,
) -> Result<Option<Rows>, Refusal> {
    let request = Message::new(rtnl::GETROUTE, 0).body(&[family, 0, 0, 0, 0, protocol, 0, 0, 0, 0, 0, 0]);
    match read_against(requests, &request, rtnl::NEWROUTE, before) {
        // A kernel without the family has no routes of it.
        Err(refusal) if refusal.is_unsupported() => Ok(Some(Rows::default()).filter(|none| none != before)),
        read => read,
    }
}

/// What a look-up of one route says.
#[derive(Debug)]
pub(crate) enum Looked {
    /// This is the route.
    Found(Box<Seen>),
    /// It is certain that there is no such route.
    Absent,
    /// Only a dump can tell: another route stands before it.
    Unclear,
}

/// Looks for one route without a dump: asks the kernel which route it takes to the destination.
///
/// The longest prefix wins, so in the table `main` the route itself answers, or a shorter one if it is not there. A
/// longer one or another table before it hides it.
pub(crate) fn look_up(requests: &mut Requests, sought: &Route) -> Result<Looked, Refusal> {
    if sought.route_type != RouteType::Unicast || !sought.table.is_main() {
        return Ok(Looked::Unclear);
    }
    let destination = sought.destination.addr();
    let (family, length) = (ip::family(destination), if destination.is_ipv4() { 32 } else { 128 });
    let mut header = [family, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[8..].copy_from_slice(&(FIB_MATCH | LOOKUP_TABLE).to_ne_bytes());
    let mut request = Message::new(rtnl::GETROUTE, 0).body(&header);
    request.bytes(DST, &ip::bytes(destination));
    let found = match requests.read(&request, |received| decode(received, &sought.netns)) {
        Err(refusal) if refusal.is_any(&[Errno::NETUNREACH]) => return Ok(Looked::Absent),
        Err(refusal) if refusal.is_any(&[Errno::HOSTUNREACH, Errno::ACCESS, Errno::INVAL]) => {
            return Ok(Looked::Unclear);
        }
        found => found?,
    };
    let Some(found) = found else { return Ok(Looked::Unclear) };
    if !found.route.table.is_main() {
        return Ok(Looked::Unclear);
    }
    Ok(if found.route.destination == sought.destination {
        if found.route.metric() == sought.metric() { Looked::Found(Box::new(found)) } else { Looked::Unclear }
    } else if found.route.destination.prefix_len() < sought.destination.prefix_len() {
        Looked::Absent
    } else {
        Looked::Unclear
    })
}
