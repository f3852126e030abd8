//! A new session against stored ones.
//!
//! Of each session one number a percentile is taken: by how much the subject was later than its control, as a logarithm,
//! with a standard error from its pairs. Sessions differ by more than their pairs tell, so a spread between sessions is
//! added to the error of each: measured where the file holds enough sessions, assumed otherwise.

use super::baseline::{Scenario, Session};
use super::look::{self, MIN_PAIRS, Outcome, Reason, Rules};
use super::round::{self, RoundValue};
use super::verdict::BaselineMetric;
use crate::stats::signed_rank::HodgesLehmann;

/// From so many stored sessions on, their own spread is used.
const SESSIONS_FOR_SPREAD: usize = 8;
/// Spread between sessions that is assumed of the median, and of the tail. Measured on one virtual machine.
const SPREAD: [f64; 2] = [0.03, 0.06];
/// Each bound of the interval that decides errs in at most 0.5 % of cases.
const Z: f64 = 2.576;
/// Alpha of each bound of the interval that a standard error is taken from, and its width in standard errors.
const ERROR_FROM: (f64, f64) = (0.025, 3.92);

/// The medians and the tails of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Percentile {
    Median,
    Tail,
}

/// One percentile of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    /// Of the subject over its control, as a logarithm.
    over_control: f64,
    standard_error: f64,
    /// Median round of the subject and of the control, as logarithms.
    subject: f64,
    control: f64,
    /// Pairs it is of.
    pairs: usize,
    /// The percentile lies inside the machine's stalls on both sides.
    stalled: bool,
}

/// Judges a new session by the stored ones, which must be of the same scenario on the same machine.
///
/// With k stored sessions, D the new level minus their mean and s² = se² + τ² + (mean se² + τ²) / k, it passes if
/// D + 2.576 s lies below the tolerance, and has regressed if D − 2.576 s lies above zero and D reaches half of the
/// tolerance.
#[must_use]
pub fn judge(new: &Session, stored: &[Session], scenario: &Scenario, rules: &Rules) -> Vec<BaselineMetric> {
    let of = |percentile: Percentile, relative: f64| {
        let now = level(new, scenario, rules, percentile);
        let then: Vec<Level> = stored.iter().filter_map(|s| level(s, scenario, rules, percentile)).collect();
        metric(percentile, now, &then, relative, scenario, rules)
    };
    vec![of(Percentile::Median, rules.tolerance_median), of(Percentile::Tail, rules.tolerance_tail)]
}

/// Why a session says nothing that is worth keeping, if it does not.
#[must_use]
pub fn is_unusable(session: &Session, scenario: &Scenario, rules: &Rules) -> Option<Reason> {
    [Percentile::Median, Percentile::Tail].into_iter().find_map(|p| match level(session, scenario, rules, p) {
        None => Some(Reason::TooFewRounds),
        Some(level) if level.stalled => Some(Reason::StallDominated),
        Some(_) => None,
    })
}

fn level(session: &Session, scenario: &Scenario, rules: &Rules, percentile: Percentile) -> Option<Level> {
    let tail = scenario.tail_quantile();
    let ln = |value: RoundValue| match percentile {
        Percentile::Median => value.ln_median,
        Percentile::Tail => value.ln_tail,
    };
    let value = |record: &super::baseline::RoundRecord| ln(record.value(tail, session.resolution_ns));
    let all: Vec<[f64; 2]> = session.pairs.iter().map(|p| [value(&p.control), value(&p.subject)]).collect();
    let used = match percentile {
        Percentile::Median => all.clone(),
        Percentile::Tail => look::quiet_half(&all),
    };
    let differences: Vec<f64> = used.iter().map(|v| v[1] - v[0]).collect();
    let shift = (used.len() >= MIN_PAIRS).then(|| HodgesLehmann::new(&differences)).flatten()?.shift(ERROR_FROM.0);
    Some(Level {
        over_control: shift.estimate,
        standard_error: (shift.upper - shift.lower) / ERROR_FROM.1,
        subject: look::median(all.iter().map(|v| v[1])),
        control: look::median(all.iter().map(|v| v[0])),
        pairs: used.len(),
        stalled: look::median(all.iter().map(|v| v[0].min(v[1]))) >= rules.unmeasurable_from_ln(),
    })
}

fn metric(
    percentile: Percentile,
    now: Option<Level>,
    then: &[Level],
    relative: f64,
    scenario: &Scenario,
    rules: &Rules,
) -> BaselineMetric {
    let (name, assumed) = match percentile {
        Percentile::Median => ("p50", SPREAD[0]),
        Percentile::Tail => (round::tail_name(scenario.tail_quantile()), SPREAD[1]),
    };
    let stored = mean(then.iter().map(|l| l.subject));
    let tolerance = rules.tolerance(relative, stored.exp());
    let ns = |ln: Option<f64>| ln.map_or(0, |ln| ln.exp().round() as i64);
    let about = |verdict, reason, found: Option<(f64, f64)>| BaselineMetric {
        name: name.to_owned(),
        verdict,
        reason,
        ratio: found.map(|(d, _)| d.exp()),
        ratio_interval: found.map(|(d, by)| [(d - by).exp(), (d + by).exp()]),
        tolerated_ratio: if tolerance.is_finite() { tolerance.exp() } else { 1.0 },
        stored_ns: (!then.is_empty()).then(|| stored.exp().round() as i64),
        now_ns: ns(now.map(|l| l.subject)),
        control_ns: ns(now.map(|l| l.control)),
        pairs: now.map_or(0, |l| l.pairs as u64),
    };
    let Some(level) = now.filter(|_| !then.is_empty()) else {
        return about(Outcome::Inconclusive, Some(Reason::TooFewRounds), None);
    };
    let spread = spread(then).unwrap_or(assumed).powi(2);
    let of_stored = (mean(then.iter().map(|l| l.standard_error.powi(2))) + spread) / then.len() as f64;
    let d = level.over_control - mean(then.iter().map(|l| l.over_control));
    let by = Z * (level.standard_error.powi(2) + spread + of_stored).sqrt();
    let (verdict, reason) = if level.stalled {
        (Outcome::Inconclusive, Some(Reason::StallDominated))
    } else if d - by > 0.0 && d >= tolerance / 2.0 && d + by >= tolerance {
        (Outcome::Regressed, None)
    } else if d + by < tolerance {
        let improved = d <= -tolerance / 2.0 && d + by < 0.0;
        (if improved { Outcome::Improved } else { Outcome::Pass }, None)
    } else {
        (Outcome::Inconclusive, Some(Reason::TooNoisy))
    };
    about(verdict, reason, Some((d, by)))
}

/// Standard deviation between sessions, where there are enough of them.
fn spread(then: &[Level]) -> Option<f64> {
    let centre = mean(then.iter().map(|l| l.over_control));
    let squares: f64 = then.iter().map(|l| (l.over_control - centre).powi(2)).sum();
    (then.len() >= SESSIONS_FOR_SPREAD).then(|| (squares / (then.len() - 1) as f64).sqrt())
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), v| (sum + v, n + 1));
    sum / f64::from(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::baseline::{CONTROL, Met, RoundRecord, SessionPair};
    use crate::gate::verdict::Mode;
    use crate::report::Tool;
    use crate::stats::random::SplitMix64;

    const PERIOD_NS: u64 = 500_000;

    fn scenario() -> Scenario {
        Scenario {
            subject: "os-interval".into(),
            runtime: None,
            control: CONTROL.into(),
            period_ns: PERIOD_NS,
            round_ticks: 250,
            warmup_ticks: 20,
            mode: Mode::Interleaved,
            bound_to_one_cpu: true,
            already_due_ns: 20_000,
            quiet_share: 0.5,
        }
    }

    /// A machine that is `machine` times as slow as another day, a subject that is `subject` times its control, and
    /// rounds that vary by a fifth.
    fn session(seed: u64, machine: f64, subject: f64) -> Session {
        let mut random = SplitMix64::new(seed);
        let mut about = |ns: f64| (ns * (0.2 * (2.0 * random.unit() - 1.0)).exp()) as i64;
        let mut round = |level: f64| {
            let (p50_ns, p99_ns) = (about(10e3 * level), about(30e3 * level));
            let of = RoundRecord::of([(0, 1)], PERIOD_NS, Met::default()).unwrap();
            RoundRecord { p50_ns, p99_ns, ..of }
        };
        let pair = |_| SessionPair { subject_first: true, subject: round(machine * subject), control: round(machine) };
        Session {
            tool: Tool { name: "osjitter".into(), version: "0".into(), commit: None },
            started_utc: "2026-01-01T00:00:00Z".into(),
            duration_ns: 1,
            seed,
            cpu: None,
            resolution_ns: 1,
            pairs: (0..200).map(pair).collect(),
            subject_histogram: crate::histogram::pack([1]),
            control_histogram: crate::histogram::pack([1]),
        }
    }

    fn verdicts(new: &Session, stored: &[Session]) -> [Outcome; 2] {
        let metrics = judge(new, stored, &scenario(), &Rules::new(PERIOD_NS));
        assert_eq!(metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["p50", "p99"]);
        [metrics[0].verdict, metrics[1].verdict]
    }

    #[test]
    fn a_slower_day_is_no_regression_and_a_slower_subject_is() {
        for k in [1, 3, 10] {
            let stored: Vec<Session> = (0..k).map(|i| session(i, 1.0, 1.4)).collect();
            assert_eq!(verdicts(&session(77, 1.8, 1.4), &stored), [Outcome::Pass; 2], "{k}");
            assert_eq!(verdicts(&session(78, 0.6, 1.4 * 1.6), &stored), [Outcome::Regressed; 2], "{k}");
            assert_eq!(verdicts(&session(79, 1.0, 1.4 * 0.6), &stored), [Outcome::Improved; 2], "{k}");
        }
    }

    #[test]
    fn a_change_at_the_edge_of_the_tolerance_is_left_open() {
        let stored = [session(1, 1.0, 1.4)];
        assert_eq!(verdicts(&session(2, 1.0, 1.4 * 1.15), &stored)[0], Outcome::Inconclusive);
        let metrics = judge(&session(2, 1.0, 1.4 * 1.15), &stored, &scenario(), &Rules::new(PERIOD_NS));
        assert_eq!(metrics[0].reason, Some(Reason::TooNoisy));
        let [low, high] = metrics[0].ratio_interval.unwrap();
        assert!(low < 1.15 && 1.15 < high && metrics[0].stored_ns > Some(13_000), "{metrics:?}");
    }

    #[test]
    fn stored_sessions_that_differ_make_the_gate_careful() {
        // Eight sessions whose levels lie 20 % apart: a rise of 30 % is nothing unusual among them.
        let stored: Vec<Session> = (0..8).map(|i| session(i, 1.0, if i % 2 == 0 { 1.2 } else { 1.7 })).collect();
        assert_eq!(verdicts(&session(9, 1.0, 1.43 * 1.3), &stored)[0], Outcome::Inconclusive);
        let alike: Vec<Session> = (0..8).map(|i| session(i, 1.0, 1.43)).collect();
        assert_eq!(verdicts(&session(9, 1.0, 1.43 * 1.3), &alike)[0], Outcome::Regressed);
    }

    #[test]
    fn what_lies_inside_the_stalls_is_not_judged_and_not_kept() {
        let rules = Rules::new(PERIOD_NS);
        let stalled = session(1, 20.0, 1.4);
        let metrics = judge(&stalled, &[session(2, 1.0, 1.4)], &scenario(), &rules);
        assert_eq!(metrics[1].reason, Some(Reason::StallDominated));
        assert_eq!(is_unusable(&stalled, &scenario(), &rules), Some(Reason::StallDominated));
        assert_eq!(is_unusable(&session(2, 1.0, 1.4), &scenario(), &rules), None);
        let few = Session { pairs: stalled.pairs[..20].to_vec(), ..stalled };
        assert_eq!(is_unusable(&few, &scenario(), &rules), Some(Reason::TooFewRounds));
    }
}
