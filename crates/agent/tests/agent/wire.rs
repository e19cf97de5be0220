//! What programs find at the socket besides the verbs: health, reflection, and a place to tell what they saw.

use std::path::PathBuf;
use std::time::Duration;

use kilter_agent::northbound::closing::{Closer, Closing};
use kilter_agent::northbound::listen::Limits;
use kilter_agent::northbound::socket::Socket;
use kilter_agent::northbound::{self, Listeners, Settings, on_own_thread, serve};
use kilter_api::client::{channel, connect};
use kilter_api::v1::{
    self, ListEventsRequest, NotifyRequest, Observation, Problem, Reason, WatchStatusesRequest,
};
use tempfile::{TempDir, tempdir};
use tokio::sync::oneshot;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::house::House;
use crate::http::PATIENCE;

/// The service that answers for the agent.
const AGENT: &str = "kilter.v1.Agent";

struct Reached {
    house: House,
    closer: Closer,
    served: oneshot::Receiver<()>,
    path: PathBuf,
    _socket: Socket,
    _folder: TempDir,
}

fn reached() -> Reached {
    let (house, folder) = (House::start(), tempdir().unwrap());
    let path = folder.path().join("agent.sock");
    let socket = Socket::open(&path).unwrap();
    let (closer, closing) = Closing::pair();
    let listeners = Listeners::new().at_socket(&socket).unwrap().until(closing);
    let door = northbound::door(&Settings::default()).unwrap();
    let serving = serve(listeners, door, None, Limits::default(), house.desk.clone()).unwrap();
    let served = on_own_thread(serving).unwrap();
    Reached { house, closer, served, path, _socket: socket, _folder: folder }
}

#[tokio::test]
async fn the_health_of_the_service_is_told_as_grpc_has_it() {
    let reached = reached();
    let mut health = HealthClient::new(channel(&reached.path).await.unwrap());
    for service in ["", AGENT] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    let unknown = HealthCheckRequest { service: "kilter.v1.Other".to_owned() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
    reached.house.end().await;
}

#[tokio::test]
async fn reflection_lists_the_services_and_describes_the_questions() {
    let reached = reached();
    let mut reflection = ServerReflectionClient::new(channel(&reached.path).await.unwrap());
    let mut ask = async |what: MessageRequest| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(what) };
        let mut told =
            reflection.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
        told.message().await.unwrap().unwrap().message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(listed) =
        ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("services are listed")
    };
    let names: Vec<&str> = listed.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&AGENT) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let described = ask(MessageRequest::FileContainingSymbol(AGENT.to_owned())).await;
    let MessageResponse::FileDescriptorResponse(files) = described else { panic!("{described:?}") };
    let text = String::from_utf8_lossy(&files.file_descriptor_proto.concat()).into_owned();
    for question in ["Apply", "WatchStatuses", "Notify", "Explain"] {
        assert!(text.contains(question), "{question} is described");
    }
    reached.house.end().await;
}

#[tokio::test]
async fn what_a_client_saw_becomes_an_event_and_nonsense_is_refused() {
    let reached = reached();
    let mut client = connect(&reached.path).await.unwrap();
    let seen = |key: &str, value: &str| NotifyRequest {
        observations: vec![Observation { key: key.to_owned(), value: value.to_owned() }],
    };
    client.notify(seen("linux/netns/blue", "{\"kind\": \"netns\", \"name\": \"blue\"}")).await.unwrap();
    client.notify(seen("linux/netns/gone", "")).await.unwrap();
    reached.house.desk.settled(Duration::from_secs(30)).await.unwrap();
    let events = client.list_events(ListEventsRequest::default()).await.unwrap().into_inner().events;
    let observed = events.iter().filter(|event| event.description.contains("linux/netns/")).count();
    assert_eq!(observed, 2, "{events:?}");
    let refused = client.notify(seen("linux/netns/blue", "{\"nam\": 7}")).await.unwrap_err();
    assert_eq!(Problem::from_status(&refused).unwrap().reason(), Reason::Invalid);
    reached.house.end().await;
}

#[tokio::test]
async fn a_watcher_of_the_service_that_stopped_reading_catches_up_without_loss() {
    let reached = reached();
    let mut client = connect(&reached.path).await.unwrap();
    let mut watching = client.watch_statuses(WatchStatusesRequest::default()).await.unwrap().into_inner();
    assert!(watching.message().await.unwrap().unwrap().snapshot);
    // It reads nothing while far more happens than waits for it.
    let many = 300;
    for number in 0..many {
        let item = format!("a/{number} v={}", "x".repeat(2000));
        reached.house.apply("cli", &[&item]).await.unwrap();
    }
    let mut seen = std::collections::BTreeSet::new();
    let caught_up = async {
        while seen.len() < many {
            let told = watching.message().await.unwrap().expect("the watch goes on");
            seen.extend(told.statuses.into_iter().map(|status| status.key));
        }
    };
    let caught_up = tokio::time::timeout(PATIENCE, caught_up).await;
    assert!(caught_up.is_ok(), "{} of {many} were told", seen.len());
    reached.house.end().await;
}

#[tokio::test]
async fn a_server_that_closes_answers_those_who_were_let_in_and_keeps_the_others_waiting() {
    let reached = reached();
    let mut client = connect(&reached.path).await.unwrap();
    let mut watching = client.watch_statuses(WatchStatusesRequest::default()).await.unwrap();
    assert!(watching.get_mut().message().await.unwrap().unwrap().snapshot);
    reached.closer.close(reached.served, Duration::from_secs(30)).await;
    assert_eq!(watching.get_mut().message().await.unwrap(), None, "the stream ends well");
    let late = std::os::unix::net::UnixStream::connect(&reached.path);
    assert!(late.is_ok(), "whoever comes now waits for the next agent: {late:?}");
    reached.house.end().await;
}

/// Asks for every page of a list, each with the token of the one before it.
macro_rules! pages {
    ($client:expr, $ask:ident, $request:expr, $list:ident, $one:expr) => {{
        let (mut request, mut pages) = ($request, Vec::new());
        loop {
            let reply = $client.$ask(request.clone()).await.unwrap().into_inner();
            pages.push(reply.$list.iter().map($one).collect::<Vec<_>>());
            if reply.next_page_token.is_empty() {
                break pages;
            }
            request.page_token = reply.next_page_token;
        }
    }};
}

#[tokio::test]
async fn the_service_tells_long_lists_page_by_page() {
    let reached = reached();
    for number in 1..=5 {
        let items = [format!("a/{number}"), format!("b/1 v={number}")];
        reached.house.apply("cli", &items.each_ref().map(String::as_str)).await.unwrap();
    }
    let mut client = connect(&reached.path).await.unwrap();
    let page_size = 2;

    // By key, forwards.
    let request = v1::ListItemsRequest { page_size, ..v1::ListItemsRequest::default() };
    let items = pages!(client, list_items, request, items, |item| item.key.clone());
    assert_eq!(items, [["a/1", "a/2"], ["a/3", "a/4"], ["a/5", "b/1"]]);
    let request = v1::ListItemsRequest { page_token: "a/4".to_owned(), ..v1::ListItemsRequest::default() };
    let rest = pages!(client, list_items, request, items, |item| item.key.clone());
    assert_eq!(rest, [["a/5", "b/1"]], "without a size it is all that is left");
    let request = v1::ListStatusesRequest { page_size: 4, ..v1::ListStatusesRequest::default() };
    let statuses = pages!(client, list_statuses, request, statuses, |status| status.key.clone());
    assert_eq!(statuses, [&["a/1", "a/2", "a/3", "a/4"][..], &["a/5", "b/1"][..]]);

    // In time, backwards, with the oldest of each page first.
    let backwards = |mut pages: Vec<Vec<u64>>| {
        assert!(pages.iter().all(|page| page.len() <= 2) && pages.len() > 2, "{pages:?}");
        pages.reverse();
        pages.concat()
    };
    let whole = client.list_transactions(v1::ListTransactionsRequest::default()).await.unwrap();
    let whole = whole.into_inner().transactions;
    let request = v1::ListTransactionsRequest { page_size, ..v1::ListTransactionsRequest::default() };
    let paged = pages!(client, list_transactions, request.clone(), transactions, |txn| txn.seq);
    assert_eq!(backwards(paged), whole.iter().map(|txn| txn.seq).collect::<Vec<_>>());
    let request = v1::ListTransactionsRequest { after: whole[0].seq, ..request };
    let paged = pages!(client, list_transactions, request, transactions, |txn| txn.seq);
    assert_eq!(backwards(paged), whole[1..].iter().map(|txn| txn.seq).collect::<Vec<_>>());

    let whole = client.list_events(ListEventsRequest::default()).await.unwrap().into_inner().events;
    let request = ListEventsRequest { page_size, ..ListEventsRequest::default() };
    let paged = pages!(client, list_events, request, events, |event| event.seq);
    assert_eq!(backwards(paged), whole.iter().map(|event| event.seq).collect::<Vec<_>>());

    let request = v1::TimelineRequest { key: "b/1".to_owned(), ..v1::TimelineRequest::default() };
    let whole = client.timeline(request.clone()).await.unwrap().into_inner().moments;
    let request = v1::TimelineRequest { page_size, ..request };
    let paged = pages!(client, timeline, request, moments, |moment| moment.txn);
    assert_eq!(backwards(paged), whole.iter().map(|moment| moment.txn).collect::<Vec<_>>());

    let nonsense = ListEventsRequest { page_token: "later".to_owned(), ..ListEventsRequest::default() };
    assert_eq!(client.list_events(nonsense).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    reached.house.end().await;
}
