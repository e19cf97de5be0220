//! Whatever bytes a kernel may send: every decoder ends, none reads outside of them, and a table that is read against an
//! earlier read of it says what it says by itself.
#![no_main]

use kilter_linux::fuzzed::{decode_events, decode_refusals, read_after};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    decode_refusals(bytes);
    decode_events(bytes);
    // Two reads of one table, one after the other.
    let (before, after) = bytes.split_at(bytes.len() / 2);
    assert!(read_after(before, after), "what was read before does not change what is read");
});
