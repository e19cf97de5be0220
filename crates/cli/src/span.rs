//! Spans of time on the command line and on the wire.

use std::time::Duration;

pub(crate) use kilter_scheduler::span::parse;

/// A span as the wire says it.
pub(crate) fn wire(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}
