//! What is counted about requests, for metrics and for tests that hold the controller to silence.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::request::{Class, Request};

/// Requests by verb, what keeps us up to date, rejections by class, and what platforms were answered.
#[derive(Debug, Default)]
pub struct Counts {
    requests: Mutex<BTreeMap<&'static str, u64>>,
    upkeep: Mutex<BTreeMap<&'static str, u64>>,
    rejections: Mutex<BTreeMap<Class, u64>>,
    answers: Mutex<BTreeMap<u16, u64>>,
}

fn one_more<K: Ord>(counts: &Mutex<BTreeMap<K, u64>>, key: K) {
    *counts.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
}

fn all<K: Ord + Clone>(counts: &Mutex<BTreeMap<K, u64>>) -> BTreeMap<K, u64> {
    counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Counts {
    pub(crate) fn request(&self, request: &Request) {
        let verb = match request {
            Request::Apply { .. } => "apply",
            Request::Status { .. } => "status",
            Request::Patch { .. } => "patch",
            Request::Delete { .. } => "delete",
            Request::Create { .. } => "create",
            Request::Replace { .. } => "replace",
            Request::Announce { .. } => "announce",
            Request::Read { .. } => "read",
        };
        one_more(&self.requests, verb);
    }

    /// Something was asked of the cluster that no decision asked for: `list`, `watch` or `lease`.
    pub(crate) fn kept_up(&self, verb: &'static str) {
        one_more(&self.upkeep, verb);
    }

    pub(crate) fn rejected(&self, class: Class) {
        one_more(&self.rejections, class);
    }

    /// A platform was answered with this code.
    pub(crate) fn answered(&self, code: u16) {
        one_more(&self.answers, code);
    }

    /// How many requests were sent, by verb.
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        all(&self.requests)
    }

    /// How many lists, watches and looks at the lease there were.
    pub fn upkeep(&self) -> BTreeMap<&'static str, u64> {
        all(&self.upkeep)
    }

    /// How many answers platforms got, by code.
    pub fn answers(&self) -> BTreeMap<u16, u64> {
        all(&self.answers)
    }

    /// How many requests were rejected, by class.
    pub fn rejections(&self) -> BTreeMap<Class, u64> {
        all(&self.rejections)
    }

    /// How many requests were sent; what keeps us up to date is none of them.
    pub fn total(&self) -> u64 {
        self.requests().values().sum()
    }
}
