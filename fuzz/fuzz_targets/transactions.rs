//! Random scripts of transactions against the reference model: any bytes are a script, and every property must hold.
#![no_main]

use kilter_testkit::simulate::{decode, run, script, shrink};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    // A panic is caught where it happens and told with its script; the hook of the fuzzer would end the program first.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        let commands = decode(bytes);
        if run(&commands).is_ok() {
            return;
        }
        let short = shrink(commands);
        if let Err(broken) = run(&short) {
            eprintln!("{}\nafter line {} of\n\n{}", broken.what, broken.after + 1, script(&short));
        }
        std::process::abort();
    }
);
