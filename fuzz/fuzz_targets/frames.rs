//! Whatever comes over a wire of publish and subscribe: every decoder ends, and what it accepts is the same when it is
//! written and read again.
#![no_main]

use kilter_pubsub::fuzzed::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read(bytes).expect("what was accepted reads back");
});
