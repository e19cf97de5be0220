//! Sending: how a request is carried to the cluster, whoever decided on it.

use std::time::Duration;

use crate::counts::Counts;
use crate::request::{Api, Class, Rejected, Request, Sent};

/// The longest wait that is waited for within an operation; what is longer is waited for until it is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Sends a request, and counts it; once more if the cluster asks for a moment.
pub(crate) async fn send(api: &dyn Api, counts: &Counts, request: Request) -> Result<Sent, Rejected> {
    counts.request(&request);
    let sent = api.send(request.clone()).await;
    let Err(rejected) = &sent else { return sent };
    counts.rejected(rejected.class());
    // Who is to wait for longer, or is not told for how long, is not waited for here.
    let wait = rejected.retry_after.filter(|wait| *wait <= LONGEST_WAIT);
    let Some(wait) = wait.filter(|_| rejected.class() == Class::Throttled) else { return sent };
    tokio::time::sleep(wait).await;
    counts.request(&request);
    let sent = api.send(request).await;
    if let Err(rejected) = &sent {
        counts.rejected(rejected.class());
    }
    sent
}
