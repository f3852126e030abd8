use proptest::prelude::*;

use super::*;
use crate::stats::random::SplitMix64;

/// Number of ticks of a simulated round.
const ROUND_TICKS: u64 = 100;
/// Maximum number of ticks of a simulated burst, many times a round.
const MAX_BURST: u64 = 2_000;
/// Factor of the bursts in noisy rounds, if no round is noisy.
const QUIET: f64 = 1.0;
const UPPER: f64 = 0.95;
const LOWER: f64 = 0.995;

/// The number of ticks of a burst.
#[derive(Clone, Copy, Debug)]
enum BurstLength {
    Fixed(u64),
    /// Ends after each tick with equal probability; contains the mean.
    Geometric(f64),
    /// Longer than `n` ticks with the probability `1 / (n + 1)`, up to two rounds.
    HeavyTailed,
}

impl BurstLength {
    /// P(length > n).
    fn tail(self, n: u64) -> f64 {
        match self {
            Self::Fixed(length) => f64::from(u8::from(n < length)),
            Self::Geometric(mean) => (1.0 - 1.0 / mean).powi(n as i32),
            Self::HeavyTailed if n < 2 * ROUND_TICKS => 1.0 / (n + 1) as f64,
            Self::HeavyTailed => 0.0,
        }
    }

    fn draw(self, random: &mut SplitMix64) -> u64 {
        let unit = 1.0 - random.unit();
        match self {
            Self::Fixed(length) => length,
            Self::Geometric(mean) => 1 + (unit.ln() / (-1.0 / mean).ln_1p()) as u64,
            Self::HeavyTailed => (1.0 / unit).min((2 * ROUND_TICKS) as f64) as u64,
        }
    }
}

/// Bursts of missed ticks that begin at random, before or in a round.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    /// Probability that a burst begins at a tick of a quiet round.
    start: f64,
    /// Factor of this probability in noisy rounds, of which there is one in ten.
    noise: f64,
    length: BurstLength,
}

impl Bursts {
    /// Returns the probability that a tick is missed.
    fn share(self) -> f64 {
        let in_rounds = |start: f64| {
            let in_time: f64 = (0..MAX_BURST).map(|n| 1.0 - start * self.length.tail(n)).product();
            1.0 - in_time
        };
        0.9 * in_rounds(self.start) + 0.1 * in_rounds(self.start * self.noise)
    }

    fn round(self, random: &mut SplitMix64) -> RoundMisses {
        let start = if random.below(10) == 0 { self.start * self.noise } else { self.start };
        let mut is_missed = [false; ROUND_TICKS as usize];
        let mut at = 0;
        loop {
            // The distance to the next burst.
            at += 1 + ((1.0 - random.unit()).ln() / (-start).ln_1p()) as u64;
            if at > MAX_BURST + ROUND_TICKS {
                break;
            }
            let first = at - 1;
            let end = (first + self.length.draw(random)).min(MAX_BURST + ROUND_TICKS);
            for tick in first.max(MAX_BURST)..end {
                is_missed[(tick - MAX_BURST) as usize] = true;
            }
        }
        let missed = is_missed.iter().filter(|missed| **missed).count() as u64;
        RoundMisses { ticks: ROUND_TICKS, missed }
    }

    fn run(self, rounds: u64, random: &mut SplitMix64) -> Vec<RoundMisses> {
        (0..rounds).map(|_| self.round(random)).collect()
    }
}

/// The share of simulated runs whose bound was right.
#[derive(Debug)]
struct Coverage {
    upper: f64,
    lower: f64,
    /// Share of the upper bound that takes ticks as independent.
    ticks: f64,
}

fn simulate(bursts: Bursts, rounds: u64, max_burst: Option<u64>, runs: u64) -> Coverage {
    let (mut upper, mut lower, mut ticks) = (0, 0, 0);
    let share = bursts.share();
    let mut random = SplitMix64::new(rounds);
    for _ in 0..runs {
        let rate = MissRate::from_rounds(&bursts.run(rounds, &mut random), max_burst);
        upper += u64::from(rate.upper_bound(UPPER) >= share);
        lower += u64::from(rate.lower_bound(LOWER) <= share);
        ticks += u64::from(binomial::upper_bound(rate.missed, rate.ticks, UPPER) >= share);
    }
    let [upper, lower, ticks] = [upper, lower, ticks].map(|right| right as f64 / runs as f64);
    Coverage { upper, lower, ticks }
}

/// Checks that bounds are right as often as stated, within three standard errors of the simulation.
fn assert_covered(bursts: Bursts, rounds: u64, max_burst: Option<u64>, runs: u64) {
    let found = simulate(bursts, rounds, max_burst, runs);
    let error = |confidence: f64| 3.0 * (confidence * (1.0 - confidence) / runs as f64).sqrt();
    let context = format!("{bursts:?}, {rounds} rounds, {max_burst:?}: {found:?}");
    assert!(found.upper >= UPPER - error(UPPER), "{context}");
    assert!(found.lower >= LOWER - error(LOWER), "{context}");
}

/// Simulates all combinations of kinds of bursts, their frequencies and numbers of rounds.
fn assert_all_covered(starts: &[f64], rounds: &[u64], runs: u64) {
    use BurstLength::{Fixed, Geometric, HeavyTailed};
    let lengths = [Fixed(1), Fixed(4), Geometric(10.0), HeavyTailed, Fixed(MAX_BURST)];
    for length in lengths {
        for noise in [QUIET, 20.0] {
            for &start in starts {
                // Long bursts are less frequent, so that some rounds remain without one.
                let start = if length.tail(ROUND_TICKS) == 1.0 { start / 100.0 } else { start };
                let bursts = Bursts { start, noise, length };
                for &rounds in rounds {
                    assert_covered(bursts, rounds, None, runs);
                    // A limit on the length of bursts assumes that they are independent.
                    if let (Fixed(max_burst), true) = (length, noise == QUIET) {
                        assert_covered(bursts, rounds, Some(max_burst), runs);
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_hold_for_clustered_misses() {
    assert_all_covered(&[3e-4, 3e-3], &[20, 100], 150);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 190,000 simulated runs"]
    fn bounds_hold_for_clustered_misses() {
        assert_all_covered(&[3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2], &[10, 30, 100, 300], 600);
    }
}

#[test]
fn bounds_over_ticks_are_too_narrow() {
    let bursts = Bursts { start: 5e-4, noise: QUIET, length: BurstLength::Geometric(10.0) };
    let Coverage { upper, ticks, .. } = simulate(bursts, 100, None, 300);
    assert!(upper > 0.95 && ticks < 0.8, "{upper} over rounds, {ticks} over ticks");
}

#[test]
fn grouped_stalls_break_the_assumption() {
    // A tenth of the rounds have 500 times as many bursts, and 20 rounds may contain none of them.
    let bursts = Bursts { start: 1e-4, noise: 500.0, length: BurstLength::Fixed(4) };
    let independent = simulate(bursts, 20, Some(4), 300);
    let dependent = simulate(bursts, 20, None, 300);
    assert!(independent.upper < 0.9, "{independent:?}");
    assert!(dependent.upper > 0.95, "{dependent:?}");
    // Rounds with many bursts raise the bound if they are seen.
    let more_rounds = simulate(bursts, 100, Some(4), 300);
    assert!(more_rounds.upper > 0.95, "{more_rounds:?}");
}

fn run_in_time(rounds: u64, max_burst: Option<u64>) -> MissRate {
    let rounds = vec![RoundMisses { ticks: 250, missed: 0 }; rounds as usize];
    MissRate::from_rounds(&rounds, max_burst)
}

#[test]
fn planned_rounds_are_just_enough() {
    for (limit, max_burst) in [
        (0.5, None),
        (0.01, None),
        (1e-4, None),
        (1e-3, Some(1)),
        (1e-4, Some(4)),
        (1e-4, Some(20)),
        // A burst that is longer than a round is limited by the round.
        (0.01, Some(1_000)),
    ] {
        let rounds = least_rounds(limit, 250, max_burst, UPPER);
        assert!(run_in_time(rounds, max_burst).upper_bound(UPPER) < limit, "{limit} {max_burst:?}");
        let fewer = run_in_time(rounds - 1, max_burst).upper_bound(UPPER);
        assert!(fewer >= limit, "{limit} {max_burst:?}: {fewer}");
    }
}

#[test]
fn whole_rounds_have_exact_bounds() {
    let round = |missed| RoundMisses { ticks: 50, missed };
    let rounds = [[round(50); 3].as_slice(), &[round(0); 37]].concat();
    let rate = MissRate::from_rounds(&rounds, None);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(rate.upper_bound(UPPER), binomial::upper_bound(3, 40, UPPER)));
    assert!(near(rate.lower_bound(LOWER), binomial::lower_bound(3, 40, LOWER)));
    assert_eq!((rate.share(), rate.missed(), rate.ticks()), (Some(0.075), 150, 2_000));
    let totals = MissRate::from_totals(RoundMisses { ticks: 2_000, missed: 150 }, 50);
    assert!(near(totals.upper_bound(UPPER), rate.upper_bound(UPPER)));
    assert!(near(totals.lower_bound(LOWER), rate.lower_bound(LOWER)));
}

#[test]
fn bounds_without_ticks_are_open() {
    for rate in [
        MissRate::from_rounds(&[], None),
        MissRate::from_rounds(&[RoundMisses::default()], Some(3)),
        MissRate::from_totals(RoundMisses::default(), 3),
    ] {
        assert_eq!((rate.upper_bound(UPPER), rate.lower_bound(LOWER)), (1.0, 0.0));
        assert_eq!((rate.share(), rate.factor_to_decide(0.1, UPPER, LOWER)), (None, None));
    }
    let lost = MissRate::from_rounds(&[RoundMisses { ticks: 5, missed: 5 }; 3], Some(1));
    assert_eq!(lost.upper_bound(UPPER), 1.0);
}

#[test]
fn largest_counts_have_bounds() {
    let half = RoundMisses { ticks: u64::MAX, missed: u64::MAX / 2 };
    let rounds = [RoundMisses { ticks: u64::MAX, missed: u64::MAX }, half];
    for rate in [
        MissRate::from_rounds(&rounds, None),
        MissRate::from_rounds(&rounds, Some(u64::MAX)),
        MissRate::from_totals(half, 1),
        MissRate::from_totals(half, u64::MAX),
    ] {
        let share = rate.share().unwrap();
        let (lower, upper) = (rate.lower_bound(LOWER), rate.upper_bound(UPPER));
        assert!(lower <= share && share <= upper && upper <= 1.0, "{lower} {share} {upper}");
        let _ = rate.factor_to_decide(0.9, UPPER, LOWER);
    }
}

#[test]
fn factor_leads_to_a_decision() {
    // Without a miss, the factor is that of the planned rounds.
    let factor = run_in_time(100, Some(4)).factor_to_decide(1e-4, UPPER, LOWER).unwrap();
    assert!((factor - 4.8).abs() < 0.05, "{factor}");
    // One round in fifty has five misses of its 250 ticks: four in ten thousand.
    let mut rounds = vec![RoundMisses { ticks: 250, missed: 0 }; 100];
    (rounds[3].missed, rounds[60].missed) = (5, 5);
    let rate = |times: usize| MissRate::from_rounds(&rounds.repeat(times), Some(8));
    for (limit, is_below) in [(6e-4, true), (2e-4, false)] {
        let factor = rate(1).factor_to_decide(limit, UPPER, LOWER).unwrap();
        assert!(factor > 1.0 && factor < 60.0, "{factor}");
        let enough = rate(factor.ceil() as usize);
        let found = (enough.upper_bound(UPPER) < limit, enough.lower_bound(LOWER) > limit);
        assert_eq!(found, (is_below, !is_below), "{factor}");
    }
    assert_eq!(rate(1).factor_to_decide(4e-4, UPPER, LOWER), None);
    assert_eq!(rate(1).factor_to_decide(0.9, UPPER, LOWER), Some(1.0));
}

proptest! {
    #[test]
    fn bounds_enclose_the_share(
        misses in proptest::collection::vec(0_u64..30, 1..60), max_burst in proptest::option::of(1_u64..40)
    ) {
        let rounds: Vec<RoundMisses> =
            misses.iter().map(|&missed| RoundMisses { ticks: 29, missed }).collect();
        let rate = MissRate::from_rounds(&rounds, max_burst);
        let share = rate.share().unwrap();
        let (lower, upper) = (rate.lower_bound(LOWER), rate.upper_bound(UPPER));
        prop_assert!(lower <= share && share <= upper && upper <= 1.0, "{lower} {share} {upper}");
        prop_assert!(MissRate::from_rounds(&rounds, None).upper_bound(UPPER) >= upper - 1e-12);
    }
}
