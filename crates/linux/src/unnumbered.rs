//! A link borrows an address: it carries an address of another link as a host address, with a mark of its own.

use std::net::IpAddr;

use ipnet::IpNet;
use kilter_model::linux::{Address, Unnumbered};
use kilter_scheduler::{Facts, Key};

use crate::address::{self, Seen};
use crate::netlink::{KernelError, Message, flag, rtnl};
use crate::order::{Order, Site};

/// Borrows the first address of each family that the lender has, and drops what was borrowed and is not lent any more.
pub(crate) fn create(
    site: &mut Site<'_>,
    unnumbered: &Unnumbered,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&unnumbered.link, needs)?;
    let lender = site.index(&unnumbered.lender, needs)?;
    let refused = |refusal| KernelError::refused("read addresses", &unnumbered.lender, refusal);
    let lent = address::read_link(&mut site.space.requests(), lender).map_err(refused)?;
    let borrowed = lendable(&lent);
    if borrowed.is_empty() {
        let subject = format!("{} of {}", unnumbered.link, unnumbered.lender);
        return Err(KernelError::refused("borrow address", subject, rustix::io::Errno::ADDRNOTAVAIL.into()));
    }
    let protocol = site.shared.borrowed_protocol();
    let refused = |refusal| KernelError::refused("read addresses", &unnumbered.link, refusal);
    let present = address::read_link(&mut site.space.requests(), index).map_err(refused)?;
    let is_stale = |seen: &&Seen| {
        seen.protocol == protocol && borrowed.iter().all(|address| address.address != seen.address.address)
    };
    let drop = |seen: &Seen| address::message(rtnl::DELADDR, 0, index, &seen.address, protocol);
    let add = |address: &Address| {
        address::message(rtnl::NEWADDR, flag::CREATE | flag::REPLACE, index, address, protocol)
    };
    let messages: Vec<Message> =
        present.iter().filter(is_stale).map(drop).chain(borrowed.iter().map(add)).collect();
    Ok(Order::new("borrow address", messages))
}

/// Gives back what was borrowed.
pub(crate) fn delete(
    site: &mut Site<'_>,
    unnumbered: &Unnumbered,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = match site.index(&unnumbered.link, needs) {
        Ok(index) => index,
        Err(KernelError::NoLink { .. }) => return Ok(Order::nothing()),
        Err(error) => return Err(error),
    };
    let refused = |refusal| KernelError::refused("read addresses", &unnumbered.link, refusal);
    let seen = address::read_link(&mut site.space.requests(), index).map_err(refused)?;
    let protocol = site.shared.borrowed_protocol();
    let messages = seen
        .iter()
        .filter(|seen| seen.protocol == protocol)
        .map(|seen| address::message(rtnl::DELADDR, 0, index, &seen.address, protocol))
        .collect();
    // A link that is switched off in the same batch drops its IPv6 addresses by itself.
    Ok(Order::new("give address back", messages).tolerating(address::GONE))
}

/// What is borrowed of these addresses: the first of each family that reaches beyond its host and link, as a host
/// address.
fn lendable(lent: &[Seen]) -> Vec<Address> {
    let of_family = |v4: bool| {
        let usable = |seen: &&Seen| {
            let ip = seen.address.address.addr();
            let is_near = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
            ip.is_ipv4() == v4 && !ip.is_loopback() && !is_near
        };
        let ip = lent.iter().find(usable)?.address.address.addr();
        Some(Address { no_prefix_route: true, ..Address::new(IpNet::from(ip)) })
    };
    [of_family(true), of_family(false)].into_iter().flatten().collect()
}

/// Which of these links lends what this one has borrowed.
pub(crate) fn lender_of(borrowed: &[&Seen], all: &[Seen], index: u32, borrowed_protocol: u8) -> Option<u32> {
    let ip = borrowed.first()?.address.address.addr();
    let lends = |seen: &&Seen| {
        seen.index != index && seen.protocol != borrowed_protocol && seen.address.address.addr() == ip
    };
    all.iter().find(lends).map(|seen| seen.index)
}
