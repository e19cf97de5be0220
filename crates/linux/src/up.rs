//! A link is up.

use kilter_model::linux::Up;
use kilter_scheduler::{Facts, Key};

use crate::link::{GONE, write};
use crate::netlink::KernelError;
use crate::order::{LinkFacts, Order, Site};

/// Switches a link on.
pub(crate) fn create(site: &mut Site<'_>, up: &Up, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    let index = site.index(&up.link, needs)?;
    Ok(Order::new("set link up", vec![write::switch(index, true)]).teaching(LinkFacts { index }))
}

/// Switches a link off.
pub(crate) fn delete(site: &mut Site<'_>, up: &Up, needs: &[(Key, Facts)]) -> Result<Order, KernelError> {
    match site.index(&up.link, needs) {
        Ok(index) => Ok(Order::new("set link down", vec![write::switch(index, false)]).tolerating(GONE)),
        Err(KernelError::NoLink { .. }) => Ok(Order::nothing()),
        Err(error) => Err(error),
    }
}
