//! The audit records: whether they are as they were written.

use axum::Json;
use axum::extract::State;
use kilter_api::v1::AuditReply;

use super::Rest;
use super::route::Route;
use super::trouble::Trouble;
use crate::northbound::door::Role;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/audit", verify)
            .about("Follows the chain of the audit records, and tells where it is broken. Keep the head elsewhere.")
            .needs(Role::Admin)
            .answers("AuditReply")
            .also(&[404]),
    ]
}

async fn verify(State(rest): State<Rest>) -> Result<Json<AuditReply>, Trouble> {
    let Some(audit) = rest.agent.audit.clone() else {
        return Err(Trouble::unknown("this agent keeps no audit records"));
    };
    let chain = tokio::task::spawn_blocking(move || audit.verify()).await;
    let chain = chain
        .map_err(|_| kilter_api::v1::Problem::new(kilter_api::v1::Reason::Broken, "failed to verify"))??;
    let (broken, why) = chain.broken.unzip();
    Ok(Json(AuditReply { records: chain.records, head: chain.head, broken, why: why.unwrap_or_default() }))
}
