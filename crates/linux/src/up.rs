//! A link is up.

use kilter_model::linux::Up;
use kilter_scheduler::{Facts, Key};

use crate::former::{GivenBack, Place, Side};
use crate::link::{self, GONE, write};
use crate::mark;
use crate::netlink::KernelError;
use crate::order::{LinkFacts, Order, Site};

/// Switches a link on.
pub(crate) fn create(site: &mut Site<'_>, up: &Up, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    let index = site.index(&up.link, needs)?;
    if !mark::is_ours(index) {
        let is = link::fields_of(site, index, &up.link)?;
        site.shared.formers.remember(Place::new(&site.space, index, Side::Up), &["state"], &is)?;
    }
    Ok(Order::new("set link up", vec![write::switch(index, true)]).teaching(LinkFacts { index }))
}

/// Switches a link off, unless it is not ours and was up before.
pub(crate) fn delete(site: &mut Site<'_>, up: &Up, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    match site.index(&up.link, needs) {
        Ok(index) => {
            let place = Place::new(&site.space, index, Side::Up);
            let was_up = site.shared.formers.field(place, "state").is_some_and(|state| state == "up");
            let switch = (!was_up).then(|| write::switch(index, false));
            let order = Order::new("set link down", switch.into_iter().collect()).tolerating(GONE);
            Ok(order.giving_back(GivenBack::of(place, "state")))
        }
        Err(KernelError::NoLink { .. }) => Ok(Order::nothing()),
        Err(error) => Err(error),
    }
}
