//! A new session against stored ones.
//!
//! Of each session one number a percentile is taken: by how much the subject was later than its
//! control, as a logarithm, with a standard error from its pairs. Sessions differ by more than
//! their pairs tell, so a spread between sessions is added to the error of each: measured where the
//! file holds enough sessions, assumed otherwise.

use super::baseline::{Session, SessionDesign};
use super::verdict::BaselineMetric;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Lift, Outcome, PercentileVerdict, Reason, Rules};
use jitterstat::gate::round::{self, Pair};
use jitterstat::stats::signed_rank::Shift;

/// From so many stored sessions on, their own spread is used.
const SESSIONS_FOR_SPREAD: usize = 8;
/// From so many on, it is used where it is the larger.
const SESSIONS_FOR_MORE: usize = 3;
/// Assumed spread of the median between sessions, measured on one virtual machine.
const MEDIAN_SPREAD: f64 = 0.03;
/// Assumed spread of the tail between sessions, measured on one virtual machine.
const TAIL_SPREAD: f64 = 0.06;
/// Each bound of the interval that decides errs in at most 0.5 % of cases.
const Z: f64 = 2.576;
/// Alpha of each bound of the interval from which a standard error is computed.
const SE_ALPHA: f64 = 0.025;
/// Width of that interval in standard errors.
const SE_WIDTH: f64 = 3.92;

/// The medians and the tails of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Percentile {
    Median,
    Tail,
}

impl Percentile {
    /// The spread between sessions that is assumed with few stored sessions.
    fn assumed_spread(self) -> f64 {
        match self {
            Self::Median => MEDIAN_SPREAD,
            Self::Tail => TAIL_SPREAD,
        }
    }
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
    lift: Option<Lift>,
    /// Stalls may hide what is tolerated.
    stalled: bool,
}

/// Judges a new session by the stored ones, which must be of the same design on the same machine.
///
/// With k stored sessions, D the new level minus their mean and s² = se² + τ² + (mean se² + τ²) /
/// k, it passes if D + 2.576 s lies below the tolerance less what stalls lift both sides, and has
/// regressed if D − 2.576 s lies above zero and D reaches half of the tolerance. Where stalls may
/// hide what is tolerated, nothing is judged.
#[must_use]
pub fn judge(
    new: &Session,
    stored: &[Session],
    design: &SessionDesign,
    rules: &Rules,
) -> Vec<BaselineMetric> {
    let tail_name = round::tail_name(design.tail_quantile());
    let of = |percentile: Percentile, name: &str, relative: f64| {
        let now = level(new, design, rules, percentile);
        let then: Vec<Level> =
            stored.iter().filter_map(|s| level(s, design, rules, percentile)).collect();
        let judged = judged(percentile, now, &then, relative, rules);
        BaselineMetric::of(name, &judged, now.map_or(0.0, |level| level.control.exp()))
    };
    vec![
        of(Percentile::Median, "p50", rules.tolerance_median),
        of(Percentile::Tail, tail_name, rules.tolerance_tail),
    ]
}

/// Why a session says nothing that is worth keeping, if it does not.
#[must_use]
pub fn rejection_reason(
    session: &Session,
    design: &SessionDesign,
    rules: &Rules,
) -> Option<Reason> {
    [Percentile::Median, Percentile::Tail].into_iter().find_map(|p| {
        match level(session, design, rules, p) {
            None => Some(Reason::TooFewRounds),
            Some(level) if level.stalled => Some(Reason::StallDominated),
            Some(_) => None,
        }
    })
}

fn level(
    session: &Session,
    design: &SessionDesign,
    rules: &Rules,
    percentile: Percentile,
) -> Option<Level> {
    let pairs: Vec<Pair> = session.values(design.tail_quantile());
    let (used, relative) = match percentile {
        Percentile::Median => (decision::medians(&pairs), rules.tolerance_median),
        Percentile::Tail => (decision::quiet_half(&decision::tails(&pairs)), rules.tolerance_tail),
    };
    let lift = Lift::from_pairs(&used, rules.period_ns);
    let shift = decision::hodges_lehmann(&used)?.shift(SE_ALPHA);
    Some(Level {
        over_control: shift.estimate,
        standard_error: (shift.upper - shift.lower) / SE_WIDTH,
        subject: decision::median(used.iter().map(|pair| pair.candidate.ln)),
        control: decision::median(used.iter().map(|pair| pair.base.ln)),
        pairs: used.len(),
        lift,
        stalled: lift.is_some_and(|lift| lift.masks_change(relative)),
    })
}

/// Side A are the stored sessions, side B is the new one.
fn judged(
    percentile: Percentile,
    now: Option<Level>,
    then: &[Level],
    relative: f64,
    rules: &Rules,
) -> PercentileVerdict {
    let a_ns = mean(then.iter().map(|l| l.subject)).exp();
    let tolerance = rules.tolerance(relative, a_ns);
    let open = PercentileVerdict {
        outcome: Outcome::Inconclusive,
        reason: Some(Reason::TooFewRounds),
        shift: None,
        tolerance,
        sides_ns: Sides { base: a_ns, candidate: now.map_or(0.0, |level| level.subject.exp()) },
        pairs: now.map_or(0, |level| level.pairs),
        pairs_to_decide: None,
        lift: now.and_then(|level| level.lift),
    };
    let Some(level) = now.filter(|_| !then.is_empty()) else { return open };
    let spread = spread(then, percentile.assumed_spread()).powi(2);
    let of_stored =
        (mean(then.iter().map(|l| l.standard_error.powi(2))) + spread) / then.len() as f64;
    let d = level.over_control - mean(then.iter().map(|l| l.over_control));
    let by = Z * (level.standard_error.powi(2) + spread + of_stored).sqrt();
    let shift = Shift { estimate: d, lower: d - by, upper: d + by };
    // The stalls of another day are not those of the stored sessions: they come before anything
    // else.
    let (outcome, reason) =
        match decision::judge_shift(shift, tolerance, level.lift.map_or(0.0, |lift| lift.both)) {
            _ if level.stalled => (Outcome::Inconclusive, Some(Reason::StallDominated)),
            Outcome::Inconclusive => (Outcome::Inconclusive, Some(Reason::TooNoisy)),
            decided => (decided, None),
        };
    PercentileVerdict { outcome, reason, shift: Some(shift), ..open }
}

/// Standard deviation between sessions: what is assumed of it, or what they show, where they are
/// enough to show it or differ by more. Those of a machine that was quiet and busy by turns may: a
/// subject that waits for a wheel's next turn is as late then, and its control is not.
fn spread(then: &[Level], assumed: f64) -> f64 {
    let centre = mean(then.iter().map(|l| l.over_control));
    let squares: f64 = then.iter().map(|l| (l.over_control - centre).powi(2)).sum();
    let shown = (squares / (then.len() as f64 - 1.0)).sqrt();
    match then.len() {
        SESSIONS_FOR_SPREAD.. => shown,
        SESSIONS_FOR_MORE.. => shown.max(assumed),
        _ => assumed,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), v| (sum + v, n + 1));
    sum / f64::from(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::baseline::{CONTROL, SessionPair};
    use crate::gate::round_record::RoundRecord;
    use crate::gate::verdict::Mode;
    use crate::report::Tool;
    use jitterstat::stats::random::SplitMix64;

    const PERIOD_NS: u64 = 500_000;

    fn design() -> SessionDesign {
        SessionDesign {
            subject: "os-interval".into(),
            runtime: None,
            control: CONTROL.into(),
            period_ns: PERIOD_NS,
            round_ticks: 250,
            warmup_ticks: 20,
            mode: Mode::Interleaved,
            bound_to_one_cpu: true,
            already_due_ns: 20_000,
            stalls: Some("gap-1".into()),
            quiet_share: 0.5,
        }
    }

    /// A machine that is `machine` times as slow as another day, a subject that is `subject` times
    /// its control, and rounds that vary by a fifth.
    fn session(seed: u64, machine: f64, subject: f64) -> Session {
        let mut random = SplitMix64::new(seed);
        let mut about = |ns: f64| (ns * (0.2 * (2.0 * random.unit() - 1.0)).exp()) as i64;
        let mut round = |level: f64| {
            let (p50_ns, p99_ns) = (about(10e3 * level), about(30e3 * level));
            let of = RoundRecord::from_ticks([(0, 1)], PERIOD_NS).unwrap();
            RoundRecord { p50_ns, p99_ns, ..of }
        };
        let pair = |_| SessionPair {
            subject_first: true,
            subject: round(machine * subject),
            control: round(machine),
        };
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
        let metrics = judge(new, stored, &design(), &Rules::new(PERIOD_NS));
        assert_eq!(metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["p50", "p99"]);
        [metrics[0].verdict, metrics[1].verdict]
    }

    #[test]
    fn a_slower_day_is_no_regression_and_a_slower_subject_is() {
        for k in [1, 3, 10] {
            let stored: Vec<Session> = (0..k).map(|i| session(i, 1.0, 1.4)).collect();
            assert_eq!(verdicts(&session(77, 1.8, 1.4), &stored), [Outcome::Pass; 2], "{k}");
            assert_eq!(
                verdicts(&session(78, 0.6, 1.4 * 1.6), &stored),
                [Outcome::Regressed; 2],
                "{k}"
            );
            assert_eq!(
                verdicts(&session(79, 1.0, 1.4 * 0.6), &stored),
                [Outcome::Improved; 2],
                "{k}"
            );
        }
    }

    #[test]
    fn a_change_at_the_edge_of_the_tolerance_is_left_open() {
        let stored = [session(1, 1.0, 1.4)];
        assert_eq!(verdicts(&session(2, 1.0, 1.4 * 1.15), &stored)[0], Outcome::Inconclusive);
        let metrics =
            judge(&session(2, 1.0, 1.4 * 1.15), &stored, &design(), &Rules::new(PERIOD_NS));
        assert_eq!(metrics[0].reason, Some(Reason::TooNoisy));
        let [low, high] = metrics[0].ratio_interval.unwrap();
        assert!(low < 1.15 && 1.15 < high && metrics[0].stored_ns > Some(13_000), "{metrics:?}");
    }

    /// A machine that is quiet and busy by turns, and a subject that waits for a wheel's next turn.
    #[test]
    fn a_few_stored_sessions_that_differ_make_it_careful_too() {
        let stored: Vec<Session> = (0..5)
            .map(|i| [1.0, 1.4][i % 2])
            .zip(0..)
            .map(|(m, i)| session(i, m, 1.5 / m))
            .collect();
        assert_eq!(verdicts(&session(77, 1.0, 1.5), &stored), [Outcome::Inconclusive; 2]);
        assert_eq!(verdicts(&session(77, 1.0, 4.5), &stored), [Outcome::Regressed; 2]);
    }

    #[test]
    fn stored_sessions_that_differ_make_the_gate_careful() {
        // Eight sessions whose levels lie 20 % apart: a rise of 30 % is nothing unusual among them.
        let stored: Vec<Session> =
            (0..8).map(|i| session(i, 1.0, if i % 2 == 0 { 1.2 } else { 1.7 })).collect();
        assert_eq!(verdicts(&session(9, 1.0, 1.43 * 1.3), &stored)[0], Outcome::Inconclusive);
        let alike: Vec<Session> = (0..8).map(|i| session(i, 1.0, 1.43)).collect();
        assert_eq!(verdicts(&session(9, 1.0, 1.43 * 1.3), &alike)[0], Outcome::Regressed);
    }

    #[test]
    fn what_lies_inside_the_stalls_is_not_judged_and_not_kept() {
        let rules = Rules::new(PERIOD_NS);
        let stalled = session(1, 20.0, 1.4);
        let metrics = judge(&stalled, &[session(2, 1.0, 1.4)], &design(), &rules);
        assert_eq!(metrics[1].reason, Some(Reason::StallDominated));
        assert_eq!(rejection_reason(&stalled, &design(), &rules), Some(Reason::StallDominated));
        assert_eq!(rejection_reason(&session(2, 1.0, 1.4), &design(), &rules), None);
        let few = Session { pairs: stalled.pairs[..20].to_vec(), ..stalled };
        assert_eq!(rejection_reason(&few, &design(), &rules), Some(Reason::TooFewRounds));
    }
}
