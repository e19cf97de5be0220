//! Spans over OTLP: one for each event, transaction and operation.
//!
//! Decided here: what a span is called and what it says. A transaction and its operations are told when the transaction
//! has ended, with the times they had. Keys and errors are told, values are not: they may hold secrets.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_events::{EventRecord, Opening};
use kilter_scheduler::{Outcome, Record, Timestamp};
use kilter_southbound::Finished;
use opentelemetry::trace::{Span as _, SpanBuilder, Status, TraceContextExt as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use serde::{Deserialize, Serialize};

use super::metrics::{outcome_name, type_name};

/// At most this many operations of one transaction are told; how many there were is told in any case.
const OPERATIONS: usize = 4096;

/// How long the end of the agent waits for the last spans to be taken.
const LAST: Duration = Duration::from_secs(2);

/// What can be set about traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where spans go: the address of an OTLP collector over gRPC, such as `http://127.0.0.1:4317`. Default: nowhere.
    pub endpoint: Option<String>,
}

/// Why spans cannot be told.
#[derive(Debug, thiserror::Error)]
#[error("failed to prepare traces for `{endpoint}`")]
pub struct TraceError {
    endpoint: String,
    #[source]
    source: ExporterBuildError,
}

/// An operation that has ended.
struct Operation {
    name: Cow<'static, str>,
    attributes: Vec<KeyValue>,
    error: Option<String>,
    start: SystemTime,
    stop: SystemTime,
}

/// Tells spans to a collector.
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// The event under way.
    event: Option<Context>,
    /// The operations of the transaction under way.
    operations: Vec<Operation>,
}

impl Traces {
    /// Begins to tell spans, if somebody is to be told.
    ///
    /// **Assumes** a tokio runtime that goes on while spans are told.
    pub fn begin(settings: &Settings) -> Result<Option<Self>, TraceError> {
        let Some(endpoint) = &settings.endpoint else { return Ok(None) };
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = exporter.map_err(|source| TraceError { endpoint: endpoint.clone(), source })?;
        let resource = Resource::builder_empty()
            .with_service_name("kilter")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let tracer = provider.tracer("kilter");
        Ok(Some(Self { provider, tracer, event: None, operations: Vec::new() }))
    }

    /// How to have the last spans taken at the end.
    pub fn last(&self) -> LastSpans {
        LastSpans(self.provider.clone())
    }

    pub(super) fn opened(&mut self, opening: &Opening, now: SystemTime) {
        let name = opening.description.lines().next().unwrap_or_default().to_owned();
        let mut attributes = vec![KeyValue::new("kilter.event", number(opening.seq))];
        attributes.extend(opening.follow_up_to.map(|seq| KeyValue::new("kilter.follow-up-to", number(seq))));
        let span = SpanBuilder::from_name(format!("event {name}"))
            .with_start_time(now)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, &Context::new());
        self.event = Some(Context::new().with_span(span));
    }

    pub(super) fn finished(&mut self, operation: &Finished<'_>, now: SystemTime) {
        if self.operations.len() == OPERATIONS {
            return;
        }
        let mut attributes = vec![KeyValue::new("kilter.kind", operation.kind.to_owned())];
        attributes.extend(operation.key.map(|key| KeyValue::new("kilter.key", key.to_string())));
        self.operations.push(Operation {
            name: operation.action.name().into(),
            attributes,
            error: operation.failure().map(|failure| failure.message.to_string()),
            start: now.checked_sub(operation.took).unwrap_or(now),
            stop: now,
        });
    }

    pub(super) fn committed(&mut self, record: &Record) {
        let operations = record.steps().iter().filter(|step| step.is_operation()).count();
        let mut span = SpanBuilder::from_name(format!("txn {}", type_name(&record.txn_type)))
            .with_start_time(moment(record.start))
            .with_attributes([
                KeyValue::new("kilter.txn", number(record.seq)),
                KeyValue::new("kilter.outcome", outcome_name(&record.outcome)),
                KeyValue::new("kilter.operations", number(operations as u64)),
                KeyValue::new("kilter.description", record.description.clone()),
            ])
            .start_with_context(&self.tracer, self.event.as_ref().unwrap_or(&Context::new()));
        match &record.outcome {
            Outcome::Applied | Outcome::AppliedWithPending => {}
            Outcome::Incomplete(cause) | Outcome::Reverted(cause) | Outcome::RevertFailed { cause, .. } => {
                span.set_status(Status::error(format!("{}: {}", cause.key, cause.error)));
            }
        }
        let txn = Context::new().with_remote_span_context(span.span_context().clone());
        for operation in self.operations.drain(..) {
            let mut span = SpanBuilder::from_name(operation.name)
                .with_start_time(operation.start)
                .with_attributes(operation.attributes)
                .start_with_context(&self.tracer, &txn);
            if let Some(error) = operation.error {
                span.set_status(Status::error(error));
            }
            span.end_with_timestamp(operation.stop);
        }
        span.end_with_timestamp(moment(record.stop));
    }

    pub(super) fn closed(&mut self, record: &EventRecord) {
        // What was read for a plan alone belongs to no transaction.
        self.operations.clear();
        let Some(event) = self.event.take() else { return };
        if let Some(cause) = record.cause() {
            event.span().set_status(Status::error(cause.to_string()));
        }
        event.span().end();
    }
}

/// The spans that nobody has taken yet.
#[derive(Clone, Debug)]
pub struct LastSpans(SdkTracerProvider);

impl LastSpans {
    /// Waits until they are taken, or until it has taken too long.
    pub async fn take(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(LAST)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("the last spans were not taken: {error}");
        }
    }
}

fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(at.0)
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
