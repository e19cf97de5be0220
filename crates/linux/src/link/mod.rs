//! Links: how each kind is made, changed, removed and read.
//!
//! A link is made with the index that we give it, which is its mark. What the kernel does not take while it makes a
//! link (description, second names, how the link-local address is made) follows by that index in the same batch: if the
//! creation is refused, there is no link with that index, and nothing that is not ours can be touched.

pub(crate) mod attribute;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod write;

#[cfg(test)]
mod tests;

use kilter_model::linux::{AdminState, Link, LinkFields, LinkKind, Tap};
use kilter_scheduler::{Facts, Key};
use rustix::io::Errno;

use crate::former::{ALT_NAMES, Place, Side, open_before};
use crate::netlink::{KernelError, Message};
use crate::order::{LinkFacts, Order, Site};
use crate::survey;
use crate::tap;

/// Makes a link.
pub(crate) fn create(site: &mut Site<'_>, link: &Link, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    match &link.kind {
        LinkKind::Loopback(_) => {
            let index = site.index(&link.name, needs)?;
            return configure(site, index, (&link.name, Side::Link), &link.fields);
        }
        LinkKind::Foreign { driver } => {
            return Err(KernelError::Foreign {
                subject: link.name.to_string(),
                reason: format!("a link of driver `{driver}` cannot be made"),
            });
        }
        LinkKind::Veth(_) => {
            if let Some(index) = site.shared.take_peer(site.netns.as_str(), &link.name) {
                let messages = write::change(index, &link.fields, None, None);
                return Ok(Order::new("configure link", messages).teaching(LinkFacts { index }));
            }
            if let Some(order) = follow(site, link)? {
                return Ok(order);
            }
        }
        LinkKind::Tap(settings) | LinkKind::Tun(settings) => {
            if let Some(order) = follow(site, link)? {
                return Ok(order);
            }
            let is_tap = matches!(link.kind, LinkKind::Tap(_));
            let index = tap::make(site, &link.name, settings, is_tap)?;
            let messages = write::change(index, &link.fields, None, None);
            return Ok(Order::new("configure link", messages).teaching(LinkFacts { index }));
        }
        LinkKind::Bridge(_)
        | LinkKind::Vxlan(_)
        | LinkKind::Macvlan(_)
        | LinkKind::Macvtap(_)
        | LinkKind::Ifb(_)
        | LinkKind::Dummy(_)
        | LinkKind::Vlan(_)
        | LinkKind::Vrf(_)
        | LinkKind::Bond(_) => {
            if let Some(order) = follow(site, link)? {
                return Ok(order);
            }
        }
    }
    write::create(site, link, needs)
}

/// Brings back a link of ours that somebody renamed or moved: it is known by its index, and keeps all that is on it.
fn follow(site: &mut Site<'_>, link: &Link) -> Result<Option<Order>, KernelError> {
    let shared = site.shared;
    let Some(index) = shared.index_made_as(site.netns.as_str(), &link.name) else { return Ok(None) };
    let refused = |refusal| KernelError::refused("look for link", &link.name, refusal);
    let mut found = None;
    for netns in survey::namespaces(shared).map_err(refused)? {
        let Ok(space) = shared.spaces.get(netns.as_str()) else { continue };
        let seen = read::read_index_of(&mut space.requests(), index).map_err(refused)?;
        if let Some(seen) = seen {
            found = Some((space, seen));
            break;
        }
    }
    let Some((space, seen)) = found else { return Ok(None) };
    if write::driver(&link.kind) != seen.driver() {
        return Ok(None);
    }
    let back = write::back(index, &link.name, (space.name != site.netns.as_str()).then_some(&site.space));
    space.requests().change_one(&back).map_err(|refusal| {
        KernelError::refused("bring back link", format!("{} from {}", link.name, seen.name), refusal)
    })?;
    let messages = write::change(index, &link.fields, Some(&seen.fields()), None);
    Ok(Some(Order::new("configure link", messages).teaching(LinkFacts { index })))
}

/// Changes a link in place: one request for all that differs, second names apart.
pub(crate) fn update(
    site: &mut Site<'_>,
    old: &Link,
    new: &Link,
    own: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = own_index(site, &new.name, own, needs)?;
    let actual;
    let old = if matches!(old.kind, LinkKind::Foreign { .. }) {
        // It was seen before it was declared, so nobody looked closely.
        actual = actual_link(site, new)?;
        &actual
    } else {
        old
    };
    let place = Place::new(&site.space, index, Side::Link);
    let readings = (old.fields.reading.as_ref(), new.fields.reading.as_ref());
    let open = open_before((old, readings.0), readings.1, old.given(new));
    if !open.is_empty() {
        let is = match &old.fields.reading {
            Some(_) => old.clone(),
            None => actual_link(site, new)?,
        };
        site.shared.formers.remember(place, &open, &is)?;
    }
    let (filled, given_back) = site.shared.formers.fill_link(place, old, new)?;
    let new = &filled;
    if let (LinkKind::Tap(before) | LinkKind::Tun(before), LinkKind::Tap(after) | LinkKind::Tun(after)) =
        (&old.kind, &new.kind)
        && (before.owner, before.owner_group) != (after.owner, after.owner_group)
        && let LinkKind::Tap(is) | LinkKind::Tun(is) = actual_link(site, new)?.kind
    {
        let owned = Tap { owner: after.owner, owner_group: after.owner_group, ..is };
        tap::own(site, &new.name, &owned, matches!(new.kind, LinkKind::Tap(_)))?;
    }
    let primary = match (&old.kind, &new.kind) {
        (LinkKind::Bond(old), LinkKind::Bond(new)) if old.primary != new.primary => match &new.primary {
            Some(port) => Some(site.index(port, needs)?),
            None => None,
        },
        _ => None,
    };
    let lower = match (&old.kind, &new.kind) {
        (LinkKind::Vxlan(old), LinkKind::Vxlan(new)) if old.link != new.link => match &new.link {
            Some(link) => Some(write::find_lower(site, link, needs)?.index),
            None => None,
        },
        _ => None,
    };
    let data = |data: &mut Message| write::kind_data(data, &new.kind, Some(&old.kind), lower, primary);
    let mut info = Message::new(0, 0);
    data(&mut info);
    let has_data = info.len() > crate::netlink::message::HEADER;
    let word = write::driver(&new.kind);
    let kind: Option<write::KindData<'_>> = has_data.then_some((word, &data));
    let messages = write::change(index, &new.fields, Some(&old.fields), kind);
    let order = Order::new("change link", messages).of_option(write::option(&new.kind));
    Ok(order.teaching(LinkFacts { index }).giving_back(given_back))
}

/// A link as it is.
fn actual_link(site: &Site<'_>, link: &Link) -> Result<Link, KernelError> {
    let missing = || KernelError::NoLink { link: link.name.to_string(), netns: site.netns.to_string() };
    survey::link(site.shared, &site.netns, &link.name)?.ok_or_else(missing)
}

/// What is on a link that is there.
pub(crate) fn fields_of(site: &Site<'_>, index: u32, name: &str) -> Result<LinkFields, KernelError> {
    let refused = |refusal| KernelError::refused("read link", name, refusal);
    let seen = read::read_index_of(&mut site.space.requests(), index).map_err(refused)?;
    let missing = || KernelError::NoLink { link: name.to_owned(), netns: site.netns.to_string() };
    Ok(seen.ok_or_else(missing)?.fields())
}

/// Puts on a link that we did not make what is said and differs, and remembers what it was.
pub(crate) fn configure(
    site: &Site<'_>,
    index: u32,
    (name, side): (&str, Side),
    fields: &LinkFields,
) -> Result<Order, KernelError> {
    let mut given = LinkFields::default().given(fields);
    let state = fields.state.filter(|_| side == Side::Existing);
    if given.is_empty() && fields.alt_names.is_empty() && state != Some(AdminState::Down) {
        return Ok(Order::new("configure link", Vec::new()).teaching(LinkFacts { index }));
    }
    let mut is = fields_of(site, index, name)?;
    is.alt_names.retain(|name| fields.alt_names.contains(name));
    given.push(ALT_NAMES);
    given.extend(state.filter(|state| *state == AdminState::Down).map(|_| "state"));
    site.shared.formers.remember(Place::new(&site.space, index, side), &given, &is)?;
    let mut messages = write::change(index, fields, Some(&is), None);
    messages
        .extend((state == Some(AdminState::Down) && is.state != state).then(|| write::switch(index, false)));
    Ok(Order::new("configure link", messages).teaching(LinkFacts { index }))
}

/// Gives a link that we did not make back what it was.
pub(crate) fn let_go(
    site: &Site<'_>,
    index: u32,
    side: Side,
    fields: &LinkFields,
) -> Result<Order, KernelError> {
    let place = Place::new(&site.space, index, side);
    let (before, given_back) = site.shared.formers.fill(place, &LinkFields::default())?;
    let mut messages = write::change(index, &before, Some(fields), None);
    if fields.state == Some(AdminState::Down) && before.state == Some(AdminState::Up) {
        messages.push(write::switch(index, true));
    }
    Ok(Order::new("give link back", messages).tolerating(GONE).giving_back(given_back.with(ALT_NAMES)))
}

/// The index of an item's own link.
pub(crate) fn own_index(
    site: &mut Site<'_>,
    link: &str,
    own: Option<&Facts>,
    needs: &[(Key, Facts)],
) -> Result<u32, KernelError> {
    match own.and_then(|facts| facts.downcast::<LinkFacts>()) {
        Some(facts) => Ok(facts.index),
        None => site.index(link, needs),
    }
}

/// Refusals that mean that a link is gone already.
pub(crate) const GONE: &[Errno] = &[Errno::NODEV, Errno::NOENT, Errno::SRCH];
