//! What a route is: how it is described, who may use it, and who answers.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use kilter_api::openapi::{Answer, Form, Operation, Parameter};

use super::Rest;
use crate::northbound::door::Role;

/// One route.
pub(super) struct Route {
    pub(super) operation: Operation,
    pub(super) role: Role,
    pub(super) handler: MethodRouter<Rest>,
    /// Whether what varies at the end of the path may hold slashes.
    takes_rest: bool,
}

impl Route {
    fn new<H: Handler<T, Rest>, T: 'static>(
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        role: Role,
        handler: H,
    ) -> Self {
        let operation = Operation {
            method,
            path,
            about: "",
            in_path: Vec::new(),
            query: Vec::new(),
            header: Vec::new(),
            body: None,
            answer: Answer::Json(|| serde_json::Value::Bool(true)),
            also: Vec::new(),
            role: role.name(),
        };
        Self { operation, role, handler: on(filter, handler), takes_rest: false }
    }

    /// Looks at something.
    pub(super) fn get<H: Handler<T, Rest>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("get", MethodFilter::GET), path, Role::Reader, handler)
    }

    /// Does something.
    pub(super) fn post<H: Handler<T, Rest>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("post", MethodFilter::POST), path, Role::Operator, handler)
    }

    /// Makes something so.
    pub(super) fn put<H: Handler<T, Rest>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("put", MethodFilter::PUT), path, Role::Operator, handler)
    }

    /// Removes something.
    pub(super) fn delete<H: Handler<T, Rest>, T: 'static>(path: &'static str, handler: H) -> Self {
        Self::new(("delete", MethodFilter::DELETE), path, Role::Operator, handler)
    }

    /// Says what it is, in one sentence.
    pub(super) fn about(mut self, about: &'static str) -> Self {
        self.operation.about = about;
        self
    }

    /// Needs another role than its method suggests.
    pub(super) fn needs(mut self, role: Role) -> Self {
        (self.role, self.operation.role) = (role, role.name());
        self
    }

    /// Takes a key at the end of its path, slashes included.
    pub(super) fn key(mut self, about: &'static str) -> Self {
        self.operation.in_path.push(Parameter { name: "key", about, form: Form::Text, is_needed: true });
        self.takes_rest = true;
        self
    }

    /// Takes something else in its path.
    pub(super) fn part(mut self, name: &'static str, form: Form, about: &'static str) -> Self {
        self.operation.in_path.push(Parameter { name, about, form, is_needed: true });
        self
    }

    /// Takes a parameter that may be left out.
    pub(super) fn may(mut self, name: &'static str, form: Form, about: &'static str) -> Self {
        self.operation.query.push(Parameter { name, about, form, is_needed: false });
        self
    }

    /// Takes a parameter that must be there.
    pub(super) fn must(mut self, name: &'static str, form: Form, about: &'static str) -> Self {
        self.operation.query.push(Parameter { name, about, form, is_needed: true });
        self
    }

    /// Takes a header.
    pub(super) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.operation.header.push(Parameter { name, about, form: Form::Text, is_needed: false });
        self
    }

    /// Takes a body.
    pub(super) fn body(mut self, message: &'static str) -> Self {
        self.operation.body = Some(message);
        self
    }

    /// Answers a message.
    pub(super) fn answers(mut self, message: &'static str) -> Self {
        self.operation.answer = Answer::Message(message);
        self
    }

    /// Answers something else.
    pub(super) fn gives(mut self, answer: Answer) -> Self {
        self.operation.answer = answer;
        self
    }

    /// May answer further status codes.
    pub(super) fn also(mut self, codes: &[u16]) -> Self {
        self.operation.also.extend(codes);
        self
    }

    /// The path as the router takes it.
    pub(super) fn pattern(&self) -> String {
        if self.takes_rest {
            self.operation.path.replace("{key}", "{*key}")
        } else {
            self.operation.path.to_owned()
        }
    }
}
