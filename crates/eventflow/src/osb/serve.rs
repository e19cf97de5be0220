//! One run of the service broker. Every copy answers platforms; the one that holds the lease carries out operations.

use std::future::Future;
use std::pin::pin;

use tokio::net::TcpListener;

use crate::lease::Lease;
use crate::osb::http::{Access, routes};
use crate::osb::keeper::Keeper;

/// Answers platforms, and carries out what they are promised, until it is stopped.
pub async fn serve(
    listener: TcpListener,
    mut keeper: Keeper,
    access: Access,
    mut lease: Option<Lease>,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let mut stop = pin!(stop);
    let routes = routes(&keeper, access);
    // A catalog that is not known yet would be an empty one.
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = keeper.ready() => {}
    }
    let ended = tokio::select! {
        () = &mut stop => Ok(()),
        ended = async { axum::serve(listener, routes).await } => ended,
        () = keep(&mut keeper, lease.as_mut()) => Ok(()),
    };
    if let Some(lease) = &mut lease {
        lease.give_up().await;
    }
    ended
}

/// Carries out operations whenever the lease is ours; never ends.
async fn keep(keeper: &mut Keeper, lease: Option<&mut Lease>) {
    let Some(lease) = lease else { return keeper.keep().await };
    loop {
        lease.take().await;
        tracing::info!("carries out operations");
        tokio::select! {
            () = keeper.keep() => {}
            () = lease.keep() => tracing::warn!("another copy carries out operations"),
        }
    }
}
