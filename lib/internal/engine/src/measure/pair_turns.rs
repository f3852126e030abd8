//! The order in which two programs run, in pairs.

use jitterstat::gate::Side;
use jitterstat::stats::random::SplitMix64;

/// A run of one side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairTurn {
    /// Index of the pair.
    pub pair: u64,
    /// Position of the side within the pair.
    pub slot: u64,
    pub side: Side,
}

/// Returns the turns of two sides without end, each pair in an order drawn from the seed.
pub fn pair_turns(seed: u64) -> impl Iterator<Item = PairTurn> {
    let mut random = SplitMix64::new(seed);
    (0..).flat_map(move |pair| {
        let mut sides = [Side::Base, Side::Candidate];
        if !random.coin() {
            sides.reverse();
        }
        (0..).zip(sides).map(move |(slot, side)| PairTurn { pair, slot, side })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_determine_the_order() {
        let turns: Vec<PairTurn> = pair_turns(7).take(400).collect();
        let mut first_sides = Vec::new();
        for (pair, turns) in (0..).zip(turns.chunks(2)) {
            let [first, second] = turns else { panic!("a pair") };
            assert_eq!((first.pair, first.slot, second.pair, second.slot), (pair, 0, pair, 1));
            assert_ne!(first.side, second.side);
            first_sides.push(first.side);
        }
        let mut random = SplitMix64::new(7);
        let is_base_first: Vec<bool> = (0..200).map(|_| random.coin()).collect();
        let drawn: Vec<bool> = first_sides.iter().map(|side| *side == Side::Base).collect();
        assert_eq!(drawn, is_base_first);
        assert!(drawn.contains(&true) && drawn.contains(&false));
    }
}
