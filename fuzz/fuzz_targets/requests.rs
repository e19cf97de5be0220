//! Any bytes as a request of REST or of the service: refused, or the same again when written and read once more.
#![no_main]

#[path = "requests/decode.rs"]
mod decode;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    decode::decode(bytes);
});
