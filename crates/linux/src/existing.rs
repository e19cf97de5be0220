//! What is configured on a link that somebody else makes.

use kilter_model::linux::Existing;
use kilter_scheduler::{Facts, Key};

use crate::link::write;
use crate::netlink::KernelError;
use crate::order::{LinkFacts, Order, Site};

/// Puts what is said on the link.
pub(crate) fn create(
    site: &mut Site<'_>,
    existing: &Existing,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&existing.name, needs)?;
    let messages = write::change(index, &existing.fields, None, None);
    Ok(Order::new("configure link", messages).teaching(LinkFacts { index }))
}

/// Puts what differs on the link.
pub(crate) fn update(
    site: &mut Site<'_>,
    old: &Existing,
    new: &Existing,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&new.name, needs)?;
    let messages = write::change(index, &new.fields, Some(&old.fields), None);
    Ok(Order::new("configure link", messages).teaching(LinkFacts { index }))
}

/// Leaves the link as it is: it was somebody else's before, and is again.
pub(crate) fn delete() -> Order {
    Order::nothing()
}
