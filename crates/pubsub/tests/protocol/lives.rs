//! Random lives, and the guarantees in each of them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::simulation::random::{live, told};

/// How many lives the test lives.
const LIVES: u64 = 5_000;

#[test]
fn the_guarantees_hold_in_thousands_of_random_lives() {
    let (next, broken) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= LIVES || seed >= broken.load(Ordering::Relaxed) {
                        return;
                    }
                    if live(seed, false).is_err() {
                        broken.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let broken = broken.into_inner();
    assert!(broken == u64::MAX, "{}", told(broken));
}
