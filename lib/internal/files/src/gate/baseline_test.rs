//! The test of a new session against stored sessions.
//!
//! Each session gives one number per percentile: by how much the subject was later than its
//! control, as a logarithm, with a standard error from its pairs. Sessions differ by more than
//! their pairs show, so a spread between sessions is added to each error. The spread is measured if
//! the file contains enough sessions, and assumed otherwise.

use super::baseline::{MAX_SESSIONS, Session, SessionDesign};
use super::verdict::BaselineMetric;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Lift, NumberRule, NumberVerdict, Outcome, Reason, Rules};
use jitterstat::gate::round::{self, Late, Pair};
use jitterstat::stats::quantile;
use jitterstat::stats::signed_rank::Shift;

/// Minimum number of stored sessions from which their measured spread is used.
const MIN_SESSIONS_FOR_SPREAD: usize = 8;
/// Minimum number of stored sessions from which the interval accounts for the error of their
/// measured spread.
const MIN_SESSIONS_FOR_SPREAD_ERROR: usize = 5;
/// Assumed spread of the median between sessions, measured on one virtual machine.
const MEDIAN_SPREAD: f64 = 0.03;
/// Assumed spread of the tail between sessions, measured on one virtual machine.
const TAIL_SPREAD: f64 = 0.06;
/// Quantile of the normal distribution with which each bound of the deciding interval errs in at
/// most 0.5 % of cases, if the spread between sessions is known.
const Z: f64 = 2.576;
/// Quantiles of Student's t distribution for the same share of errors, for a spread measured on
/// [`MIN_SESSIONS_FOR_SPREAD_ERROR`] to [`MAX_SESSIONS`] sessions, so with four to nine degrees of
/// freedom.
const STUDENT_T: [f64; MAX_SESSIONS + 1 - MIN_SESSIONS_FOR_SPREAD_ERROR] =
    [4.604, 4.032, 3.707, 3.499, 3.355, 3.250];
/// Alpha of each bound of the interval from which a standard error is computed.
const SE_ALPHA: f64 = 0.025;
/// Width of that interval in standard errors.
const SE_WIDTH: f64 = 3.92;

/// A percentile that a gate judges.
struct JudgedPercentile {
    name: &'static str,
    rule: NumberRule,
    /// Returns the percentile of both rounds of each pair.
    values: fn(&[Pair]) -> Vec<Sides<Late>>,
    /// Spread between sessions that is assumed with few stored sessions.
    assumed_spread: f64,
}

/// Returns the percentiles that a gate judges: the median and the tail.
fn percentiles(design: &SessionDesign, rules: &Rules) -> [JudgedPercentile; 2] {
    let median = JudgedPercentile {
        name: "p50",
        rule: rules.median(),
        values: decision::medians,
        assumed_spread: MEDIAN_SPREAD,
    };
    let tail = JudgedPercentile {
        name: round::tail_name(design.tail_quantile()),
        rule: rules.tail(),
        values: decision::tails,
        assumed_spread: TAIL_SPREAD,
    };
    [median, tail]
}

/// The result of one percentile of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    /// Logarithm of the ratio of the subject to its control.
    over_control: f64,
    standard_error: f64,
    /// Median round of the subject and of the control, as logarithms.
    subject: f64,
    control: f64,
    /// Number of pairs behind it.
    pairs: usize,
    lift: Option<Lift>,
    /// Whether stalls could mask a change of the tolerated size.
    is_stalled: bool,
}

/// Judges a new session by the stored ones, which must have the same design and machine.
///
/// With k stored sessions, let D be the new level minus their mean, τ the spread between sessions,
/// which is widened from five sessions on, and s² = se² + τ² + (mean se² + τ²) / k. The session
/// passes if D + 2.576 s is below the tolerance less the lift of stalls on both sides. It has
/// regressed if D − 2.576 s is above zero and D is at least half of the tolerance. If stalls could
/// mask a change of the tolerated size, the outcome is inconclusive.
///
/// # Panics
/// Panics if there are more than [`MAX_SESSIONS`] stored sessions.
#[must_use]
pub fn judge(
    new: &Session,
    stored: &[Session],
    design: &SessionDesign,
    rules: &Rules,
) -> Vec<BaselineMetric> {
    let metric = |percentile: JudgedPercentile| {
        let level = |session: &Session| percentile.level(session, design);
        let now = level(new);
        let stored: Vec<Level> = stored.iter().filter_map(level).collect();
        let judged = percentile.judge(now, &stored);
        BaselineMetric::new(percentile.name, &judged, now.map_or(0.0, |level| level.control.exp()))
    };
    percentiles(design, rules).map(metric).into()
}

/// Returns the reason for which a session is not worth storing, if there is one.
#[must_use]
pub fn rejection_reason(
    session: &Session,
    design: &SessionDesign,
    rules: &Rules,
) -> Option<Reason> {
    let reason = |percentile: JudgedPercentile| match percentile.level(session, design) {
        None => Some(Reason::TooFewRounds),
        Some(level) => level.is_stalled.then_some(Reason::StallDominated),
    };
    percentiles(design, rules).into_iter().find_map(reason)
}

impl JudgedPercentile {
    /// Computes the result of a session; `None` with too few pairs.
    fn level(&self, session: &Session, design: &SessionDesign) -> Option<Level> {
        let values = (self.values)(&session.values(design.tail_quantile()));
        let used = self.rule.used_pairs(&values);
        let lift = Lift::from_pairs(&used, self.rule.period_ns);
        let shift = decision::hodges_lehmann(&used)?.shift(SE_ALPHA);
        Some(Level {
            over_control: shift.estimate,
            standard_error: (shift.upper - shift.lower) / SE_WIDTH,
            subject: quantile::median(used.iter().map(|pair| pair.candidate.ln)),
            control: quantile::median(used.iter().map(|pair| pair.base.ln)),
            pairs: used.len(),
            lift,
            is_stalled: lift.is_some_and(|lift| lift.masks_change(self.rule.tolerance)),
        })
    }

    /// Judges the result of a new session, which is side B. Side A is the stored sessions.
    fn judge(&self, now: Option<Level>, stored: &[Level]) -> NumberVerdict {
        let a_ns = mean(stored.iter().map(|l| l.subject)).exp();
        let open = NumberVerdict {
            outcome: Outcome::Inconclusive,
            reason: Some(Reason::TooFewRounds),
            shift: None,
            tolerance: self.rule.tolerated(a_ns),
            sides: Sides { base: a_ns, candidate: now.map_or(0.0, |level| level.subject.exp()) },
            pairs: now.map_or(0, |level| level.pairs),
            pairs_to_decide: None,
            lift: now.and_then(|level| level.lift),
        };
        let Some(level) = now.filter(|_| !stored.is_empty()) else { return open };
        let shift = level.shift_against(stored, session_spread(stored, self.assumed_spread));
        let lift = level.lift.map_or(0.0, |lift| lift.both);
        // Stalls take precedence: the stored sessions do not share those of the new one.
        let (outcome, reason) = match decision::judge_shift(shift, open.tolerance, lift) {
            _ if level.is_stalled => (Outcome::Inconclusive, Some(Reason::StallDominated)),
            Outcome::Inconclusive => (Outcome::Inconclusive, Some(Reason::TooNoisy)),
            decided => (decided, None),
        };
        NumberVerdict { outcome, reason, shift: Some(shift), ..open }
    }
}

impl Level {
    /// Returns the difference from the mean of the stored sessions with its 99 % interval.
    fn shift_against(&self, stored: &[Level], spread: f64) -> Shift {
        let variance = spread.powi(2);
        let mean_variance = (mean(stored.iter().map(|l| l.standard_error.powi(2))) + variance)
            / stored.len() as f64;
        let difference = self.over_control - mean(stored.iter().map(|l| l.over_control));
        let half_width = Z * (self.standard_error.powi(2) + variance + mean_variance).sqrt();
        Shift {
            estimate: difference,
            lower: difference - half_width,
            upper: difference + half_width,
        }
    }
}

/// Returns the standard deviation between sessions: the assumed one, or the measured one if there
/// are enough sessions or they differ by more.
///
/// They can differ by more on a machine that alternates between quiet and busy: the control is
/// later when it is busy, but a subject that waits for the next turn of a timer wheel is not.
///
/// A measured spread can be too small by chance. From five sessions on, it is therefore multiplied
/// by the ratio of the quantile of Student's t distribution to [`Z`], so that the bounds err as
/// rarely as with a known spread. With fewer sessions, this ratio is so large that most sessions
/// would be undecided, and a session that is undecided cannot be added.
fn session_spread(stored: &[Level], assumed: f64) -> f64 {
    let count = stored.len();
    if count < 2 {
        return assumed;
    }
    let centre = mean(stored.iter().map(|l| l.over_control));
    let squares: f64 = stored.iter().map(|l| (l.over_control - centre).powi(2)).sum();
    let measured = (squares / (count as f64 - 1.0)).sqrt();
    let Some(row) = count.checked_sub(MIN_SESSIONS_FOR_SPREAD_ERROR) else {
        return measured.max(assumed);
    };
    let widened = measured * STUDENT_T[row] / Z;
    if count < MIN_SESSIONS_FOR_SPREAD { widened.max(assumed) } else { widened }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), v| (sum + v, n + 1));
    sum / f64::from(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::baseline::SessionPair;
    use crate::gate::round_record::RoundRecord;
    use crate::gate::verdict::Mode;
    use crate::report::Tool;
    use crate::subjects::SLEEPING_CONTROL;
    use jitterstat::stats::random::SplitMix64;

    const PERIOD_NS: u64 = 500_000;

    fn design() -> SessionDesign {
        SessionDesign {
            subject: "os-interval".into(),
            runtime: None,
            control: SLEEPING_CONTROL.name.into(),
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

    /// A session on a machine that is `machine` times as slow as usual, of a subject that is
    /// `subject` times as late as its control, with rounds that vary by a fifth.
    fn session(seed: u64, machine: f64, subject: f64) -> Session {
        let mut random = SplitMix64::new(seed);
        let mut about = |ns: f64| (ns * (0.2 * (2.0 * random.unit() - 1.0)).exp()) as i64;
        let mut round = |level: f64| {
            let (p50_ns, p99_ns) = (about(10e3 * level), about(30e3 * level));
            let record = RoundRecord::from_ticks([(0, 1)], PERIOD_NS).unwrap();
            RoundRecord { p50_ns, p99_ns, ..record }
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

    /// The outcomes of the median and of the tail.
    fn outcomes(new: &Session, stored: &[Session]) -> (Outcome, Outcome) {
        let metrics = judge(new, stored, &design(), &Rules::new(PERIOD_NS));
        assert_eq!(metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["p50", "p99"]);
        (metrics[0].judged.verdict, metrics[1].judged.verdict)
    }

    #[test]
    fn slower_machine_is_not_a_regression() {
        for k in [1, 3, 10] {
            let stored: Vec<Session> = (0..k).map(|i| session(i, 1.0, 1.4)).collect();
            assert_eq!(
                outcomes(&session(77, 1.8, 1.4), &stored),
                (Outcome::Pass, Outcome::Pass),
                "{k}"
            );
            assert_eq!(
                outcomes(&session(78, 0.6, 1.4 * 1.6), &stored),
                (Outcome::Regressed, Outcome::Regressed),
                "{k}"
            );
            assert_eq!(
                outcomes(&session(79, 1.0, 1.4 * 0.6), &stored),
                (Outcome::Improved, Outcome::Improved),
                "{k}"
            );
        }
    }

    #[test]
    fn borderline_change_is_inconclusive() {
        let stored = [session(1, 1.0, 1.4)];
        assert_eq!(outcomes(&session(2, 1.0, 1.4 * 1.15), &stored).0, Outcome::Inconclusive);
        let metrics =
            judge(&session(2, 1.0, 1.4 * 1.15), &stored, &design(), &Rules::new(PERIOD_NS));
        assert_eq!(metrics[0].judged.reason, Some(Reason::TooNoisy));
        let [low, high] = metrics[0].judged.ratio_interval.unwrap();
        assert!(low < 1.15 && 1.15 < high && metrics[0].stored_ns > Some(13_000), "{metrics:?}");
    }

    /// A machine that alternates between quiet and busy, and a subject that waits for the next turn
    /// of a timer wheel.
    #[test]
    fn few_differing_sessions_widen_the_interval() {
        for count in [2, 3, 5] {
            let stored: Vec<Session> = (0..count)
                .map(|i| [1.0, 1.4][i % 2])
                .zip(0..)
                .map(|(m, i)| session(i, m, 1.5 / m))
                .collect();
            assert_eq!(
                outcomes(&session(77, 1.0, 1.5), &stored),
                (Outcome::Inconclusive, Outcome::Inconclusive),
                "{count}"
            );
            assert_eq!(
                outcomes(&session(77, 1.0, 4.5), &stored),
                (Outcome::Regressed, Outcome::Regressed),
                "{count}"
            );
        }
    }

    #[test]
    fn differing_sessions_widen_the_interval() {
        // The levels of the eight sessions differ so much that a rise of 30 % is not unusual.
        let stored: Vec<Session> =
            (0..8).map(|i| session(i, 1.0, if i % 2 == 0 { 1.2 } else { 1.7 })).collect();
        assert_eq!(outcomes(&session(9, 1.0, 1.43 * 1.3), &stored).0, Outcome::Inconclusive);
        let alike: Vec<Session> = (0..8).map(|i| session(i, 1.0, 1.43)).collect();
        assert_eq!(outcomes(&session(9, 1.0, 1.43 * 1.3), &alike).0, Outcome::Regressed);
    }

    /// Sessions of one program that differ by far more than assumed.
    #[test]
    fn bounds_err_as_rarely_as_stated() {
        const DRAWS: u32 = 20_000;
        let mut random = SplitMix64::new(1);
        let mut level = || {
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            Level {
                over_control: 0.3 * normal,
                standard_error: 0.01,
                subject: 0.0,
                control: 0.0,
                pairs: 100,
                lift: None,
                is_stalled: false,
            }
        };
        for count in MIN_SESSIONS_FOR_SPREAD_ERROR..=MAX_SESSIONS {
            let (mut too_high, mut too_low) = (0, 0);
            for _ in 0..DRAWS {
                let stored: Vec<Level> = (0..count).map(|_| level()).collect();
                let spread = session_spread(&stored, MEDIAN_SPREAD);
                let shift = level().shift_against(&stored, spread);
                too_high += u32::from(shift.lower > 0.0);
                too_low += u32::from(shift.upper < 0.0);
            }
            let stated = DRAWS * 3 / 1_000..=DRAWS * 7 / 1_000;
            let both = (too_high, too_low);
            assert!(stated.contains(&too_high) && stated.contains(&too_low), "{count}: {both:?}");
        }
    }

    #[test]
    fn stall_dominated_sessions_are_rejected() {
        let rules = Rules::new(PERIOD_NS);
        let stalled = session(1, 20.0, 1.4);
        let metrics = judge(&stalled, &[session(2, 1.0, 1.4)], &design(), &rules);
        assert_eq!(metrics[1].judged.reason, Some(Reason::StallDominated));
        assert_eq!(rejection_reason(&stalled, &design(), &rules), Some(Reason::StallDominated));
        assert_eq!(rejection_reason(&session(2, 1.0, 1.4), &design(), &rules), None);
        let few = Session { pairs: stalled.pairs[..20].to_vec(), ..stalled };
        assert_eq!(rejection_reason(&few, &design(), &rules), Some(Reason::TooFewRounds));
    }
}
