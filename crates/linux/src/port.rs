//! Ports: a link is bound to its bridge, bond or VRF, and how a bridge treats it.

use kilter_model::linux::{Port, PortOptions};
use kilter_scheduler::{Facts, Key};

use crate::former::{Place, Side, open_before};
use crate::link::read::read_index_of;
use crate::link::{GONE, attribute as attr, write};
use crate::netlink::message::u32_at;
use crate::netlink::{Attributes, KernelError, Message, Received, rtnl};
use crate::order::{Order, Site};

const PRIORITY: u16 = 2;
const COST: u16 = 3;
const HAIRPIN: u16 = 4;
const GUARD: u16 = 5;
const PROTECT: u16 = 6;
const FAST_LEAVE: u16 = 7;
const LEARNING: u16 = 8;
const UNICAST_FLOOD: u16 = 9;
const MCAST_FLOOD: u16 = 27;
const BCAST_FLOOD: u16 = 30;
const NEIGH_SUPPRESS: u16 = 32;
const ISOLATED: u16 = 33;

/// Binds a link.
pub(crate) fn create(site: &mut Site<'_>, port: &Port, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    let (index, master) = (site.index(&port.link, needs)?, site.index(&port.master, needs)?);
    site.shared.formers.forget(Place::new(&site.space, index, Side::Port));
    let mut messages = vec![write::bind(index, master)];
    messages.extend(options(index, &port.options, None));
    Ok(Order::new("bind port", messages))
}

/// Changes how a bridge treats a port, or whose port it is.
pub(crate) fn update(
    site: &mut Site<'_>,
    old: &Port,
    new: &Port,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    if old.master != new.master {
        return create(site, new, needs);
    }
    let index = site.index(&new.link, needs)?;
    let place = Place::new(&site.space, index, Side::Port);
    let given = old.options.given(&new.options);
    let open = open_before((&old.options, old.reading.as_ref()), new.reading.as_ref(), given);
    if !open.is_empty() {
        let refused = |refusal| KernelError::refused("read link", &new.link, refusal);
        let seen = read_index_of(&mut site.space.requests(), index).map_err(refused)?;
        let is = seen.and_then(|seen| seen.port).unwrap_or_default();
        site.shared.formers.remember(place, &open, &is)?;
    }
    let (filled, given_back) = site.shared.formers.fill(place, &new.options)?;
    let messages = options(index, &filled, Some(&old.options)).into_iter().collect();
    Ok(Order::new("change port", messages).giving_back(given_back))
}

/// Looses a link.
pub(crate) fn delete(site: &mut Site<'_>, port: &Port, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    match site.index(&port.link, needs) {
        Ok(index) => Ok(Order::new("loose port", vec![write::bind(index, 0)]).tolerating(GONE)),
        Err(KernelError::NoLink { .. }) => Ok(Order::nothing()),
        Err(error) => Err(error),
    }
}

fn options(index: u32, new: &PortOptions, old: Option<&PortOptions>) -> Option<Message> {
    let mut data = Message::new(0, 0);
    let empty = data.len();
    write_options(&mut data, new, old);
    (data.len() > empty).then(|| {
        let mut message = Message::new(rtnl::NEWLINK, 0).body(&write::header(index, 0, 0));
        message.nest(attr::LINKINFO, |info| {
            info.text(attr::INFO_SLAVE_KIND, "bridge");
            info.nest(attr::INFO_SLAVE_DATA, |data| write_options(data, new, old));
        });
        message
    })
}

fn write_options(data: &mut Message, new: &PortOptions, old: Option<&PortOptions>) {
    let none = PortOptions::default();
    let old = old.unwrap_or(&none);
    if let Some(priority) = new.priority.filter(|_| new.priority != old.priority) {
        data.u16(PRIORITY, priority);
    }
    if let Some(cost) = new.cost.filter(|_| new.cost != old.cost) {
        data.u32(COST, cost);
    }
    let switches = [
        (HAIRPIN, new.hairpin, old.hairpin),
        (GUARD, new.bpdu_guard, old.bpdu_guard),
        (PROTECT, new.root_block, old.root_block),
        (FAST_LEAVE, new.fast_leave, old.fast_leave),
        (LEARNING, new.learning, old.learning),
        (UNICAST_FLOOD, new.flood, old.flood),
        (MCAST_FLOOD, new.multicast_flood, old.multicast_flood),
        (BCAST_FLOOD, new.broadcast_flood, old.broadcast_flood),
        (NEIGH_SUPPRESS, new.neighbour_suppression, old.neighbour_suppression),
        (ISOLATED, new.isolated, old.isolated),
    ];
    for (kind, new, old) in switches {
        if let Some(on) = new.filter(|_| new != old) {
            data.u8(kind, u8::from(on));
        }
    }
}

/// Reads the message in which a bridge tells about one of its ports: the index of the port, and how it is treated.
pub(crate) fn decode(received: &Received<'_>) -> Option<(u32, PortOptions)> {
    const PROTINFO: u16 = 12;
    if received.kind != rtnl::NEWLINK {
        return None;
    }
    let told = Attributes::after(received.payload, 16).get(PROTINFO)?;
    Some((u32_at(received.payload, 4)?, read(told.nested())))
}

/// Reads everything.
pub(crate) fn read(data: Attributes<'_>) -> PortOptions {
    let mut options = PortOptions::default();
    for attribute in data {
        let on = || attribute.as_u8().map(|on| on != 0);
        match attribute.kind {
            PRIORITY => options.priority = attribute.as_u16(),
            COST => options.cost = attribute.as_u32(),
            HAIRPIN => options.hairpin = on(),
            GUARD => options.bpdu_guard = on(),
            PROTECT => options.root_block = on(),
            FAST_LEAVE => options.fast_leave = on(),
            LEARNING => options.learning = on(),
            UNICAST_FLOOD => options.flood = on(),
            MCAST_FLOOD => options.multicast_flood = on(),
            BCAST_FLOOD => options.broadcast_flood = on(),
            NEIGH_SUPPRESS => options.neighbour_suppression = on(),
            ISOLATED => options.isolated = on(),
            _ => {}
        }
    }
    options
}
