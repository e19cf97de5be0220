//! Time as a value, and randomness that its owner seeds.

use std::time::Duration;

/// A moment on a clock that never goes back, counted from wherever its owner began.
///
/// **Why** not `Instant`: the protocol never asks what time it is; it is told. Moments of different machines are never
/// compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment this many milliseconds after the beginning.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The moment a span later.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The span since an earlier moment; nothing if that one is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Throws for delays that shall not coincide, from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound; zero if the bound is.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(self.number().checked_rem(bound).unwrap_or_default()).unwrap_or_default()
    }

    /// A span anywhere between nothing and this one.
    pub(crate) fn up_to(&mut self, span: Duration) -> Duration {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.number().checked_rem(nanos).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_between_moments_do_not_go_below_nothing() {
        let early = Moment::from_millis(5);
        let late = early.after(Duration::from_millis(7));
        assert_eq!(late.since(early), Duration::from_millis(7));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn throws_stay_below_their_bound() {
        let mut jitter = Jitter::new(7);
        assert!((0..100).all(|_| jitter.below(3) < 3 && jitter.up_to(Duration::from_secs(1)) < Duration::from_secs(1)));
        assert_eq!((jitter.below(0), jitter.up_to(Duration::ZERO)), (0, Duration::ZERO));
    }
}
