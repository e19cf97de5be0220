//! Seeded randomness: the same seed gives the same throws on every machine.

/// A small generator of pseudo-random numbers (SplitMix64), or throws that somebody else has made.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
    /// Throws that were made already, the next one last.
    made: Option<Vec<u8>>,
}

impl Dice {
    /// Dice that will always fall the same way.
    pub fn new(seed: u64) -> Self {
        Self { state: seed, made: None }
    }

    /// Dice whose throws are these bytes, and zero from then on.
    pub fn made(throws: &[u8]) -> Self {
        Self { state: 0, made: Some(throws.iter().rev().copied().collect()) }
    }

    /// Whether all throws that were made already have been used.
    pub fn is_used_up(&self) -> bool {
        self.made.as_ref().is_some_and(Vec::is_empty)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        if let Some(made) = &mut self.made {
            return made.pop().map_or(0, u64::from);
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound.
    ///
    /// **Assumes** that the bound is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing is below zero");
        let bound = u64::try_from(bound).expect("a size fits in 64 bits");
        usize::try_from(self.number() % bound).expect("below a size")
    }

    /// True once in `n` throws, on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of the things; `None` if there are none.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        if things.is_empty() { None } else { things.get(self.below(things.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_falls_the_same_way() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            (0..8).map(|_| dice.below(100)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
    }

    #[test]
    fn throws_may_be_made_beforehand() {
        let mut dice = Dice::made(&[3, 255]);
        assert_eq!((dice.below(100), dice.is_used_up()), (3, false));
        assert_eq!((dice.below(100), dice.is_used_up()), (55, true));
        assert_eq!((dice.number(), dice.is_used_up()), (0, true));
        assert!(!Dice::new(1).is_used_up());
    }
}
