//! The seeds of the fuzzer hold without one: nothing panics, and what is accepted reads back.

#[path = "../../../../fuzz/fuzz_targets/requests/decode.rs"]
mod decode;

#[test]
fn every_seed_of_the_request_fuzzer_holds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/requests");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        accepted += u32::from(decode::decode(&std::fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(accepted > 5, "some seeds are requests");
}
