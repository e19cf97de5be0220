//! What waits: confirmations, what is left alone, and waiting itself.

use axum::Json;
use axum::extract::{Extension, State};
use kilter_api::v1;
use kilter_api::v1::agent_server::Agent as _;

use super::Rest;
use super::asked::Told;
use super::route::Route;
use super::trouble::Trouble;
use crate::northbound::door::{Caller, Role};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/confirmation", which)
            .about("Which transaction waits for a confirmation, if one does.")
            .answers("GetConfirmationReply"),
        Route::post("/api/v1/confirmation/confirm", confirm)
            .about("Keeps what waits for a confirmation.")
            .body("ConfirmationBody")
            .answers("GetConfirmationReply")
            .also(&[404, 409]),
        Route::post("/api/v1/confirmation/extend", extend)
            .about("Gives a confirmation more time.")
            .body("ExtensionBody")
            .answers("GetConfirmationReply")
            .also(&[404, 409]),
        Route::post("/api/v1/confirmation/cancel", cancel)
            .about("Takes back what waits for a confirmation, at once.")
            .body("ConfirmationBody")
            .answers("Ended")
            .also(&[404, 409]),
        Route::get("/api/v1/paused", paused)
            .about("The beginnings of keys whose items are left alone when they drift.")
            .answers("SetPausedReply"),
        Route::put("/api/v1/paused", pause)
            .about("Leaves items alone that drift, or heals them again.")
            .body("PausedBody")
            .answers("SetPausedReply"),
        Route::post("/api/v1/wait", wait)
            .about("Answers when nothing is left to do, or when the time is up.")
            .needs(Role::Reader)
            .body("WaitBody")
            .answers("WaitReply"),
    ]
}

type Who = Extension<Caller>;

async fn which(
    State(rest): State<Rest>,
    Extension(caller): Who,
) -> Result<Json<v1::GetConfirmationReply>, Trouble> {
    let request = Rest::ask(&caller, v1::GetConfirmationRequest {});
    Ok(Json(rest.agent.get_confirmation(request).await?.into_inner()))
}

async fn confirm(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Told(v1::ConfirmationBody { id }): Told<v1::ConfirmationBody>,
) -> Result<Json<v1::GetConfirmationReply>, Trouble> {
    Ok(Json(rest.agent.confirm(Rest::ask(&caller, v1::ConfirmRequest { id })).await?.into_inner()))
}

async fn extend(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Told(v1::ExtensionBody { id, within }): Told<v1::ExtensionBody>,
) -> Result<Json<v1::GetConfirmationReply>, Trouble> {
    let request = Rest::ask(&caller, v1::ExtendConfirmationRequest { id, within });
    Ok(Json(rest.agent.extend_confirmation(request).await?.into_inner()))
}

async fn cancel(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Told(v1::ConfirmationBody { id }): Told<v1::ConfirmationBody>,
) -> Result<Json<v1::Ended>, Trouble> {
    let request = Rest::ask(&caller, v1::CancelConfirmationRequest { id });
    Ok(Json(rest.agent.cancel_confirmation(request).await?.into_inner()))
}

async fn paused(State(rest): State<Rest>) -> Result<Json<v1::SetPausedReply>, Trouble> {
    let paused = rest.agent.desk.inquire(|view| view.ledger.paused.clone()).await?;
    Ok(Json(v1::SetPausedReply { paused }))
}

async fn pause(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Told(v1::PausedBody { prefix, paused }): Told<v1::PausedBody>,
) -> Result<Json<v1::SetPausedReply>, Trouble> {
    let request = Rest::ask(&caller, v1::SetPausedRequest { prefix, paused });
    Ok(Json(rest.agent.set_paused(request).await?.into_inner()))
}

async fn wait(
    State(rest): State<Rest>,
    Extension(caller): Who,
    Told(v1::WaitBody { timeout }): Told<v1::WaitBody>,
) -> Result<Json<v1::WaitReply>, Trouble> {
    Ok(Json(rest.agent.wait(Rest::ask(&caller, v1::WaitRequest { timeout })).await?.into_inner()))
}
