//! What is configured on a link that somebody else makes.

use kilter_model::linux::{AdminState, Existing};
use kilter_scheduler::{Facts, Key};

use crate::former::{Place, Side, open_before};
use crate::link::{self, write};
use crate::netlink::KernelError;
use crate::order::{LinkFacts, Order, Site};

/// Puts what is said on the link.
pub(crate) fn create(
    site: &mut Site<'_>,
    existing: &Existing,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&existing.name, needs)?;
    link::configure(site, index, (&existing.name, Side::Existing), &existing.fields)
}

/// Puts what differs on the link, and gives back what is not said any more.
pub(crate) fn update(
    site: &mut Site<'_>,
    old: &Existing,
    new: &Existing,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&new.name, needs)?;
    let place = Place::new(&site.space, index, Side::Existing);
    let mut given = old.fields.given(&new.fields);
    if new.fields.state == Some(AdminState::Down) {
        given.push("state");
    }
    let readings = (old.fields.reading.as_ref(), new.fields.reading.as_ref());
    let open = open_before((&old.fields, readings.0), readings.1, given);
    if !open.is_empty() {
        let is = link::fields_of(site, index, &new.name)?;
        site.shared.formers.remember(place, &open, &is)?;
    }
    let (filled, given_back) = site.shared.formers.fill(place, &new.fields)?;
    let mut messages = write::change(index, &filled, Some(&old.fields), None);
    // To be up is an item of its own; to be down, or up again as it was, is not.
    let was_down = old.fields.state == Some(AdminState::Down);
    match (filled.state, new.fields.state) {
        (Some(AdminState::Down), _) if !was_down => messages.push(write::switch(index, false)),
        (Some(AdminState::Up), None) if was_down => messages.push(write::switch(index, true)),
        _ => {}
    }
    Ok(Order::new("configure link", messages).teaching(LinkFacts { index }).giving_back(given_back))
}

/// Gives the link back what it was: it was somebody else's before, and is again.
pub(crate) fn delete(
    site: &mut Site<'_>,
    existing: &Existing,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    match site.index(&existing.name, needs) {
        Ok(index) => link::let_go(site, index, Side::Existing, &existing.fields),
        Err(KernelError::NoLink { .. }) => Ok(Order::nothing()),
        Err(error) => Err(error),
    }
}
