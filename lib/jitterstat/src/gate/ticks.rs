//! A gate inside a test, from ticks to the verdict: compares the lateness of two loops that run in
//! turn.
//!
//! It is the method of `osjitter gate` in one process: many short rounds, in an order drawn at random
//! for each pair, of which each gives a median and a tail percentile ([`CountedTicks`]), and the exact
//! test over the pairs at the planned looks of [`Rules`] ([`look`]). Early and lost ticks, and stalls of
//! one side, leave the verdict open ([`Arrivals`]). `osjitter gate` also runs whole programs, binds them to a CPU and
//! examines the machine.

use std::fmt;

use super::arrivals::{Arrivals, RoundArrivals};
use super::decision::{Look, NumberVerdict, Outcome, Rules, look, write_tolerated};
use super::round::{CountedTicks, Pair, tail_name, tail_quantile};
use super::{Side, Sides};
use crate::stats::Interval;
use crate::stats::random::SplitMix64;

/// Judges two periodic loops by the lateness of their ticks.
///
/// ```
/// use jitterstat::gate::Side;
/// use jitterstat::gate::decision::{Outcome, Rules};
/// use jitterstat::gate::ticks::TickGate;
/// use jitterstat::stats::random::SplitMix64;
///
/// // A simulated loop of 200 ticks at 500 us, which returns the lateness of each.
/// let mut random = SplitMix64::new(7);
/// let mut round = |base_ns: i64| -> Vec<(u64, i64)> {
///     (0..200).map(|tick| (tick, base_ns + (random.unit() * 3_000.0) as i64)).collect()
/// };
///
/// let gate = TickGate::new(Rules::new(500_000));
/// let same = gate.run(|_| round(10_000));
/// assert_eq!(same.look.outcome, Outcome::Pass);
/// same.assert_no_regression();
///
/// // The candidate is 8 us later.
/// let later = gate.run(|side| round(if side == Side::Base { 10_000 } else { 18_000 }));
/// assert_eq!(later.look.outcome, Outcome::Regressed);
/// println!("{later}");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TickGate {
    rules: Rules,
    resolution_ns: i64,
    seed: u64,
}

/// The verdict of [`TickGate::run`]. Ratios are those of the candidate to the base.
#[must_use = "a comparison fails no test by itself"]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedTicks {
    /// The outcome, and the numbers of the median and of the tail percentile.
    pub look: Look,
    /// The quantile of the tail percentile: 0.99, or a lower one if the longest round has few planned
    /// ticks.
    pub tail_quantile: f64,
    /// Number of pairs that ran.
    pub pairs: usize,
}

/// A round with the numbers that the verdict rests on.
struct JudgedRound {
    counted: CountedTicks,
    arrivals: RoundArrivals,
}

impl TickGate {
    /// Creates a gate with these rules, which contain the period.
    ///
    /// # Panics
    /// Panics if the rules plan no look.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        assert!(!rules.looks.is_empty(), "invalid rules: expected at least one look");
        Self { rules, resolution_ns: 1, seed: 0 }
    }

    /// Sets the step of the clock in nanoseconds: 1 unless set. Less lateness counts as this step.
    #[must_use]
    pub fn resolution_ns(mut self, resolution_ns: i64) -> Self {
        self.resolution_ns = resolution_ns;
        self
    }

    /// Sets the seed of the order within each pair: 0 unless set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs rounds of both sides in turn until a look decides. The first round of each is dropped.
    ///
    /// `round` runs one round of a side and returns its ticks: the index of each on the grid, in
    /// ascending order, and its lateness in nanoseconds, negative if it was early. Leave out ticks that
    /// were never delivered: they count as lost.
    ///
    /// All rounds should have the same number of planned ticks, 250 for a 99th percentile as `osjitter
    /// gate` uses it. It runs nothing else, so that a test may measure on a thread of its own.
    ///
    /// Without a change, at most one gate in 200 finds a regression ([`Rules::alpha`]).
    ///
    /// # Panics
    /// Panics if `round` panics or returns no tick.
    #[track_caller]
    pub fn run(&self, mut round: impl FnMut(Side) -> Vec<(u64, i64)>) -> JudgedTicks {
        // The first rounds are cold.
        drop(round(Side::Base));
        drop(round(Side::Candidate));
        let mut run = |side: Side| self.judged_round(side, round(side));
        let mut random = SplitMix64::new(self.seed);
        let mut pairs = Vec::new();
        let mut arrivals = Arrivals::default();
        loop {
            let candidate_first = random.coin().then(|| run(Side::Candidate));
            let base = run(Side::Base);
            let candidate = candidate_first.unwrap_or_else(|| run(Side::Candidate));
            pairs.push(Sides { base: base.counted, candidate: candidate.counted });
            arrivals.add(Sides { base: base.arrivals, candidate: candidate.arrivals });
            let is_last = pairs.len() >= self.last_look();
            if is_last || self.rules.looks.contains(&pairs.len()) {
                let tail_quantile = tail_quantile(arrivals.round_ticks());
                let look = look(&self.values(&pairs, tail_quantile), &self.rules, is_last);
                if is_last || look.outcome != Outcome::Inconclusive {
                    let look = arrivals.check(look);
                    return JudgedTicks { look, tail_quantile, pairs: pairs.len() };
                }
            }
        }
    }

    fn last_look(&self) -> usize {
        self.rules.looks.last().copied().unwrap_or(0)
    }

    fn values(&self, pairs: &[Sides<CountedTicks>], tail_quantile: f64) -> Vec<Pair> {
        let value = |round: &CountedTicks| round.value(tail_quantile, self.resolution_ns);
        pairs.iter().map(|pair| pair.as_ref().map(value)).collect()
    }

    #[track_caller]
    fn judged_round(&self, side: Side, ticks: Vec<(u64, i64)>) -> JudgedRound {
        let period_ns = self.rules.period_ns;
        let counted = CountedTicks::new(ticks.iter().copied(), period_ns);
        let judged = counted.and_then(|counted| {
            Some((RoundArrivals::new(&ticks, counted.count(), period_ns)?, counted))
        });
        let Some((arrivals, counted)) = judged else {
            panic!("a round of the {side:?} returned no tick")
        };
        JudgedRound { counted, arrivals }
    }
}

impl JudgedTicks {
    /// Fails the test if the candidate is later than tolerated. An inconclusive verdict passes: print
    /// it.
    ///
    /// # Panics
    /// Panics if the outcome is [`Outcome::Regressed`].
    #[track_caller]
    pub fn assert_no_regression(&self) {
        assert!(self.look.outcome != Outcome::Regressed, "{self}");
    }
}

impl fmt::Display for JudgedTicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Look { outcome, median, tail } = &self.look;
        write!(f, "{outcome}")?;
        for (name, judged) in [("p50", median), (tail_name(self.tail_quantile), tail)] {
            write!(f, "; {name} ")?;
            write_percentile(f, judged)?;
        }
        write!(f, "; {} pairs", self.pairs)
    }
}

fn write_percentile(f: &mut fmt::Formatter<'_>, judged: &NumberVerdict) -> fmt::Result {
    match (judged.ratio(), judged.ratio_interval()) {
        (Some(ratio), Some(Interval { lower, upper })) => {
            write!(f, "of B is {ratio:.3} of A [{lower:.3}, {upper:.3}]")?;
        }
        (Some(ratio), None) => write!(f, "of B is {ratio:.3} of A")?,
        (None, _) => f.write_str("has too few pairs")?,
    }
    write_tolerated(f, judged.tolerated_ratio(), judged.outcome, judged.ratio_interval(), 3)?;
    judged.reason.map_or(Ok(()), |reason| write!(f, " ({reason})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::decision::Reason;

    const RULES: fn() -> Rules = || Rules::new(500_000);

    /// Returns a round of 120 ticks from 10 us, with a stall in every tenth of them.
    fn round(random: &mut SplitMix64, scale: f64) -> Vec<(u64, i64)> {
        let stall_ns = if random.unit() < 0.1 { 1_200_000 } else { 0 };
        let lateness = |tick| {
            (scale * (10_000.0 + 4_000.0 * random.unit())) as i64
                + if tick == 60 { stall_ns } else { 0 }
        };
        (0..120).zip((0..120).map(lateness)).collect()
    }

    #[test]
    fn ticks_lead_to_a_verdict() {
        for (scale, outcome) in
            [(1.0, Outcome::Pass), (1.5, Outcome::Regressed), (0.6, Outcome::Improved)]
        {
            let mut random = SplitMix64::new(11);
            let judged = TickGate::new(RULES())
                .run(|side| round(&mut random, if side == Side::Base { 1.0 } else { scale }));
            assert_eq!(judged.look.outcome, outcome, "{judged}");
            assert_eq!(judged.tail_quantile, 0.95);
            let text = judged.to_string();
            assert!(text.contains("p50 of B is") && text.contains("p95 of B is"), "{text}");
        }
    }

    #[test]
    fn hidden_ticks_leave_verdict_open() {
        let judge = |change: fn(&mut Vec<(u64, i64)>)| {
            let mut random = SplitMix64::new(11);
            TickGate::new(RULES()).run(|side| {
                let mut ticks = round(&mut random, 1.0);
                if side == Side::Candidate {
                    change(&mut ticks);
                }
                ticks
            })
        };
        let early = judge(|ticks| ticks.iter_mut().for_each(|tick| tick.1 = -400_000));
        let lost = judge(|ticks| ticks.retain(|tick| tick.0 % 10 == 0));
        // A stall of 20 ms, of which only the first tick counts.
        let stalled = judge(|ticks| {
            for (tick, lateness_ns) in &mut ticks[50..90] {
                *lateness_ns += (90 - *tick as i64) * 500_000;
            }
        });
        for (judged, reason) in [
            (early, Reason::EarlyTicks),
            (lost, Reason::LostTicks),
            (stalled, Reason::UnequalStalls),
        ] {
            assert_eq!(judged.look.outcome, Outcome::Inconclusive, "{judged}");
            assert_eq!([judged.look.median, judged.look.tail].map(|n| n.reason), [Some(reason); 2]);
        }
        // True percentiles would be even higher.
        let later = judge(|ticks| {
            ticks.retain(|tick| tick.0 % 10 == 0);
            ticks.iter_mut().for_each(|tick| tick.1 += 20_000);
        });
        assert_eq!(later.look.outcome, Outcome::Regressed, "{later}");
    }

    #[test]
    fn short_rounds_do_not_choose_percentile() {
        // Every 25th tick of the candidate is later, which only its p99 shows. Some rounds lose the
        // ticks at their ends: none, the first, the first ones of both sides, and any later ones.
        let is_short: [fn(usize) -> bool; 4] = [|_| false, |n| n == 0, |n| n < 4, |n| n % 7 < 3];
        for is_short in is_short {
            let (mut random, mut rounds) = (SplitMix64::new(11), 0);
            let judged = TickGate::new(RULES()).run(|side| {
                let late = |tick| side == Side::Candidate && tick % 25 == 24;
                let ticks = if is_short(rounds) { 90 } else { 250 };
                rounds += 1;
                (0..ticks)
                    .map(|tick| (tick, if late(tick) { 110_000 } else { 10_000 }))
                    .map(|(tick, ns)| (tick, ns + (random.unit() * 3_000.0) as i64))
                    .collect()
            });
            assert_eq!(judged.tail_quantile, 0.99, "{judged}");
            assert_eq!(judged.look.tail.outcome, Outcome::Regressed, "{judged}");
        }
    }

    #[test]
    fn verdict_is_that_of_the_pairs() {
        let (mut values, mut random) = (Vec::new(), SplitMix64::new(3));
        let gate = TickGate::new(RULES()).seed(5).resolution_ns(40);
        let judged = gate.run(|side| {
            let ticks = round(&mut random, if side == Side::Base { 1.0 } else { 1.1 });
            let counted = CountedTicks::new(ticks.clone(), 500_000).unwrap();
            values.push((side, counted.value(0.95, 40)));
            ticks
        });
        let side_values = |wanted| {
            let found = values.iter().filter(move |(side, _)| *side == wanted);
            found.map(|(_, value)| *value).skip(1)
        };
        let pairs = side_values(Side::Base).zip(side_values(Side::Candidate));
        let pairs: Vec<_> = pairs.map(|(base, candidate)| Sides { base, candidate }).collect();
        assert_eq!(pairs.len(), judged.pairs);
        let is_last = judged.pairs == 400;
        assert_eq!(look(&pairs, &RULES(), is_last), judged.look);
    }

    #[test]
    fn order_within_pairs_changes() {
        let (mut sides, mut random) = (Vec::new(), SplitMix64::new(3));
        let _ = TickGate::new(RULES()).run(|side| {
            sides.push(side);
            round(&mut random, 1.0)
        });
        let is_base_first: Vec<bool> =
            sides[2..].chunks(2).map(|pair| pair == [Side::Base, Side::Candidate]).collect();
        let first = is_base_first.iter().filter(|&&first| first).count();
        assert!((10..=40).contains(&first) && is_base_first.len() == 50, "{first}");
    }

    #[test]
    fn last_look_ends_the_gate() {
        let rules = Rules { looks: vec![10, 20], ..RULES() };
        let mut random = SplitMix64::new(3);
        let judged = TickGate::new(rules).run(|_| round(&mut random, 1.0));
        assert_eq!((judged.pairs, judged.look.outcome), (20, Outcome::Inconclusive));
        assert_eq!(judged.look.tail.reason, Some(Reason::TooFewRounds));
        judged.assert_no_regression();
    }

    #[test]
    #[should_panic(expected = "a round of the Candidate returned no tick")]
    fn empty_round_is_named() {
        let _ = TickGate::new(RULES()).run(|side| match side {
            Side::Base => vec![(0, 7)],
            Side::Candidate => Vec::new(),
        });
    }
}
