//! The description of the API: what can be asked, and what may be answered, for programs.
//!
//! It tells what this service broker does of the Open Service Broker API 2.17, in OpenAPI 3.0, no more: whoever generates
//! a client or a test from it gets the answers that it lists.

use serde_json::{Map, Value as Json, json};

/// Everything that the API describes.
pub(crate) fn description() -> Json {
    let instance = "/v2/service_instances/{instance}";
    let binding = "/v2/service_instances/{instance}/service_bindings/{binding}";
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Event flows as services",
            "version": "2.17",
            "description": "The Open Service Broker API, as far as services of events need it.",
        },
        "security": [{"platform": []}],
        "components": {"securitySchemes": {"platform": {"type": "http", "scheme": "basic"}}},
        "paths": {
            "/v2/catalog": {"get": operation("What is offered.", &[], None, &[(200, catalog())])},
            instance: instances(),
            format!("{instance}/last_operation"): {
                "get": operation(
                    "What has become of the last operation.",
                    &[path("instance"), hint("operation"), hint("service_id"), hint("plan_id")],
                    None,
                    &[(200, progress()), (404, error()), (410, empty())],
                ),
            },
            binding: {
                "put": operation("Refused: nothing can be bound.", &places(), Some(json!({"type": "object"})), &[]),
                "get": operation("There are no bindings.", &places(), None, &[(404, error())]),
                "delete": operation("There are no bindings.", &ended(), None, &[(410, empty())]),
            },
            format!("{binding}/last_operation"): {
                "get": operation("There are no bindings.", &places(), None, &[(404, error())]),
            },
        },
    })
}

fn instances() -> Json {
    let eventually = json!({"name": "accepts_incomplete", "in": "query", "schema": {"type": "boolean"}});
    let hints = [path("instance"), eventually.clone(), hint("service_id"), hint("plan_id")];
    json!({
        "put": operation(
            "Orders an instance.",
            &[path("instance"), eventually.clone()],
            Some(order()),
            &[(200, empty()), (202, begun()), (409, error()), (422, error())],
        ),
        "get": operation(
            "An instance that is there.",
            &[path("instance")],
            None,
            &[(200, instance()), (404, error())],
        ),
        "patch": operation(
            "Changes an instance.",
            &[path("instance"), eventually],
            Some(change()),
            &[(200, empty()), (404, error()), (422, error())],
        ),
        "delete": operation(
            "Ends an instance.",
            &hints,
            None,
            &[(202, begun()), (410, empty()), (422, error())],
        ),
    })
}

/// One operation with the answers that every operation may give, and its own.
fn operation(summary: &str, parameters: &[Json], body: Option<Json>, answers: &[(u16, Json)]) -> Json {
    let version = json!({
        "name": "X-Broker-API-Version",
        "in": "header",
        "required": true,
        "schema": {"type": "string", "enum": ["2.13", "2.14", "2.15", "2.16", "2.17"]},
    });
    let everywhere = [400, 401, 412, 500].map(|code| (code, error()));
    let answers: Map<String, Json> = everywhere
        .into_iter()
        .chain(answers.iter().cloned())
        .map(|(code, schema)| {
            let content = json!({"application/json": {"schema": schema}});
            (code.to_string(), json!({"description": meaning(code), "content": content}))
        })
        .collect();
    let parameters: Vec<Json> = [version].into_iter().chain(parameters.iter().cloned()).collect();
    let mut operation = json!({"summary": summary, "parameters": parameters, "responses": answers});
    if let Some(schema) = body {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

fn meaning(code: u16) -> &'static str {
    match code {
        200 => "It is so.",
        202 => "It begins, or goes on.",
        400 => "The request cannot be understood.",
        401 => "The platform is not known.",
        404 => "It is not there.",
        409 => "It exists with other attributes.",
        410 => "It is gone.",
        412 => "The version of the API is not spoken.",
        422 => "It cannot be done now, or not so.",
        _ => "The cluster did not do its part.",
    }
}

fn path(name: &str) -> Json {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
}

fn hint(name: &str) -> Json {
    json!({"name": name, "in": "query", "schema": {"type": "string"}})
}

fn places() -> [Json; 2] {
    [path("instance"), path("binding")]
}

/// What is said of a binding that is to end.
fn ended() -> Vec<Json> {
    places().into_iter().chain([hint("service_id"), hint("plan_id")]).collect()
}

/// An object with these fields, of which some are required.
fn object(required: &[&str], fields: &Json) -> Json {
    let mut object = json!({"type": "object", "properties": fields});
    if !required.is_empty() {
        object["required"] = required.into();
    }
    object
}

fn text() -> Json {
    json!({"type": "string"})
}

fn empty() -> Json {
    json!({"type": "object", "additionalProperties": false})
}

fn error() -> Json {
    let words = ["AsyncRequired", "ConcurrencyError", "MaintenanceInfoConflict"];
    let fields = json!({
        "error": {"type": "string", "enum": words},
        "description": text(),
        "instance_usable": {"type": "boolean"},
        "update_repeatable": {"type": "boolean"},
    });
    let mut error = object(&["description"], &fields);
    error["additionalProperties"] = false.into();
    error
}

fn begun() -> Json {
    object(&["operation"], &json!({"operation": {"type": "string", "maxLength": 10_000}}))
}

fn progress() -> Json {
    let states = json!({"type": "string", "enum": ["in progress", "succeeded", "failed"]});
    object(
        &["state"],
        &json!({"state": states, "description": text(), "instance_usable": {"type": "boolean"}}),
    )
}

fn instance() -> Json {
    let fields = json!({"service_id": text(), "plan_id": text(), "parameters": {"type": "object"}});
    object(&["service_id", "plan_id"], &fields)
}

fn context() -> Json {
    let fields = json!({"platform": text(), "namespace": text(), "instance_name": text()});
    object(&["namespace"], &fields)
}

fn order() -> Json {
    let fields = json!({
        "service_id": text(),
        "plan_id": text(),
        "organization_guid": text(),
        "space_guid": text(),
        "context": context(),
        "parameters": {"type": "object"},
        "maintenance_info": {"type": "object"},
    });
    object(&["service_id", "plan_id", "organization_guid", "space_guid", "context"], &fields)
}

fn change() -> Json {
    let fields = json!({
        "service_id": text(),
        "plan_id": text(),
        "parameters": {"type": "object"},
        "maintenance_info": {"type": "object"},
    });
    object(&["service_id"], &fields)
}

fn catalog() -> Json {
    let flag = json!({"type": "boolean"});
    let plan = json!({
        "id": text(),
        "name": text(),
        "description": text(),
        "free": flag,
        "bindable": flag,
        "maximum_polling_duration": {"type": "integer"},
        "schemas": {"type": "object"},
    });
    let plans =
        json!({"type": "array", "minItems": 1, "items": object(&["id", "name", "description"], &plan)});
    let service = json!({
        "id": text(),
        "name": {"type": "string", "pattern": "^\\S+$"},
        "description": text(),
        "bindable": flag,
        "instances_retrievable": flag,
        "bindings_retrievable": flag,
        "plan_updateable": flag,
        "metadata": {"type": "object"},
        "plans": plans,
    });
    let service = object(&["id", "name", "description", "bindable", "plans"], &service);
    object(&["services"], &json!({"services": {"type": "array", "items": service}}))
}
