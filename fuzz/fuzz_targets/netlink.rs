//! Whatever bytes a kernel may send: every decoder ends, and none reads outside of them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    kilter_linux::decode_refusals(bytes);
    kilter_linux::decode_events(bytes);
});
