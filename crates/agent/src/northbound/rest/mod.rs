//! The REST interface: JSON over HTTP, below `/api/v1`, and the addresses that the published designs name.
//!
//! Decided here: which routes there are (each file lists its own, with the role it needs and what it takes, so that
//! nothing is served that is not described), how errors look, and who gets in. Not decided here: what a question means:
//! every route asks the same service that gRPC asks ([`super::grpc`]), and says its answer as JSON.
//!
//! Read next: [`route`] for what a route is, [`items`] for the first of them, [`watch`] for what never ends.

mod asked;
mod audit;
mod changes;
mod confirmation;
mod controller;
mod drawing;
mod history;
pub(in crate::northbound) mod items;
mod page;
mod reference;
mod route;
mod scheduler;
mod shapes;
mod stats;
mod trouble;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use kilter_api::openapi;
use kilter_api::v1::{Problem, Reason};

pub use self::reference::reference;
use self::route::Route;
use self::trouble::Trouble;
use self::watch::Board;
use super::Northbound;
use super::door::{Caller, Door, Peer, Role};
use super::listen::{Limits, Recognised};

/// What every route is answered with.
#[derive(Clone)]
pub(super) struct Rest {
    agent: Northbound,
    door: Arc<Door>,
    board: Board,
    limits: Limits,
    description: Arc<str>,
}

impl Rest {
    /// A question to the service, in the name of a caller.
    fn ask<T>(caller: &Caller, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.extensions_mut().insert(caller.clone());
        request
    }
}

/// Every route.
fn routes() -> Vec<Route> {
    let groups = [
        items::routes(),
        changes::routes(),
        confirmation::routes(),
        history::routes(),
        drawing::routes(),
        watch::routes(),
        audit::routes(),
        scheduler::routes(),
        stats::routes(),
        controller::routes(),
    ];
    groups.into_iter().flatten().collect()
}

/// The description of every route: OpenAPI 3.1.
pub fn description() -> serde_json::Value {
    let operations: Vec<_> = routes().into_iter().map(|route| route.operation).collect();
    openapi::document(env!("CARGO_PKG_VERSION"), &operations)
}

/// The REST interface of an agent.
///
/// **Assumes** that whoever serves it adds the [`Peer`] of each connection.
pub(super) fn router(agent: Northbound, door: Arc<Door>, limits: Limits) -> Router {
    let board = Board::follow(&agent);
    let description = description().to_string().into();
    let rest = Rest { agent, door, board, limits, description };
    let mut router = Router::new();
    for route in routes() {
        let admit = from_fn_with_state((rest.clone(), route.role), admit);
        router = router.route(&route.pattern(), route.handler.route_layer(admit));
    }
    router
        .method_not_allowed_fallback(|| async {
            let problem = Problem::new(Reason::Invalid, "this address knows no such method");
            Trouble::with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED, problem)
        })
        .fallback(page::page)
        .with_state(rest)
}

/// Lets a request pass, or says why not.
async fn admit(State((rest, role)): State<(Rest, Role)>, mut request: Request, next: Next) -> Response {
    let Some(peer) = request.extensions().get::<Peer>() else {
        let problem = Problem::new(Reason::Forbidden, "the agent cannot tell who asks");
        return Trouble::from(problem).into_response();
    };
    match rest.door.pass(peer, request.method(), request.uri(), request.headers(), role) {
        Ok(caller) => {
            Recognised::note(request.extensions());
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => Trouble::from(refusal).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_needs_more_than_a_reader() {
        let harmless = ["/api/v1/plan", "/api/v1/wait"];
        for route in routes() {
            let operation = &route.operation;
            let is_look = operation.method == "get" || harmless.contains(&operation.path);
            assert_eq!(
                route.role == Role::Reader || operation.path == "/api/v1/audit",
                is_look,
                "{}",
                operation.path
            );
        }
    }

    #[test]
    fn every_answer_has_a_shape() {
        let description = description();
        for (path, operations) in description["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let content = operation["responses"]["200"]["content"].as_object().unwrap();
                for (media, content) in content {
                    let schema = content["schema"].as_object();
                    assert!(schema.is_some_and(|schema| !schema.is_empty()), "{method} {path}: {media}");
                }
            }
        }
    }

    #[test]
    fn every_message_that_is_named_is_described() {
        let text = description().to_string();
        let schemas = kilter_api::openapi::schemas();
        let mut named = 0;
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "`{name}` is not described");
            named += 1;
        }
        assert!(named > 50);
    }
}
