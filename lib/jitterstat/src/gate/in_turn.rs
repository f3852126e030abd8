//! A gate inside a test: compares two functions that run in turn and return one number per run.
//!
//! The base is the old code, kept for the test, or a similar function that will not change and to
//! which a ratio is known ([`InTurn::ratio`]). A number that was stored on another day or by
//! another machine cannot serve as a side; `osjitter gate --baseline` handles stored measurements.

use std::fmt;

use super::Sides;
use super::decision::{ALPHA, LOOKS, MIN_PAIRS, NumberVerdict, Outcome, Reason, write_tolerated};
use super::metric::{MetricRule, alpha_share};
use crate::stats::Interval;
use crate::stats::random::SplitMix64;

/// Lower bound of the maximum number of pairs: the tail is judged on half of them.
pub(super) const MIN_MAX_PAIRS: usize = 2 * MIN_PAIRS;
/// Half widths of its interval by which a change is found in 19 of 20 tests: at the alpha of a
/// look, a half width is about three standard deviations, and one estimate in 20 falls short by
/// more than 1.64 of them.
const FOUND_HALF_WIDTHS: f64 = 1.5;

/// Judges two functions by the numbers that they return, such as a time, a p99 of samples, a size
/// or a rate.
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
/// fn sorting_is_not_slower() {
/// # */
///     let stable = || time(|numbers| numbers.sort());
///     let unstable = || time(|numbers| numbers.sort_unstable());
///     let judged = InTurn::lower_is_better(1.0).run(stable, unstable);
///     // pass: B is 0.817 of A [0.814, 0.823], tolerated 2.000; 50 pairs; 1.995 would have been found
///     println!("{judged}");
///     # /*
///     judged.assert_no_regression();
/// }
/// # */
/// ```
///
/// Both functions run in the process of the test, which is not bound to a CPU. Each finds the
/// caches and the allocator as the other one left them, equally often. Run such tests one at a time
/// (`cargo test -- --test-threads 1`) and build them like the product (`--release`).
#[derive(Clone, Debug, PartialEq)]
pub struct InTurn {
    rule: MetricRule,
    ratio: f64,
    looks: Vec<usize>,
    seed: u64,
}

/// The result of [`InTurn::run`]. Ratios are B to A.
#[must_use = "a comparison fails no test by itself"]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedInTurn {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if the outcome is inconclusive.
    pub reason: Option<Reason>,
    /// The estimated ratio; `None` with too few pairs.
    pub ratio: Option<f64>,
    /// The interval of the ratio at the alpha of this look; `None` with too few pairs.
    pub ratio_interval: Option<Interval<f64>>,
    /// The largest tolerated ratio, or the smallest if higher values are better.
    pub tolerated_ratio: f64,
    /// The ratio that runs with this noise would find in 19 of 20 tests; `None` without an
    /// interval.
    pub found_ratio: Option<f64>,
    /// Median run of each side, in the pairs that decided.
    pub sides: Sides<f64>,
    /// Number of pairs that ran.
    pub pairs: usize,
}

impl InTurn {
    /// Creates a test that tolerates a relative rise: 0.05 for 5 %.
    ///
    /// # Panics
    /// Panics if the tolerance is not above zero.
    #[must_use]
    pub fn lower_is_better(tolerance: f64) -> Self {
        Self::new(false, tolerance)
    }

    /// Creates a test that tolerates a relative fall.
    ///
    /// # Panics
    /// Panics if the tolerance is not above zero and below 1.
    #[must_use]
    pub fn higher_is_better(tolerance: f64) -> Self {
        assert!(
            tolerance < 1.0,
            "invalid tolerance {tolerance}: expected a share above zero and below 1, such as 0.05"
        );
        Self::new(true, tolerance)
    }

    fn new(higher_is_better: bool, tolerance: f64) -> Self {
        assert!(
            is_value(tolerance),
            "invalid tolerance {tolerance}: expected a share above zero, such as 0.05"
        );
        let rule = MetricRule { higher_is_better, tolerance, floor: 0.0 };
        Self { rule, ratio: 1.0, looks: LOOKS.to_vec(), seed: 1 }
    }

    /// Sets the ratio of B to A that counts as no change; 1 unless set. For example 1.4 if the new
    /// code was measured to take 1.4 times as long as a yardstick. Unlike times, such a ratio can
    /// be stored if it holds on all machines in use.
    ///
    /// # Panics
    /// Panics if the ratio is not above zero.
    #[must_use]
    pub fn ratio(mut self, b_over_a: f64) -> Self {
        assert!(is_value(b_over_a), "invalid ratio {b_over_a}: expected a number above zero");
        self.ratio = b_over_a;
        self
    }

    /// Sets the maximum number of pairs, after which the test ends even if undecided: 400 unless
    /// set, at least 24. Looks are taken at 50, 100 and 200 pairs, and at the last.
    #[must_use]
    pub fn max_pairs(mut self, pairs: usize) -> Self {
        let max = pairs.max(MIN_MAX_PAIRS);
        self.looks = LOOKS.into_iter().filter(|&look| look < max).chain([max]).collect();
        self
    }

    /// Sets the seed of the order within each pair.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs both functions in turn until a look decides. The first run of each is dropped.
    ///
    /// Without a change, at most one test in 200 finds a regression.
    ///
    /// # Panics
    /// Panics if a function panics, or returns a number that is not finite and above zero.
    #[track_caller]
    pub fn run(&self, mut a: impl FnMut() -> f64, mut b: impl FnMut() -> f64) -> JudgedInTurn {
        let mut random = SplitMix64::new(self.seed);
        let mut run_pair = |is_b_first: bool| {
            let early = is_b_first.then(&mut b);
            let a = a();
            let b = early.unwrap_or_else(&mut b);
            for (side, value) in [("A", a), ("B", b)] {
                assert!(
                    is_value(value),
                    "a run of {side} returned {value}: expected a finite number above zero"
                );
            }
            Sides { base: a, candidate: b }
        };
        run_pair(false);
        self.judge_pairs(|| run_pair(random.coin()))
    }

    /// Returns the number of pairs after which the test ends.
    pub(super) fn last_look(&self) -> usize {
        self.looks[self.looks.len() - 1]
    }

    /// Measures pairs until a look decides.
    pub(super) fn judge_pairs(&self, mut measure: impl FnMut() -> Sides<f64>) -> JudgedInTurn {
        let alpha = alpha_share(ALPHA, 1, self.looks.len());
        let last = self.last_look();
        let mut values = Vec::new();
        loop {
            let Sides { base, candidate } = measure();
            values.push(Sides { base: base * self.ratio, candidate });
            if self.looks.contains(&values.len()) {
                let judged = self.rule.judge(&values, alpha, values.len() == last);
                if judged.outcome != Outcome::Inconclusive || values.len() == last {
                    return self.result(&judged, values.len());
                }
            }
        }
    }

    /// Converts a verdict on values scaled by [`Self::ratio`] to ratios of the returned numbers.
    fn result(&self, judged: &NumberVerdict, pairs: usize) -> JudgedInTurn {
        let tolerated = judged.tolerance.abs();
        let found = |interval: Interval<f64>| {
            let half = (interval.upper / interval.lower).ln() / 2.0;
            // A regression needs an interval above zero, an estimate above half of the tolerance,
            // and an upper bound above the tolerance.
            let change = (FOUND_HALF_WIDTHS * half)
                .max((tolerated + (FOUND_HALF_WIDTHS - 1.0) * 2.0 * half) / 2.0)
                .max(tolerated - half / 2.0);
            self.ratio * if self.rule.higher_is_better { -change } else { change }.exp()
        };
        JudgedInTurn {
            outcome: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio().map(|ratio| ratio * self.ratio),
            ratio_interval: judged.ratio_interval().map(|ends| ends.map(|end| end * self.ratio)),
            tolerated_ratio: judged.tolerated_ratio() * self.ratio,
            found_ratio: judged.ratio_interval().map(found),
            sides: Sides { base: judged.sides.base / self.ratio, ..judged.sides },
            pairs,
        }
    }
}

impl JudgedInTurn {
    /// Fails the test if B is worse than tolerated. An inconclusive result passes: print it, and
    /// see [`Self::found_ratio`].
    ///
    /// # Panics
    /// Panics if the outcome is [`Outcome::Regressed`].
    #[track_caller]
    pub fn assert_no_regression(&self) {
        assert!(self.outcome != Outcome::Regressed, "{self}");
    }

    /// Returns the number of decimals that show the width of the interval.
    fn digits(&self) -> usize {
        match self.ratio_interval {
            Some(Interval { lower, upper }) if upper - lower < 0.005 => 4,
            _ => 3,
        }
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
        let digits = self.digits();
        match self.ratio {
            Some(ratio) => write!(f, "B is {ratio:.digits$} of A")?,
            None => f.write_str("too few pairs")?,
        }
        if let Some(Interval { lower, upper }) = self.ratio_interval {
            write!(f, " [{lower:.digits$}, {upper:.digits$}]")?;
        }
        write_tolerated(f, self.tolerated_ratio, self.outcome, self.ratio_interval, digits)?;
        write!(f, "; {} pairs", self.pairs)?;
        match self.found_ratio {
            Some(found) => write!(f, "; {found:.digits$} would have been found"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of about 50 us, one in five of which takes up to twice as long.
    fn noisy(seed: u64, scale: f64) -> impl FnMut() -> f64 {
        let mut random = SplitMix64::new(seed);
        move || {
            let disturbed = if random.unit() < 0.2 { random.unit() } else { 0.0 };
            scale * 5e4 * (1.0 + 0.06 * random.unit() + disturbed)
        }
    }

    fn run(test: &InTurn, seed: u64, b: f64) -> JudgedInTurn {
        test.clone().seed(seed).run(noisy(2 * seed, 1.0), noisy(2 * seed + 1, b))
    }

    #[test]
    fn changes_give_expected_outcomes() {
        let time = InTurn::lower_is_better(0.05);
        let rate = InTurn::higher_is_better(0.05);
        for (b, outcome) in
            [(1.0, Outcome::Pass), (1.1, Outcome::Regressed), (0.9, Outcome::Improved)]
        {
            let judged = run(&time, 7, b);
            assert_eq!(judged.outcome, outcome, "{judged}");
            assert!((judged.ratio.unwrap() / b - 1.0).abs() < 0.02, "{judged}");
            let (mut a, mut b_time) = (noisy(14, 1.0), noisy(15, b));
            assert_eq!(rate.run(|| 1e9 / a(), || 1e9 / b_time()).outcome, outcome);
            // The same with a yardstick that takes a third of the time as the base.
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
    fn found_ratio_and_false_alarms_match() {
        let test = InTurn::lower_is_better(0.02).max_pairs(50);
        let unchanged: Vec<JudgedInTurn> = (0..2_000).map(|seed| run(&test, seed, 1.0)).collect();
        let alarms = unchanged.iter().filter(|judged| judged.outcome == Outcome::Regressed).count();
        // At most 10 by design, plus three standard deviations.
        assert!(alarms <= 20, "{alarms}");
        let found = unchanged.iter().map(|judged| judged.found_ratio.unwrap()).sum::<f64>()
            / unchanged.len() as f64;
        assert!((1.01..1.1).contains(&found), "{found}");
        let regressed = (0..400)
            .filter(|&seed| run(&test, 5_000 + seed, found).outcome == Outcome::Regressed)
            .count();
        // 95 % of them within three standard deviations, and not all: then it would find less.
        assert!((367..400).contains(&regressed), "{regressed} of 400 at {found}");
    }

    #[test]
    fn result_is_displayed_after_early_look() {
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
        let text = judged.to_string();
        assert!(
            text.starts_with("pass: B is ") && text.contains(", tolerated 1.500; 50 pairs; 1.4"),
            "{text}"
        );
        judged.assert_no_regression();
        // Equal to the last digit.
        let judged = test.run(|| 5.0, || 5.0);
        assert_eq!((judged.outcome, judged.ratio), (Outcome::Pass, Some(1.0)));
        let judged = test.clone().max_pairs(usize::MAX).run(|| 5.0, || 10.0);
        assert_eq!((judged.outcome, judged.pairs), (Outcome::Regressed, 50), "{judged}");
        let judged = test.max_pairs(1).run(|| 5.0, || 10.0);
        assert_eq!((judged.outcome, judged.pairs), (Outcome::Regressed, 24), "{judged}");
        assert!(std::panic::catch_unwind(|| judged.assert_no_regression()).is_err());
    }

    /// A tolerated estimate with a wide interval is no contradiction, and the line says why.
    #[test]
    fn tolerated_estimates_can_be_regressions() {
        let mut random = SplitMix64::new(3);
        let slower = [0; 51].map(|_| (0.1 + 1.1 * random.unit()).exp());
        let mut times = slower.iter().copied();
        let slow = InTurn::lower_is_better(1.0).run(|| 1.0, || times.next().unwrap());
        let mut rates = slower.iter().map(|time| 1.0 / time);
        let few = InTurn::higher_is_better(0.5).run(|| 1.0, || rates.next().unwrap());
        assert!(slow.ratio.unwrap() < 2.0 && few.ratio.unwrap() > 0.5, "{slow}, {few}");
        let text = slow.to_string();
        assert!(text.starts_with("regressed: B is 1."), "{text}");
        assert!(text.contains("], which reaches the tolerated 2.000; 50 pairs"), "{text}");
        assert!(
            few.to_string().contains("], which reaches the tolerated 0.500; 50 pairs"),
            "{few}"
        );
    }

    #[test]
    fn invalid_values_are_rejected() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let panic =
                std::panic::catch_unwind(|| InTurn::lower_is_better(0.1).run(|| 1.0, || value));
            let text = panic.unwrap_err().downcast::<String>().unwrap();
            assert!(text.contains("a run of B returned") && text.contains("above zero"), "{text}");
            assert!(std::panic::catch_unwind(|| InTurn::lower_is_better(value)).is_err());
        }
        assert!(std::panic::catch_unwind(|| InTurn::higher_is_better(1.0)).is_err());
    }
}
