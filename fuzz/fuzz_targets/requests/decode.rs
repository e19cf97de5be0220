// Shared with the plain test that replays the seeds.

use kilter_api::v1;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A body of REST: refused, or written as JSON that reads as the same again.
fn body<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> bool {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return false };
    let written = serde_json::to_value(&read).expect("what was read can be written");
    let again: T = serde_json::from_value(written.clone()).expect("what was written can be read");
    assert_eq!(serde_json::to_value(&again).expect("what was read can be written"), written);
    true
}

/// A request of the service: refused, or encoded as bytes that decode as the same again.
fn message<T: Message + Default + PartialEq>(bytes: &[u8]) -> bool {
    let Ok(read) = T::decode(bytes) else { return false };
    let again = T::decode(read.encode_to_vec().as_slice()).expect("what was encoded can be decoded");
    assert!(again == read, "what was encoded is decoded as something else");
    true
}

/// Decodes as the request that the first byte chooses; the answer says whether it was accepted.
pub(crate) fn decode(bytes: &[u8]) -> bool {
    let Some((which, rest)) = bytes.split_first() else { return false };
    match which % 16 {
        0 => body::<v1::PlanBody>(rest),
        1 => body::<v1::ApplyBody>(rest),
        2 => body::<v1::ItemBody>(rest),
        3 => body::<v1::ResyncBody>(rest),
        4 => body::<v1::ConfirmationBody>(rest),
        5 => body::<v1::ExtensionBody>(rest),
        6 => body::<v1::PausedBody>(rest),
        7 => body::<v1::WaitBody>(rest),
        8 => message::<v1::PlanRequest>(rest),
        9 => message::<v1::ApplyRequest>(rest),
        10 => message::<v1::ListItemsRequest>(rest),
        11 => message::<v1::NotifyRequest>(rest),
        12 => message::<v1::ResyncRequest>(rest),
        13 => message::<v1::ExtendConfirmationRequest>(rest),
        14 => message::<v1::WatchStatusesRequest>(rest),
        _ => message::<v1::GetGraphRequest>(rest),
    }
}
