//! The routes as a page of the reference, out of the same list that is served.

use std::fmt::Write as _;

use kilter_api::openapi::{Answer, Form, Operation, Parameter};

use super::routes;

const HEAD: &str = "# REST

Generated from the routes of the agent; `cargo xtask test` checks that it is up to date. `GET /api/v1/openapi.json`
describes the same for programs (OpenAPI 3.1), with every field of every message.

* **Where.** On the agent's unix socket beside gRPC, and over TCP where `[northbound]` in the settings says so:
  `curl --unix-socket /run/kilter/kilter.sock http://localhost/api/v1/health`.
* **Who.** `reader` looks and plans, `operator` also changes, `admin` also removes sources and sees the audit records.
  At the socket root and the agent's user are `admin`, whoever else may open it is `reader`. Over TCP a bearer token or
  a client certificate says who it is; nobody else is let in.
* **Writes from a browser**, and with a certificate, carry `X-Kilter: 1` and come from the same origin.
* **Errors** are `application/problem+json`: `type`, `title`, `status`, `detail`, and `reason`, `message`, `causes`,
  `hint`, `keys`, `misplaced`.
* **Spelling.** States are words (`CONFIGURED`), moments RFC 3339, spans `\"2m\"` or seconds, values JSON. A parameter or
  a field of a body that is not known is an error.
* **Watching** tells what belongs to a change first, then `statuses` with `id:`, the cursor. Whoever goes on from a
  cursor may hear something twice and misses nothing; whoever was away for too long gets a snapshot.
";

/// The page.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    let mut group = String::new();
    for route in routes() {
        let operation = route.operation;
        let of = group_of(operation.path);
        if of != group {
            let _ = write!(text, "\n## `{of}`\n");
            group = of;
        }
        write_operation(&mut text, &operation);
    }
    text
}

/// The first words of a path.
fn group_of(path: &str) -> String {
    let words = if path.starts_with("/api/") { 3 } else { 1 };
    let words: Vec<&str> = path.split('/').skip(1).take(words).collect();
    format!("/{}", words.join("/").split('.').next().unwrap_or_default())
}

fn write_operation(text: &mut String, operation: &Operation) {
    let (method, path) = (operation.method.to_uppercase(), operation.path);
    let _ = write!(text, "\n### {method} {path}\n\n{} Needs `{}`.\n", operation.about, operation.role);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(operation.in_path.iter().map(|one| line(one, "in the path")));
    lines.extend(operation.query.iter().map(|one| line(one, "")));
    lines.extend(operation.header.iter().map(|one| line(one, "header")));
    if let Some(body) = operation.body {
        lines.push(format!("* body: `{body}`"));
    }
    let answer = match operation.answer {
        Answer::Message(message) => format!("`{message}`"),
        Answer::Json(_) => "JSON".to_owned(),
        Answer::Text(media) => format!("`{media}`"),
        Answer::JsonOrText(_) => "JSON, or `text/plain`".to_owned(),
        Answer::Drawing => "`image/svg+xml`, or `text/vnd.graphviz`".to_owned(),
        Answer::Progress(message) => format!("`{message}`, or its progress as server-sent events"),
    };
    lines.push(format!("* answers {answer}"));
    let _ = write!(text, "\n{}\n", lines.join("\n"));
}

fn line(parameter: &Parameter, place: &str) -> String {
    let form = match parameter.form {
        Form::Text => "text".to_owned(),
        Form::Number => "number".to_owned(),
        Form::Seconds => "seconds since 1970".to_owned(),
        Form::Flag => "true or false".to_owned(),
        Form::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Form::Texts => "text, again and again".to_owned(),
    };
    let place = if place.is_empty() { String::new() } else { format!(", {place}") };
    let needed = if parameter.is_needed && place.is_empty() { ", needed" } else { "" };
    format!("* `{}` ({form}{place}{needed}): {}", parameter.name, parameter.about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_what_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rest.md");
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap();
        assert!(kept == reference(), "docs/reference/rest.md is out of date, run with UPDATE_GOLDENFILES=1");
    }
}
