//! Scratch: where what the kernel says is received, lent to whoever receives on this thread.
//!
//! **Why** not a buffer for each socket: thousands of namespaces have several sockets each, and nearly all of them are
//! silent. What they need to receive is needed once per thread that receives.

use std::cell::Cell;

/// The largest answer of a dump, and the most that is heard at once.
const SIZE: usize = 256 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the buffer of this thread. Whoever asks for it while it is lent gets another one.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut buffer = SCRATCH.take();
    buffer.resize(SIZE, 0);
    let done = work(&mut buffer);
    SCRATCH.set(buffer);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_lends_the_same_buffer_again_and_another_one_meanwhile() {
        let address = |buffer: &mut [u8]| buffer.as_ptr();
        let (outer, inner) = with_scratch(|buffer| (address(buffer), with_scratch(address)));
        assert_ne!(outer, inner);
        assert_eq!(with_scratch(address), outer);
    }
}
