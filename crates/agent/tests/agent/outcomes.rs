//! How what was applied over the service ended: its error, what stays, and what is tried again.

use std::sync::Arc;

use kilter_api::v1::progress::What as Told;
use kilter_api::v1::{self, OnFailure, Outcome, State};
use serde_json::{Value, json};

use crate::remote::{Carpenter, Room};

fn shelf(name: &str) -> Value {
    json!({ "name": name, "wide": 1 })
}

fn ended(told: Vec<Told>) -> v1::Ended {
    let Some(Told::Ended(ended)) = told.into_iter().last() else { panic!("the end comes last") };
    ended
}

#[tokio::test]
async fn create_interface_over_grpc_reports_the_error() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    carpenter.shelves().fails.insert("shop/shelf/top".to_owned(), u32::MAX);
    let told = room.apply(&[shelf("low"), shelf("top")], OnFailure::Revert, None).await.unwrap();
    let failed = told.iter().find_map(|told| match told {
        Told::Finished(finished) if !finished.error.is_empty() => Some(finished.clone()),
        Told::Planned(_) | Told::Finished(_) | Told::Ended(_) => None,
    });
    assert_eq!(failed.unwrap().error, "the wall is wet", "it is told while it goes on");
    let ended = ended(told);
    let transaction = ended.transaction.unwrap();
    assert_eq!(transaction.outcome(), Outcome::Reverted);
    let cause = transaction.cause.unwrap();
    assert_eq!((cause.key.as_str(), cause.error.as_str()), ("shop/shelf/top", "the wall is wet"));
    let states: Vec<State> = ended.statuses.iter().map(v1::Status::state).collect();
    assert_eq!(states, [State::Nonexistent; 2], "nothing of it stays");
    room.close().await;
}

#[tokio::test]
async fn what_went_well_stays_and_each_item_is_told_where_it_stands() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    carpenter.shelves().fails.insert("shop/shelf/top".to_owned(), u32::MAX);
    let told = room.apply(&[shelf("low"), shelf("top")], OnFailure::Continue, None).await.unwrap();
    let ended = ended(told);
    let transaction = ended.transaction.clone().unwrap();
    assert_eq!((transaction.outcome(), transaction.failures), (Outcome::Incomplete, 1));
    let of = |key: &str| ended.statuses.iter().find(|status| status.key == key).unwrap();
    assert_eq!(of("shop/shelf/low").state(), State::Configured);
    assert!(matches!(of("shop/shelf/top").state(), State::Failed | State::Retrying), "{ended:?}");
    assert_eq!(of("shop/shelf/top").error, "the wall is wet");
    room.close().await;
}

#[tokio::test]
async fn what_failed_is_tried_again_as_the_client_says() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    carpenter.shelves().fails.insert("shop/shelf/top".to_owned(), 2);
    let period = Some(prost_types::Duration { seconds: 0, nanos: 20_000_000 });
    let retry = Some(v1::RetryRule { period, count: Some(5), longest: period });
    let ended = ended(room.apply(&[shelf("top")], OnFailure::Continue, retry).await.unwrap());
    assert_eq!(ended.transaction.unwrap().outcome(), Outcome::Incomplete);
    room.until("shop/shelf/top", kilter_scheduler::State::Configured).await;
    let listed = room.client.clone().list_transactions(v1::ListTransactionsRequest::default()).await;
    let listed = listed.unwrap().into_inner().transactions;
    let retries = listed.iter().filter(|txn| txn.txn_type.starts_with("retry of")).count();
    assert_eq!(retries, 2, "{listed:?}");
    assert_eq!(carpenter.shelves().fails["shop/shelf/top"], 0);
    room.close().await;
}

#[tokio::test]
async fn whoever_waits_is_told_the_end_when_nothing_is_left_to_do_or_the_time_is_over() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    let span = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let rules = |period, wait| v1::ApplyRequest {
        retry: Some(v1::RetryRule { period, count: Some(5), longest: period }),
        wait,
        ..v1::ApplyRequest::default()
    };
    carpenter.shelves().fails.insert("shop/shelf/top".to_owned(), 2);
    let patient = rules(span(0, 20_000_000), span(600, 0));
    let end = ended(room.apply_by(&[shelf("top")], OnFailure::Continue, patient).await.unwrap());
    assert_eq!(end.transaction.as_ref().unwrap().outcome(), Outcome::Incomplete);
    assert_eq!(end.waited, Some(v1::WaitReply { settled: true, unsettled: Vec::new() }));
    assert_eq!(end.statuses.iter().map(v1::Status::state).collect::<Vec<_>>(), [State::Configured]);

    carpenter.shelves().fails.insert("shop/shelf/low".to_owned(), 1);
    let hasty = rules(span(3600, 0), span(0, 0));
    let both = [shelf("top"), shelf("low")];
    let end = ended(room.apply_by(&both, OnFailure::Continue, hasty).await.unwrap());
    let waited = end.waited.unwrap();
    let late: Vec<&str> = waited.unsettled.iter().map(|status| status.key.as_str()).collect();
    assert!(!waited.settled && late == ["shop/shelf/low"], "{waited:?}");
    room.close().await;
}
