//! Simulated screens: how often unchanged programs are called clearly worse, and slower ones are
//! found.

use super::*;
use crate::gate::metric::{MetricRule, alpha_share};
use crate::gate::round::RoundValue;
use crate::stats::random::SplitMix64;

const PERIOD_NS: u64 = 500_000;
const RUN_RULE: MetricRule = MetricRule { higher_is_better: false, tolerance: 0.05, floor: 0.0 };
/// Number of metrics of a simulated screen of whole runs.
const METRICS: usize = 3;

/// Noise of a machine, as natural logarithms.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Range of each round or run.
    range: f64,
    /// Range of the step between two pairs, which concerns both sides.
    drift: f64,
    /// Share of the rounds or runs that are disturbed.
    disturbed: f64,
    /// Maximum rise by a disturbance.
    disturbance: f64,
}

const QUIET: Noise = Noise { range: 0.03, drift: 0.01, disturbed: 0.02, disturbance: 0.5 };
const BUSY: Noise = Noise { range: 0.4, drift: 0.1, disturbed: 0.2, disturbance: 1.0 };
const WILD: Noise = Noise { range: 3.0, drift: 0.5, disturbed: 0.3, disturbance: 3.0 };

impl Noise {
    /// Draws the logarithms of both sides of each pair, with a rise of the candidate.
    fn pairs(self, random: &mut SplitMix64, count: usize, rise: f64) -> Vec<Sides<f64>> {
        let mut level = 0.0;
        let mut pairs = Vec::new();
        for _ in 0..count {
            level += self.drift * (random.unit() - 0.5);
            let base = level + self.draw(random);
            let candidate = level + self.draw(random) + rise.ln_1p();
            pairs.push(Sides { base, candidate });
        }
        pairs
    }

    fn draw(self, random: &mut SplitMix64) -> f64 {
        let noise = self.range * (random.unit() + random.unit() - 1.0);
        let is_disturbed = random.unit() < self.disturbed;
        noise + if is_disturbed { self.disturbance * random.unit() } else { 0.0 }
    }
}

/// Screens whole runs by several metrics, with as many pairs as a screen has.
fn screen_runs(random: &mut SplitMix64, noise: Noise, rise: f64) -> Outcome {
    let count = 24 + random.index(27);
    let alpha = alpha_share(ALPHA, METRICS, 1);
    let mut outcomes = Vec::new();
    for _ in 0..METRICS {
        let logarithms = noise.pairs(random, count, rise);
        let runs: Vec<Sides<f64>> =
            logarithms.iter().map(|pair| pair.as_ref().map(|ln| 5e7 * ln.exp())).collect();
        outcomes.push(RUN_RULE.screen(&runs, alpha).outcome);
    }
    Outcome::worst_of(outcomes)
}

/// Screens the lateness of rounds.
fn screen_rounds(random: &mut SplitMix64, noise: Noise, rise: f64) -> Outcome {
    let count = 24 + random.index(27);
    let rules = Rules { looks: vec![count], ..Rules::new(PERIOD_NS) };
    let medians = noise.pairs(random, count, rise);
    let tails = noise.pairs(random, count, rise);
    let mut pairs = Vec::new();
    for (median, tail) in medians.iter().zip(&tails) {
        let value = |median: f64, tail: f64| {
            let late = |ns: f64, ln: f64| Late { ln: ns.ln() + ln, ln_unstalled: ns.ln() + ln };
            RoundValue { median: late(14e3, median), tail: late(40e3, tail) }
        };
        let base = value(median.base, tail.base);
        pairs.push(Sides { base, candidate: value(median.candidate, tail.candidate) });
    }
    screen(&pairs, &rules).outcome
}

type Screen = fn(&mut SplitMix64, Noise, f64) -> Outcome;

const SCREENS: [Screen; 2] = [screen_runs, screen_rounds];

fn count_clearly_worse(screen: Screen, noise: Noise, rise: f64, screens: usize) -> usize {
    let mut random = SplitMix64::new(11);
    let outcomes = (0..screens).map(|_| screen(&mut random, noise, rise));
    outcomes.filter(|outcome| *outcome == Outcome::Regressed).count()
}

fn assert_unchanged_programs_pass(screens: usize) {
    for screen in SCREENS {
        for noise in [QUIET, BUSY] {
            assert_eq!(count_clearly_worse(screen, noise, 0.0, screens), 0, "{noise:?}");
        }
        // Whatever the noise is, the rate is bounded. Four standard deviations are allowed.
        let expected = CLEAR_ALPHA_SHARE * ALPHA * screens as f64;
        let alarms = count_clearly_worse(screen, WILD, 0.0, screens) as f64;
        assert!(alarms <= expected + 4.0 * expected.sqrt(), "{alarms} of {screens}");
    }
}

#[test]
fn unchanged_programs_raise_no_alarm() {
    assert_unchanged_programs_pass(1_000);
}

#[test]
fn slow_programs_are_clearly_worse() {
    for (screen, rise) in [(screen_runs as Screen, 0.1), (screen_rounds, 0.6)] {
        assert!(count_clearly_worse(screen, QUIET, rise, 100) >= 99);
    }
    // Twice the time is found on a busy machine as well.
    for screen in SCREENS {
        assert!(count_clearly_worse(screen, BUSY, 1.0, 100) >= 75);
    }
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 60,000 screens of each kind"]
    fn unchanged_programs_raise_no_alarm() {
        assert_unchanged_programs_pass(20_000);
    }
}
