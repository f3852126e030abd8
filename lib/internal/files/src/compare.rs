//! How two measured subjects differ: the file `osjitter.comparison/1`, and the statistics behind
//! it.
//!
//! As in the [gate](crate::gate), a round gives one value a percentile, a stall counted once, and
//! what is compared are the values of rounds: as a ratio, of their logarithms, and as a difference,
//! of the times themselves.
//!
//! - Two subjects of one run ran in the same rounds. The rounds pair them, and what the machine did
//!   in a round meets both: the estimate is that of Hodges and Lehmann over pairs, with the
//!   interval of the signed-rank test.
//! - Two runs have no rounds in common. The estimate is the Hodges-Lehmann shift of two samples,
//!   with the interval of the Mann-Whitney test ([`stats::shift`](jitterstat::stats::shift)). It knows
//!   how the rounds of a run differ among themselves, and not how one run differs from the next;
//!   where both runs measured the control `nanosleep`, each side is therefore compared beside it,
//!   too, which takes out most of what the machine did in the meantime.
//!
//! Two programs whose whole runs were gated are compared by the values of these runs: the sides of
//! one gate as pairs, those of two gates as two samples, and where both are candidates also by what
//! each is beside the baseline of its own gate.
//!
//! Where a subject is late by more than a period as a rule, that is no stall
//! ([`stall`](jitterstat::stall)): its ticks count.
//!
//! Of the tail percentiles of a pair, a second estimate is over the quieter half of the pairs,
//! chosen by the sum of both sides so that the choice favours neither. Every interval is a 95 %
//! interval by itself: of twenty where nothing differs, one is expected to exclude 1. Where many
//! are looked at for the one that stands out, [`family`] gives all of them one error rate.

mod error;
mod family;
mod model;
mod programs;
mod quantiles;
mod rounds;
#[cfg(test)]
mod tests;

use crate::environment::{Difference, EnvironmentKey};
use crate::report::{Report, Subject, Warning};
pub use error::CompareError;
pub use family::{Change, ChangeFinding, Differences, MIN_COMPARED_PAIRS, family};
use jitterstat::stats::shift::{self, Interval95};
use model::tidy;
pub use model::{
    ComparedMetric, Comparison, Estimate, Finding, Method, Origin, Percentile, Quantile, Quantiles,
    RunEstimate, SCHEMA, Side, SubjectComparison,
};
pub use programs::{ChosenProgram, compare_programs, program_differences, program_warnings};
use rounds::{QUANTILES, RoundValues, Rounds, ends, in_common, ln, median};

/// The subject that stands for what the machine could give just then.
pub const CONTROL: &str = "nanosleep";

/// A subject of a report.
#[derive(Clone, Copy, Debug)]
pub struct ChosenSubject<'a> {
    /// The report.
    pub report: &'a Report,
    /// The subject, one of the report's.
    pub subject: &'a Subject,
}

/// Whether two reports are of one run, so that their rounds are the same rounds.
#[must_use]
pub fn is_same_run(a: &Report, b: &Report) -> bool {
    (&a.started_utc, a.duration_ns, &a.plan, &a.host)
        == (&b.started_utc, b.duration_ns, &b.plan, &b.host)
}

/// What keeps two subjects from being comparable: their environments, and their periods.
#[must_use]
pub fn differences(a: ChosenSubject<'_>, b: ChosenSubject<'_>) -> Vec<Difference> {
    let mut differences =
        EnvironmentKey::from_report(a.report).differences(&EnvironmentKey::from_report(b.report));
    let (x, y) = (a.subject.period_ns, b.subject.period_ns);
    if x != y {
        let field = format!("period of {} and {}", a.subject.id, b.subject.id);
        differences.push(Difference { field, a: format!("{x} ns"), b: format!("{y} ns") });
    }
    differences
}

/// Compares two subjects, whether they are [comparable](differences) or not.
///
/// # Errors
/// One of them has no tick, or they are one and the same.
pub fn compare(
    a: ChosenSubject<'_>,
    b: ChosenSubject<'_>,
) -> Result<SubjectComparison, CompareError> {
    let same_run = is_same_run(a.report, b.report);
    if same_run && a.subject.id == b.subject.id {
        return Err(CompareError::WithItself(a.subject.id.clone()));
    }
    let rounds = |of: ChosenSubject<'_>| {
        let rounds = Rounds::of(of.report, of.subject);
        match (of.subject.rounds.is_empty(), rounds.values.is_empty()) {
            (true, _) => Err(CompareError::NoRounds(of.subject.id.clone())),
            (_, true) => Err(CompareError::NoTick(of.subject.id.clone())),
            _ => Ok(rounds),
        }
    };
    let (of_a, of_b) = (rounds(a)?, rounds(b)?);
    let sides = (side(a, &of_a), side(b, &of_b));
    let mut percentiles = if same_run {
        paired(&of_a.values, &of_b.values)
    } else {
        let controls =
            control(a).zip(control(b)).filter(|_| a.subject.period_ns == b.subject.period_ns);
        two_runs(
            &of_a.values,
            &of_b.values,
            controls.as_ref().map(|(x, y)| (&x.values[..], &y.values[..])),
        )
    };
    for percentile in &mut percentiles {
        percentile.lift = lift(&percentile.name, [&of_a.values, &of_b.values]);
    }
    let method = if same_run { Method::PairedByRound } else { Method::TwoRuns };
    let quantiles = quantiles::of(a.subject, b.subject, same_run);
    Ok(SubjectComparison {
        a: sides.0,
        b: sides.1,
        method,
        stalls_once: true,
        percentiles,
        quantiles,
    })
}

/// By how much stalls raise a percentile on each side.
fn lift(name: &str, sides: [&[RoundValues]; 2]) -> Option<[f64; 2]> {
    let which = QUANTILES.iter().position(|(n, _)| *n == name)?;
    let [a, b] =
        sides.map(|side| side.iter().filter_map(|round| round.lift[which]).collect::<Vec<f64>>());
    (!a.is_empty() && !b.is_empty()).then(|| [a, b].map(|side| tidy(median(&side).exp())))
}

fn side(of: ChosenSubject<'_>, rounds: &Rounds) -> Side {
    Side {
        id: of.subject.id.clone(),
        name: of.subject.name.clone(),
        period_ns: of.subject.period_ns,
        rounds: rounds.values.len() as u64,
        same_stall_share: rounds.same_stall_share(),
        steal_share: of.report.host.cpus_online.and_then(|cpus| rounds.steal_share(cpus)),
    }
}

/// The rounds of the control that ran in the same rounds as a subject, which must not be a control
/// itself.
fn control(of: ChosenSubject<'_>) -> Option<Rounds> {
    let bare_thread = of.subject.runtime.is_none();
    let controls = of.report.subjects.iter().filter(|s| s.name == CONTROL && s.summary.is_some());
    let of_period: Vec<_> = controls.filter(|s| s.period_ns == of.subject.period_ns).collect();
    // A thread has no tasks beside it: then the one without a load.
    let load = of
        .subject
        .load
        .as_ref()
        .filter(|load| of_period.iter().any(|s| s.load.as_ref() == Some(load)));
    let control = of_period.into_iter().find(|s| s.load.as_ref() == load)?;
    (!bare_thread)
        .then(|| Rounds::of(of.report, control))
        .filter(|rounds| !rounds.values.is_empty())
}

fn paired(a: &[RoundValues], b: &[RoundValues]) -> Vec<Percentile> {
    let of = |(i, (name, quantile)): (usize, (&str, f64))| {
        let pairs = in_common(a, b, |round| round.ns[i]);
        let mut quiet = pairs.clone();
        quiet.sort_by(|x, y| (ln(x[0]) + ln(x[1])).total_cmp(&(ln(y[0]) + ln(y[1]))));
        quiet.truncate(pairs.len().div_ceil(2));
        let quiet_half = if quantile > 0.95 { of_pairs(&quiet) } else { None };
        Some(Percentile {
            name: name.to_owned(),
            all: of_pairs(&pairs)?,
            quiet_half,
            beside_control: None,
            lift: None,
        })
    };
    QUANTILES.into_iter().enumerate().filter_map(of).collect()
}

fn of_pairs(pairs: &[[i64; 2]]) -> Option<Estimate> {
    let each = |of: fn(&[i64; 2]) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
    let ratio = shift::paired(&each(|p| ln(p[1]) - ln(p[0])))?;
    let difference = shift::paired(&each(|p| p[1].saturating_sub(p[0]) as f64))?;
    let (a, b) = (each(|p| p[0] as f64), each(|p| p[1] as f64));
    Some(estimate(&a, &b, ratio, difference))
}

fn two_runs(
    a: &[RoundValues],
    b: &[RoundValues],
    controls: Option<(&[RoundValues], &[RoundValues])>,
) -> Vec<Percentile> {
    let of = |(i, (name, _)): (usize, (&str, f64))| {
        let carried =
            |side: &[RoundValues]| side.iter().filter_map(|v| v.ns[i]).collect::<Vec<i64>>();
        let logarithms = |side: &[i64]| side.iter().map(|&ns| ln(ns)).collect::<Vec<f64>>();
        let times = |side: &[i64]| side.iter().map(|&ns| ns as f64).collect::<Vec<f64>>();
        let (x, y) = (carried(a), carried(b));
        let all = of_samples([&logarithms(&x), &logarithms(&y)], [&times(&x), &times(&y)])?;
        let beside_control = controls.and_then(|(control_a, control_b)| {
            let of = |round: &RoundValues| round.ns[i];
            let (x, y) = (in_common(control_a, a, of), in_common(control_b, b, of));
            let logarithms =
                |side: &[[i64; 2]]| side.iter().map(|p| ln(p[1]) - ln(p[0])).collect::<Vec<f64>>();
            let excesses = |side: &[[i64; 2]]| {
                side.iter().map(|p| p[1].saturating_sub(p[0]) as f64).collect::<Vec<f64>>()
            };
            of_samples([&logarithms(&x), &logarithms(&y)], [&excesses(&x), &excesses(&y)])
        });
        Some(Percentile {
            name: name.to_owned(),
            all,
            quiet_half: None,
            beside_control,
            lift: None,
        })
    };
    QUANTILES.into_iter().enumerate().filter_map(of).collect()
}

/// Of logarithms and of times, side A and B of each.
fn of_samples(logarithms: [&[f64]; 2], times: [&[f64]; 2]) -> Option<Estimate> {
    let ratio = shift::unpaired(logarithms[0], logarithms[1])?;
    let difference = shift::unpaired(times[0], times[1])?;
    Some(estimate(times[0], times[1], ratio, difference))
}

fn estimate(a: &[f64], b: &[f64], ratio: Interval95, difference: Interval95) -> Estimate {
    let whole = |ns: f64| ns.round() as i64;
    let fewer = a.len().min(b.len());
    let ratio_ci95 = ends(&ratio, fewer).map(|ends| ends.map(|ln| tidy(ln.exp())));
    let finding = match ratio_ci95 {
        None => Finding::TooFewRounds,
        Some([low, _]) if low > 1.0 => Finding::Later,
        Some([_, high]) if high < 1.0 => Finding::Earlier,
        Some(_) => Finding::NoDifferenceShown,
    };
    Estimate {
        a_ns: whole(median(a)),
        b_ns: whole(median(b)),
        ratio: tidy(ratio.shift.estimate.exp()),
        ratio_ci95,
        difference_ns: whole(difference.shift.estimate),
        difference_ns_ci95: ends(&difference, fewer).map(|ends| ends.map(whole)),
        rounds_a: a.len() as u64,
        rounds_b: b.len() as u64,
        exact: ratio.exact,
        finding,
    }
}

/// What of the two runs, beside their environments, a reader should know.
#[must_use]
pub fn warnings(a: &Report, b: &Report, subjects: &[SubjectComparison]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, hint: &str| {
        warnings.push(Warning { code: code.to_owned(), message, hint: hint.to_owned() });
    };
    if subjects.iter().any(|s| s.method == Method::TwoRuns) {
        warn(
            "two-runs",
            "The sides were not measured in the same rounds: the intervals tell how rounds differ within a run, not how \
             one run differs from the next."
                .to_owned(),
            "Measure both subjects in one run, or gate the two programs, before acting on a small difference.",
        );
    }
    if subjects.iter().any(|s| s.a.same_stall_share.is_none() || s.b.same_stall_share.is_none()) {
        warn(
            "no-samples",
            "A report keeps no samples: a stall counts with each tick that it made late, and the picture has no band."
                .to_owned(),
            "Run without --no-samples.",
        );
    }
    if a.partial || b.partial {
        warn(
            "partial",
            "A run was interrupted: its last rounds are missing.".to_owned(),
            "Run it again.",
        );
    }
    let settings = differing_settings(a, b);
    if !settings.is_empty() {
        let message = format!("The runs were set up differently: {}.", settings.join("; "));
        warn("settings-differ", message, "If that is not what is compared, run both alike.");
    }
    warnings
}

/// Settings that one may want to compare, so that they do not stand in the way of it.
fn differing_settings(a: &Report, b: &Report) -> Vec<String> {
    let (p, q) = (&a.plan, &b.plan);
    let told = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let cpu = |plan: &crate::report::Plan| told(plan.cpu.map(|n| n.to_string()));
    let round = |report: &Report| {
        let mut lengths: Vec<String> =
            report.plan.scenarios.iter().map(|s| s.round_ticks.to_string()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths.join(", ")
    };
    let pairs = [
        ("scheduling class", told(p.sched.clone()), told(q.sched.clone())),
        ("memory locked", p.mlock.to_string(), q.mlock.to_string()),
        ("bound to CPU", cpu(p), cpu(q)),
        ("ticks of a round", round(a), round(b)),
        ("tool version", a.tool.version.clone(), b.tool.version.clone()),
    ];
    pairs
        .into_iter()
        .filter(|(_, x, y)| x != y)
        .map(|(what, x, y)| format!("{what} {x} against {y}"))
        .collect()
}
