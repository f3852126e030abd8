//! A gate inside a test: two functions of one program, run in turn, each giving one number a run.
//!
//! The old code stands beside the new: kept for the test, or something of the same kind that will
//! not change, to which a ratio is known ([`InTurn::ratio`]). A number that was stored on another
//! day, or by another machine, is no side: `osjitter gate --baseline` says what becomes of those.

use std::fmt;

use super::Sides;
use super::decision::{LOOKS, Outcome, Reason};
use super::metric::{JudgedMetric, MetricRule, alpha_share};
use crate::stats::Interval;
use crate::stats::random::SplitMix64;

/// Share of false alarms over all looks of one test.
pub const ALPHA: f64 = 0.005;
/// A change of so many half widths of its interval is found to be one in 19 tests of 20: at the
/// level of a look, a half width is some three standard deviations, and one estimate in 20 falls
/// short by more than 1.64 of them.
const SEEN: f64 = 1.5;

/// Two functions to be judged by what they return: a time, a p99 of samples, a size, a rate.
///
/// ```
/// use jitterstat::gate::in_turn::InTurn;
/// use std::time::Instant;
///
/// fn time(sort: impl Fn(&mut [u32])) -> f64 {
///     let mut numbers: Vec<u32> = (0..2_000).map(|i| i * 7919 % 2_003).collect();
///     let started = Instant::now();
///     sort(&mut numbers);
///     started.elapsed().as_nanos() as f64
/// }
///
/// # /*
/// #[test]
/// fn sorting_is_no_slower_than_it_was() {
/// # */
///     let stable = || time(|numbers| numbers.sort());
///     let unstable = || time(|numbers| numbers.sort_unstable());
///     let judged = InTurn::lower_is_better(1.0).run(stable, unstable);
///     println!("{judged}"); // pass: B is 0.817 of A [0.814, 0.823], tolerated 2.000; 50 pairs; 1.995 would have been found
///     judged.assert_no_regression();
/// # /*
/// }
/// # */
/// ```
///
/// Both run in the test's process, bound to nothing: what one leaves behind in caches and in the
/// allocator, the other one finds, as often as the other way round. Run such tests by themselves
/// (`cargo test -- --test-threads 1`), built as what you ship (`--release`).
#[derive(Clone, Debug, PartialEq)]
pub struct InTurn {
    rule: MetricRule,
    ratio: f64,
    looks: Vec<usize>,
    seed: u64,
}

/// What [`InTurn::run`] found. All ratios are of B over A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedInTurn {
    /// What it comes to.
    pub outcome: Outcome,
    /// Why, if inconclusive.
    pub reason: Option<Reason>,
    /// The estimate; none below 12 pairs.
    pub ratio: Option<f64>,
    /// Its interval at the level of this look; none where the pairs give none.
    pub ratio_interval: Option<Interval<f64>>,
    /// The ratio up to which, or down to which, it is tolerated.
    pub tolerated_ratio: f64,
    /// The ratio that runs as noisy as these would have found in 19 of 20 tests; none without an
    /// interval.
    pub found_ratio: Option<f64>,
    /// Median run of A and of B, in the pairs that decided.
    pub sides: Sides<f64>,
    /// Pairs run.
    pub pairs: usize,
}

impl InTurn {
    /// A rise by this share is tolerated: 0.05 for 5 %.
    ///
    /// # Panics
    /// If it is not above zero.
    #[must_use]
    pub fn lower_is_better(tolerance: f64) -> Self {
        Self::new(false, tolerance)
    }

    /// A fall by this share is tolerated.
    ///
    /// # Panics
    /// If it is not above zero and below 1.
    #[must_use]
    pub fn higher_is_better(tolerance: f64) -> Self {
        assert!(
            tolerance < 1.0,
            "nothing falls by {tolerance}, a share of 1 or more; tolerate less"
        );
        Self::new(true, tolerance)
    }

    fn new(higher_is_better: bool, tolerance: f64) -> Self {
        assert!(
            is_value(tolerance),
            "a tolerance is a share above zero, such as 0.05, not {tolerance}"
        );
        let rule = MetricRule { higher_is_better, tolerance, floor: 0.0 };
        Self { rule, ratio: 1.0, looks: LOOKS.to_vec(), seed: 1 }
    }

    /// B should be so many times A, rather than equal to it: 1.4 where the new code was measured to
    /// take 1.4 times as long as a yardstick. The ratio may be stored, unlike the times themselves,
    /// as far as machines have it in common.
    ///
    /// # Panics
    /// If it is not above zero.
    #[must_use]
    pub fn ratio(mut self, b_over_a: f64) -> Self {
        assert!(is_value(b_over_a), "a ratio is above zero, not {b_over_a}");
        self.ratio = b_over_a;
        self
    }

    /// Ends after so many pairs, decided or not: 400 unless set, at least 24. It looks at 50, 100,
    /// 200, and at the last.
    #[must_use]
    pub fn max_pairs(mut self, pairs: usize) -> Self {
        let most = pairs.max(24);
        self.looks = LOOKS.into_iter().filter(|&look| look < most).chain([most]).collect();
        self
    }

    /// Seed of the order within each pair.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs both in turn until a look decides. The first run of each is dropped.
    ///
    /// With nothing changed, one test in 200 finds a regression, at most.
    ///
    /// # Panics
    /// If a function returns what is not finite and above zero; and as the functions.
    #[track_caller]
    pub fn run(&self, mut a: impl FnMut() -> f64, mut b: impl FnMut() -> f64) -> JudgedInTurn {
        let mut random = SplitMix64::new(self.seed);
        let mut pair = |is_b_first: bool| {
            let early = is_b_first.then(&mut b);
            let a = a();
            let b = early.unwrap_or_else(&mut b);
            for (side, value) in [("A", a), ("B", b)] {
                assert!(
                    is_value(value),
                    "a run of {side} returned {value}; a value is finite and above zero"
                );
            }
            Sides { base: a * self.ratio, candidate: b }
        };
        pair(false);
        let share = alpha_share(ALPHA, 1, self.looks.len());
        let last = self.looks[self.looks.len() - 1];
        let mut values = Vec::with_capacity(last);
        loop {
            values.push(pair(random.coin()));
            if self.looks.contains(&values.len()) {
                let judged = self.rule.judge(&values, share, values.len() == last);
                if judged.outcome != Outcome::Inconclusive || values.len() == last {
                    return self.judged(&judged, values.len());
                }
            }
        }
    }

    /// As ratios of what the functions returned.
    fn judged(&self, judged: &JudgedMetric, pairs: usize) -> JudgedInTurn {
        let tolerated = judged.tolerated_ratio.ln().abs();
        let found = |interval: Interval<f64>| {
            let half = (interval.upper / interval.lower).ln() / 2.0;
            // What the rule of a regression asks for: an interval above nothing, an estimate above
            // half of what is tolerated, and an upper end above it.
            let change = (SEEN * half)
                .max((tolerated + (SEEN - 1.0) * 2.0 * half) / 2.0)
                .max(tolerated - half / 2.0);
            self.ratio * if self.rule.higher_is_better { -change } else { change }.exp()
        };
        JudgedInTurn {
            outcome: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio.map(|ratio| ratio * self.ratio),
            ratio_interval: judged.ratio_interval.map(|ends| ends.map(|end| end * self.ratio)),
            tolerated_ratio: judged.tolerated_ratio * self.ratio,
            found_ratio: judged.ratio_interval.map(found),
            sides: Sides { base: judged.sides.base / self.ratio, ..judged.sides },
            pairs,
        }
    }
}

impl JudgedInTurn {
    /// Fails the test if B has become worse. What is inconclusive passes: print it, and see
    /// [`Self::found_ratio`].
    ///
    /// # Panics
    /// If the outcome is [`Outcome::Regressed`].
    #[track_caller]
    pub fn assert_no_regression(&self) {
        assert!(self.outcome != Outcome::Regressed, "{self}");
    }
}

fn is_value(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

impl fmt::Display for JudgedInTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.outcome {
            Outcome::Pass => "pass: ",
            Outcome::Improved => "improved: ",
            Outcome::Regressed | Outcome::LimitBroken => "regressed: ",
            Outcome::Inconclusive => "inconclusive: ",
        })?;
        match self.ratio {
            Some(ratio) => write!(f, "B is {ratio:.3} of A")?,
            None => f.write_str("too few pairs")?,
        }
        if let Some(Interval { lower, upper }) = self.ratio_interval {
            write!(f, " [{lower:.3}, {upper:.3}]")?;
        }
        write!(f, ", tolerated {:.3}; {} pairs", self.tolerated_ratio, self.pairs)?;
        self.found_ratio.map_or(Ok(()), |found| write!(f, "; {found:.3} would have been found"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of about 50 us, one in five disturbed by up to as much again.
    fn noisy(seed: u64, scale: f64) -> impl FnMut() -> f64 {
        let mut random = SplitMix64::new(seed);
        move || {
            let disturbed = if random.unit() < 0.2 { random.unit() } else { 0.0 };
            scale * 5e4 * (1.0 + 0.06 * random.unit() + disturbed)
        }
    }

    fn of(test: &InTurn, seed: u64, b: f64) -> JudgedInTurn {
        test.clone().seed(seed).run(noisy(2 * seed, 1.0), noisy(2 * seed + 1, b))
    }

    #[test]
    fn what_is_the_same_passes_and_what_is_worse_does_not() {
        let time = InTurn::lower_is_better(0.05);
        let rate = InTurn::higher_is_better(0.05);
        for (b, outcome) in
            [(1.0, Outcome::Pass), (1.1, Outcome::Regressed), (0.9, Outcome::Improved)]
        {
            let judged = of(&time, 7, b);
            assert_eq!(judged.outcome, outcome, "{judged}");
            assert!((judged.ratio.unwrap() / b - 1.0).abs() < 0.02, "{judged}");
            let (mut a, mut b_time) = (noisy(14, 1.0), noisy(15, b));
            assert_eq!(rate.run(|| 1e9 / a(), || 1e9 / b_time()).outcome, outcome);
            // The same beside a yardstick that takes a third of the time.
            let judged = time.clone().ratio(3.0).run(noisy(14, 1.0), noisy(15, 3.0 * b));
            assert_eq!(judged.outcome, outcome, "{judged}");
            assert!(
                (judged.ratio.unwrap() / 3.0 / b - 1.0).abs() < 0.02
                    && (judged.tolerated_ratio - 3.15).abs() < 1e-9
            );
            assert!(judged.sides.base < 6e4 && judged.sides.candidate > 1.2e5, "{judged:?}");
        }
    }

    #[test]
    fn a_test_without_a_change_hardly_ever_fails_and_finds_what_it_says() {
        let test = InTurn::lower_is_better(0.02).max_pairs(50);
        let same: Vec<JudgedInTurn> = (0..2_000).map(|seed| of(&test, seed, 1.0)).collect();
        let alarms = same.iter().filter(|judged| judged.outcome == Outcome::Regressed).count();
        // 10 by design at most, and three standard deviations.
        assert!(alarms <= 20, "{alarms}");
        let found =
            same.iter().map(|judged| judged.found_ratio.unwrap()).sum::<f64>() / same.len() as f64;
        assert!((1.01..1.1).contains(&found), "{found}");
        let seen = (0..400)
            .filter(|&seed| of(&test, 5_000 + seed, found).outcome == Outcome::Regressed)
            .count();
        // 95 % of them, within three standard deviations, and not all: else it would find less.
        assert!((367..400).contains(&seen), "{seen} of 400 at {found}");
    }

    #[test]
    fn it_looks_early_and_says_what_it_found() {
        let mut runs = [0, 0];
        let test = InTurn::lower_is_better(0.5);
        let [a, b] = &mut runs;
        let judged = test.run(
            || {
                *a += 1;
                100.0 + f64::from(*a % 3)
            },
            || {
                *b += 1;
                100.0 + f64::from((*b + 1) % 3)
            },
        );
        assert_eq!((judged.outcome, judged.pairs, runs), (Outcome::Pass, 50, [51, 51]));
        let said = judged.to_string();
        assert!(
            said.starts_with("pass: B is ") && said.contains(", tolerated 1.500; 50 pairs; 1.4"),
            "{said}"
        );
        judged.assert_no_regression();
        // Equal to the last digit.
        let judged = test.run(|| 5.0, || 5.0);
        assert_eq!((judged.outcome, judged.ratio), (Outcome::Pass, Some(1.0)));
        let judged = test.max_pairs(1).run(|| 5.0, || 10.0);
        assert_eq!((judged.outcome, judged.pairs), (Outcome::Regressed, 24), "{judged}");
        assert!(std::panic::catch_unwind(|| judged.assert_no_regression()).is_err());
    }

    #[test]
    fn what_is_no_value_is_named() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let ran =
                std::panic::catch_unwind(|| InTurn::lower_is_better(0.1).run(|| 1.0, || value));
            let said = ran.unwrap_err().downcast::<String>().unwrap();
            assert!(said.contains("a run of B returned") && said.contains("above zero"), "{said}");
            assert!(std::panic::catch_unwind(|| InTurn::lower_is_better(value)).is_err());
        }
        assert!(std::panic::catch_unwind(|| InTurn::higher_is_better(1.0)).is_err());
    }
}
