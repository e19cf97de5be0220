//! What is told about the agent: numbers, and spans at a real collector.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_agent::telemetry::{Metrics, Traces, Watched, scrape, traces};
use kilter_scheduler::{Action, Failure, Key};
use kilter_testkit::world::{Effect, Fault, Mishap};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::house::House;

/// A collector that remembers what it was told.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let told = request.into_inner().resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        self.0.lock().unwrap().extend(told.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn failing(key: &str) -> Fault {
    let failure = Failure::retriable("link setup timed out");
    let mishap = Mishap::Fail { failure, effect: Effect::Before };
    Fault { action: Action::Create, key: Key::new(key), mishap, times: 1 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_transaction_and_operation_is_a_span_at_the_collector() {
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let service = TraceServiceServer::new(collector.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    let serving = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let traces = Traces::begin(&traces::Settings { endpoint: Some(endpoint) }).unwrap().unwrap();
    let last = traces.last();
    let house = House::before(Watched::new((), Metrics::default(), Some(traces)));
    house.hand.world().plan_fault(failing("b/1"));
    house.apply("cli", &["a/1", "b/1 on=a/1"]).await.unwrap();
    house.end().await;
    last.take().await;
    serving.abort();

    let spans = collector.0.lock().unwrap().clone();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let events = named("event Declared Change [cli]");
    let [event] = events.as_slice() else { panic!("one event: {spans:#?}") };
    let txns: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == event.span_id).collect();
    assert!(!txns.is_empty() && txns.iter().all(|txn| txn.name.starts_with("txn changes")), "{txns:#?}");
    let txn = txns[0];
    let below: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == txn.span_id).collect();
    let creates = below.iter().filter(|span| span.name == "create").count();
    assert_eq!(creates, 2, "{below:#?}");
    let failed =
        below.iter().find(|span| span.status.as_ref().is_some_and(|status| !status.message.is_empty()));
    assert_eq!(failed.unwrap().status.as_ref().unwrap().message, "link setup timed out");
    let spans_of_time = |span: &Span| span.start_time_unix_nano <= span.end_time_unix_nano;
    assert!(spans.iter().all(spans_of_time), "{spans:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_numbers_say_where_items_stand_and_what_was_done() {
    let metrics = Metrics::default();
    let house = House::before(Watched::new((), metrics.clone(), None));
    house.apply("cli", &["a/1", "a/2", "b/1 on=absent/1"]).await.unwrap();
    let text = metrics.text();
    for line in [
        r#"kilter_items{state="CONFIGURED"} 2"#,
        r#"kilter_items{state="PENDING"} 1"#,
        r#"kilter_transactions_total{type="changes",outcome="pending"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "`{line}` in:\n{text}");
    }
    house.end().await;
}

#[tokio::test]
async fn the_numbers_are_read_over_http_where_that_is_wanted() {
    assert!(scrape::serve(&scrape::Settings::default(), Metrics::default()).await.unwrap().is_none());
    let settings = scrape::Settings { listen: Some("127.0.0.1:0".parse().unwrap()) };
    let (listen, serving) = scrape::serve(&settings, Metrics::default()).await.unwrap().unwrap();
    let serving = tokio::spawn(serving);
    let settings = scrape::Settings { listen: Some(listen) };
    let ask = async |line: &str| {
        let mut stream = TcpStream::connect(listen).await.unwrap();
        let question = format!("GET {line} HTTP/1.1\r\nhost: kilter\r\nconnection: close\r\n\r\n");
        stream.write_all(question.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(Duration::from_secs(60), stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        answer
    };
    let answer = ask("/metrics").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("application/openmetrics-text"),
        "{answer}"
    );
    assert!(answer.contains("# TYPE kilter_settled gauge"), "{answer}");
    assert!(ask("/").await.starts_with("HTTP/1.1 404"));
    let taken = scrape::serve(&settings, Metrics::default()).await;
    assert!(taken.is_err(), "two cannot listen at one place");
    serving.abort();
}
