//! The comparison of two measured subjects: the file `osjitter.comparison/1` and its statistics.
//!
//! As in the [gate](crate::gate), each round gives one value per percentile, with each stall
//! counted once. The comparison uses the values of rounds: their logarithms for the ratio, and the
//! times for the difference.
//!
//! - Two subjects of one run ran in the same rounds, which pair them. Disturbances of the machine
//!   affect both sides of a pair. The estimate is the Hodges-Lehmann estimate over pairs, with the
//!   interval of the signed-rank test.
//! - Two runs have no rounds in common. The estimate is the Hodges-Lehmann shift of two samples,
//!   with the interval of the Mann-Whitney test ([`stats::shift`](jitterstat::stats::shift)). The
//!   interval accounts for differences between the rounds of a run, but not for differences between
//!   runs. If both runs measured the control `nanosleep`, each side is therefore also compared
//!   relative to it, which removes most changes of the machine.
//!
//! Two programs are compared by the values of their gated runs: as pairs if one gate ran both, and
//! as two samples otherwise. If both are candidates of different gates, they are also compared
//! relative to the baselines of their gates.
//!
//! If a subject is usually late by more than a period, this does not count as a stall
//! ([`stall`](jitterstat::stall)), and its ticks count.
//!
//! The tail percentiles of pairs have a second estimate over the quieter half of the pairs, which
//! have the smallest sums of both sides, so that the choice favours neither. Each interval is a
//! separate 95 % interval: without a difference, one in twenty is expected to exclude 1. [`family`]
//! gives several comparisons a common error rate.

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
use jitterstat::gate::Sides;
use jitterstat::stats::shift::{self, Interval95};
use model::tidy;
pub use model::{
    ComparedMetric, Comparison, Estimate, Finding, Method, Origin, Percentile, Quantile, Quantiles,
    RunEstimate, SCHEMA, Side, SubjectComparison,
};
pub use programs::{ChosenProgram, compare_programs, program_differences, program_warnings};
use rounds::{
    QUANTILES, RoundValues, Rounds, bounded_interval, common_rounds, differences_ns, ln, ln_ratios,
    median, times,
};

/// The subject that serves as the control, which shows the state of the machine.
pub const CONTROL: &str = "nanosleep";

/// A subject of a report.
#[derive(Clone, Copy, Debug)]
pub struct ChosenSubject<'a> {
    /// The report.
    pub report: &'a Report,
    /// A subject of that report.
    pub subject: &'a Subject,
}

/// Whether two reports are of one run and so contain the same rounds.
#[must_use]
pub fn is_same_run(a: &Report, b: &Report) -> bool {
    (&a.started_utc, a.duration_ns, &a.plan, &a.host)
        == (&b.started_utc, b.duration_ns, &b.plan, &b.host)
}

/// Returns the differences in environment and period that make two subjects incomparable.
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

/// Compares two subjects, even if they are not [comparable](differences).
///
/// # Errors
/// Returns an error if one of them has no tick, or both are the same subject of one run.
pub fn compare(
    a: ChosenSubject<'_>,
    b: ChosenSubject<'_>,
) -> Result<SubjectComparison, CompareError> {
    let same_run = is_same_run(a.report, b.report);
    if same_run && a.subject.id == b.subject.id {
        return Err(CompareError::WithItself(a.subject.id.clone()));
    }
    let rounds = Sides { base: usable_rounds(a)?, candidate: usable_rounds(b)? };
    let values = rounds.as_ref().map(|rounds| &rounds.values[..]);
    let mut percentiles = if same_run {
        compare_paired(values)
    } else {
        let controls = control_rounds(a).zip(control_rounds(b));
        let controls = controls.filter(|_| a.subject.period_ns == b.subject.period_ns);
        let controls = controls.as_ref().map(|(base, candidate)| Sides {
            base: &base.values[..],
            candidate: &candidate.values[..],
        });
        compare_two_runs(values, controls)
    };
    for percentile in &mut percentiles {
        percentile.lift = stall_lift(&percentile.name, values);
    }
    Ok(SubjectComparison {
        a: side(a, &rounds.base),
        b: side(b, &rounds.candidate),
        method: if same_run { Method::PairedByRound } else { Method::TwoRuns },
        stalls_once: true,
        percentiles,
        quantiles: quantiles::compare(a.subject, b.subject, same_run),
    })
}

/// The rounds of a subject.
///
/// # Errors
/// Returns an error if the subject has no rounds, or none of its rounds has a tick.
fn usable_rounds(chosen: ChosenSubject<'_>) -> Result<Rounds, CompareError> {
    if chosen.subject.rounds.is_empty() {
        return Err(CompareError::NoRounds(chosen.subject.id.clone()));
    }
    let rounds = Rounds::new(chosen.report, chosen.subject);
    if rounds.values.is_empty() {
        return Err(CompareError::NoTick(chosen.subject.id.clone()));
    }
    Ok(rounds)
}

/// By how much stalls raise a percentile on each side.
fn stall_lift(name: &str, values: Sides<&[RoundValues]>) -> Option<[f64; 2]> {
    let which = QUANTILES.iter().position(|(n, _)| *n == name)?;
    let lifts = values.map(|side| side.iter().filter_map(|round| round.lift[which]).collect());
    let has_lift = lifts.iter().all(|side: &Vec<f64>| !side.is_empty());
    has_lift.then(|| lifts.map(|side| tidy(median(&side).exp())).into())
}

fn side(chosen: ChosenSubject<'_>, rounds: &Rounds) -> Side {
    let ChosenSubject { report, subject } = chosen;
    Side {
        id: subject.id.clone(),
        name: subject.name.clone(),
        period_ns: subject.period_ns,
        rounds: rounds.values.len() as u64,
        same_stall_share: rounds.same_stall_share(),
        steal_share: report.host.cpus_online.and_then(|cpus| rounds.steal_share(cpus)),
    }
}

/// The rounds of the control that ran in the same rounds as a subject; `None` for a subject that is
/// a bare thread, as the controls are.
fn control_rounds(chosen: ChosenSubject<'_>) -> Option<Rounds> {
    let ChosenSubject { report, subject } = chosen;
    subject.runtime.as_ref()?;
    let is_control = |s: &&Subject| s.name == CONTROL && s.summary.is_some();
    let controls = report.subjects.iter().filter(is_control);
    let same_period: Vec<_> = controls.filter(|s| s.period_ns == subject.period_ns).collect();
    // No control runs under a load of tasks: use the one without a load then.
    let has_load = |load: &&String| same_period.iter().any(|s| s.load.as_ref() == Some(load));
    let load = subject.load.as_ref().filter(has_load);
    let control = same_period.into_iter().find(|s| s.load.as_ref() == load)?;
    Some(Rounds::new(report, control)).filter(|rounds| !rounds.values.is_empty())
}

/// Compares two subjects that ran in the same rounds.
fn compare_paired(values: Sides<&[RoundValues]>) -> Vec<Percentile> {
    let percentile = |(i, (name, quantile)): (usize, (&str, f64))| {
        let pairs = common_rounds(values, |round| round.ns[i]);
        let estimate = estimate_from_pairs(&pairs)?;
        let quiet_half =
            if quantile > 0.95 { estimate_from_pairs(&quiet_half(pairs)) } else { None };
        let name = name.to_owned();
        Some(Percentile { name, all: estimate, quiet_half, beside_control: None, lift: None })
    };
    QUANTILES.into_iter().enumerate().filter_map(percentile).collect()
}

/// The half of the pairs with the smallest sums.
fn quiet_half(mut pairs: Vec<Sides<i64>>) -> Vec<Sides<i64>> {
    let sum = |pair: &Sides<i64>| ln(pair.base) + ln(pair.candidate);
    pairs.sort_by(|x, y| sum(x).total_cmp(&sum(y)));
    pairs.truncate(pairs.len().div_ceil(2));
    pairs
}

fn estimate_from_pairs(pairs: &[Sides<i64>]) -> Option<Estimate> {
    let ratio = shift::paired(&ln_ratios(pairs))?;
    let difference = shift::paired(&differences_ns(pairs))?;
    Some(estimate(&times(pairs), ratio, difference))
}

/// Compares two subjects of different runs, also relative to the controls if there are any.
fn compare_two_runs(
    values: Sides<&[RoundValues]>,
    controls: Option<Sides<&[RoundValues]>>,
) -> Vec<Percentile> {
    let percentile = |(i, (name, _)): (usize, (&str, f64))| {
        let number = |round: &RoundValues| round.ns[i];
        let known = values.map(|side| side.iter().filter_map(number).collect::<Vec<i64>>());
        let logarithms = known.as_ref().map(|side| side.iter().map(|&ns| ln(ns)).collect());
        let times = known.map(|side| side.iter().map(|&ns| ns as f64).collect());
        let estimate = estimate_from_samples(&logarithms, &times)?;
        let beside_control =
            controls.and_then(|controls| estimate_beside_control(values, controls, number));
        let name = name.to_owned();
        Some(Percentile { name, all: estimate, quiet_half: None, beside_control, lift: None })
    };
    QUANTILES.into_iter().enumerate().filter_map(percentile).collect()
}

/// Compares by how much each side exceeds the control of its own run.
fn estimate_beside_control(
    values: Sides<&[RoundValues]>,
    controls: Sides<&[RoundValues]>,
    number: impl Fn(&RoundValues) -> Option<i64>,
) -> Option<Estimate> {
    let in_run = |control, subject| Sides { base: control, candidate: subject };
    let pairs = Sides {
        base: common_rounds(in_run(controls.base, values.base), &number),
        candidate: common_rounds(in_run(controls.candidate, values.candidate), &number),
    };
    let logarithms = pairs.as_ref().map(|side| ln_ratios(side));
    let excesses = pairs.map(|side| differences_ns(&side));
    estimate_from_samples(&logarithms, &excesses)
}

/// The estimate from the logarithms and the times of two independent samples.
fn estimate_from_samples(
    logarithms: &Sides<Vec<f64>>,
    times: &Sides<Vec<f64>>,
) -> Option<Estimate> {
    let ratio = shift::unpaired(&logarithms.base, &logarithms.candidate)?;
    let difference = shift::unpaired(&times.base, &times.candidate)?;
    Some(estimate(times, ratio, difference))
}

fn estimate(times: &Sides<Vec<f64>>, ratio: Interval95, difference: Interval95) -> Estimate {
    let whole = |ns: f64| ns.round() as i64;
    let fewer = times.base.len().min(times.candidate.len());
    let ratio_interval = bounded_interval(&ratio, fewer).map(|i| i.map(|ln| tidy(ln.exp())));
    let difference_interval = bounded_interval(&difference, fewer).map(|i| i.map(whole));
    let finding = match ratio_interval {
        None => Finding::TooFewRounds,
        Some(interval) if interval.lower > 1.0 => Finding::Later,
        Some(interval) if interval.upper < 1.0 => Finding::Earlier,
        Some(_) => Finding::NoDifferenceShown,
    };
    Estimate {
        a_ns: whole(median(&times.base)),
        b_ns: whole(median(&times.candidate)),
        ratio: tidy(ratio.shift.estimate.exp()),
        ratio_ci95: ratio_interval.map(Into::into),
        difference_ns: whole(difference.shift.estimate),
        difference_ns_ci95: difference_interval.map(Into::into),
        rounds_a: times.base.len() as u64,
        rounds_b: times.candidate.len() as u64,
        exact: ratio.exact,
        finding,
    }
}

/// Returns warnings about the two runs, in addition to differences in environment.
#[must_use]
pub fn warnings(a: &Report, b: &Report, subjects: &[SubjectComparison]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, hint: &str| {
        warnings.push(Warning { code: code.to_owned(), message, hint: hint.to_owned() });
    };
    if subjects.iter().any(|s| s.method == Method::TwoRuns) {
        warn(
            "two-runs",
            "The sides were not measured in the same rounds: the intervals show how rounds differ within a run, not how \
             one run differs from the next."
                .to_owned(),
            "Measure both subjects in one run, or gate the two programs, before acting on a small difference.",
        );
    }
    if subjects.iter().any(|s| s.a.same_stall_share.is_none() || s.b.same_stall_share.is_none()) {
        warn(
            "no-samples",
            "A report contains no samples: each tick of a stall counts, and the picture has no band."
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
        warn(
            "settings-differ",
            message,
            "Unless these settings are the purpose of the comparison, run both with the same settings.",
        );
    }
    warnings
}

/// The differing settings, which do not prevent a comparison because they may be its purpose.
fn differing_settings(a: &Report, b: &Report) -> Vec<String> {
    let (p, q) = (&a.plan, &b.plan);
    let format = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let cpu = |plan: &crate::report::Plan| format(plan.cpu.map(|n| n.to_string()));
    let round = |report: &Report| {
        let mut lengths: Vec<String> =
            report.plan.scenarios.iter().map(|s| s.round_ticks.to_string()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths.join(", ")
    };
    let pairs = [
        ("scheduling class", format(p.sched.clone()), format(q.sched.clone())),
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
