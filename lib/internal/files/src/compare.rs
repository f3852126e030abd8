//! The comparison of two measured subjects: the file `osjitter.comparison/1` and its statistics.
//!
//! As in the [gate](crate::gate), each round gives one value per percentile, with each stall
//! counted once. The comparison uses the values of rounds: their logarithms for the ratio, and the
//! times for the difference.
//!
//! - Two subjects of one run ran in the same rounds, which pair them. Disturbances of the machine
//!   affect both sides of a pair. The estimate is the Hodges-Lehmann estimate over pairs, with the
//!   interval of the signed-rank test. A difference must be confirmed by the ticks of both
//!   ([`ReportEvidence`]).
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

mod cpus;
mod difference;
mod error;
mod family;
mod model;
mod programs;
mod quantiles;
mod rounds;
#[cfg(test)]
mod tests;

use crate::environment::{Difference, EnvironmentKey, format_ns};
use crate::report::{Report, Subject, Warning};
use crate::subjects::SLEEPING_CONTROL;
pub use cpus::compare_cpus;
pub use difference::{Conclusion, PairDifference, ReportEvidence};
use difference::{EvidenceLimits, is_confirmed, step_ns};
pub use error::CompareError;
pub use family::{Change, ChangeFinding, Differences, MIN_COMPARED_PAIRS, family};
use jitterstat::gate::Sides;
use jitterstat::stats::quantile::median;
use jitterstat::stats::shift::{self, Interval95};
use model::tidy;
pub use model::{
    ComparedMetric, Comparison, Estimate, Finding, Method, Origin, Percentile, Quantile, Quantiles,
    RunEstimate, SCHEMA, Side, SubjectComparison,
};
pub use programs::{ChosenProgram, compare_programs, program_differences, program_warnings};
use rounds::{
    QUANTILES, RoundValues, Rounds, bounded_interval, common_rounds, differences_ns, ln, ln_ratios,
    times,
};

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
    let has_start = a.started_utc.starts_with(|c: char| c.is_ascii_digit());
    if !has_start {
        // Other tools may not state when a run started: then only equal reports are of one run.
        return a == b;
    }
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
        differences.push(Difference { field, a: format_period(x), b: format_period(y) });
    }
    differences
}

/// Formats a period, which is 0 if the source of a report does not state it.
fn format_period(period_ns: u64) -> String {
    if period_ns == 0 { "unknown".to_owned() } else { format_ns(period_ns) }
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
    let limits = EvidenceLimits::new(
        Sides { base: a.report, candidate: b.report },
        Sides { base: step_ns(a.report, a.subject), candidate: step_ns(b.report, b.subject) },
    );
    let mut percentiles = if same_run {
        let mut percentiles = compare_paired(values, &limits);
        let subjects = Sides { base: a.subject, candidate: b.subject };
        percentiles.iter_mut().for_each(|percentile| withdraw_unconfirmed(percentile, subjects));
        percentiles
    } else {
        let controls = comparable_controls(a, b);
        compare_two_runs(values, controls.as_ref(), &limits)
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
    Some([median_lift(values.base, which)?, median_lift(values.candidate, which)?])
}

/// The median ratio by which stalls raise a percentile; `None` if it is unknown.
fn median_lift(rounds: &[RoundValues], which: usize) -> Option<f64> {
    let lifts: Vec<f64> = rounds.iter().filter_map(|round| round.lift[which]).collect();
    if lifts.is_empty() { None } else { Some(tidy(median(lifts).exp())) }
}

fn side(chosen: ChosenSubject<'_>, rounds: &Rounds) -> Side {
    let ChosenSubject { report, subject } = chosen;
    Side {
        id: subject.id.clone(),
        name: subject.name.clone(),
        period_ns: subject.period_ns,
        rounds: rounds.values.len() as u64,
        max_ns: subject.summary.as_ref().map(|summary| summary.lateness_ns.max),
        same_stall_share: rounds.same_stall_share(),
        steal_share: report.host.cpus_online.and_then(|cpus| rounds.steal_share(cpus)),
    }
}

/// The rounds of the controls of two runs; `None` unless both runs measured one at the same period.
fn comparable_controls(a: ChosenSubject<'_>, b: ChosenSubject<'_>) -> Option<Sides<Rounds>> {
    if a.subject.period_ns != b.subject.period_ns {
        return None;
    }
    Some(Sides { base: control_rounds(a)?, candidate: control_rounds(b)? })
}

/// The rounds of the control that ran in the same rounds as a subject; `None` for a subject that is
/// a bare thread, as the controls are.
fn control_rounds(chosen: ChosenSubject<'_>) -> Option<Rounds> {
    let ChosenSubject { report, subject } = chosen;
    subject.runtime.as_ref()?;
    // No control runs under a load of tasks: use the one without a load then.
    let control = find_control(report, subject.period_ns, subject.load.as_ref())
        .or_else(|| find_control(report, subject.period_ns, None))?;
    let rounds = Rounds::new(report, control);
    if rounds.values.is_empty() { None } else { Some(rounds) }
}

/// Returns the control with a period and a load.
fn find_control<'a>(
    report: &'a Report,
    period_ns: u64,
    load: Option<&String>,
) -> Option<&'a Subject> {
    let is_control = |s: &&Subject| {
        s.name == SLEEPING_CONTROL.name && s.summary.is_some() && s.status.failure().is_none()
    };
    let mut controls = report.subjects.iter().filter(is_control);
    controls.find(|s| (s.period_ns, s.load.as_ref()) == (period_ns, load))
}

/// Compares two subjects that ran in the same rounds.
fn compare_paired(values: Sides<&[RoundValues]>, limits: &EvidenceLimits) -> Vec<Percentile> {
    let mut percentiles = Vec::new();
    for (i, (name, quantile)) in QUANTILES.into_iter().enumerate() {
        let pairs = common_rounds(values, |round| round.ns[i]);
        let judge = Judge { limits, percentile: name };
        let Some(all) = judge.estimate_from_pairs(&pairs) else { continue };
        let quiet_half =
            if quantile > 0.95 { judge.estimate_from_pairs(&quiet_half(pairs)) } else { None };
        let name = name.to_owned();
        percentiles.push(Percentile { name, all, quiet_half, beside_control: None, lift: None });
    }
    percentiles
}

/// Withdraws a difference between two subjects of one run that their ticks do not confirm.
fn withdraw_unconfirmed(percentile: &mut Percentile, subjects: Sides<&Subject>) {
    let conclusion = match percentile.all.finding {
        Finding::Later => Conclusion::BaseIsLower,
        Finding::Earlier => Conclusion::CandidateIsLower,
        _ => return,
    };
    if !is_confirmed(conclusion, subjects, &percentile.name) {
        percentile.all.finding = Finding::NoDifferenceShown;
    }
}

/// The half of the pairs with the smallest sums.
fn quiet_half(mut pairs: Vec<Sides<i64>>) -> Vec<Sides<i64>> {
    pairs.sort_by(|x, y| ln_sum(x).total_cmp(&ln_sum(y)));
    pairs.truncate(pairs.len().div_ceil(2));
    pairs
}

fn ln_sum(pair: &Sides<i64>) -> f64 {
    ln(pair.base) + ln(pair.candidate)
}

/// Compares two subjects of different runs, also relative to the controls if there are any.
fn compare_two_runs(
    values: Sides<&[RoundValues]>,
    controls: Option<&Sides<Rounds>>,
    limits: &EvidenceLimits,
) -> Vec<Percentile> {
    let mut percentiles = Vec::new();
    for (i, (name, _)) in QUANTILES.into_iter().enumerate() {
        let known = values.map(|side| known_values(side, i));
        let logarithms = known.as_ref().map(|side| side.iter().copied().map(ln).collect());
        let times = known.map(|side| side.iter().map(|&ns| ns as f64).collect());
        let judge = Judge { limits, percentile: name };
        let Some(all) = judge.estimate_from_samples(&logarithms, &times) else { continue };
        let beside_control =
            controls.and_then(|controls| judge.estimate_beside_control(values, controls, i));
        let name = name.to_owned();
        percentiles.push(Percentile { name, all, quiet_half: None, beside_control, lift: None });
    }
    percentiles
}

/// The values of a percentile in all rounds that have it.
fn known_values(rounds: &[RoundValues], which: usize) -> Vec<i64> {
    rounds.iter().filter_map(|round| round.ns[which]).collect()
}

/// Estimates differences at one percentile, and concludes from them.
struct Judge<'a> {
    limits: &'a EvidenceLimits,
    percentile: &'static str,
}

impl Judge<'_> {
    fn estimate_from_pairs(&self, pairs: &[Sides<i64>]) -> Option<Estimate> {
        let ratio = shift::paired(&ln_ratios(pairs))?;
        let difference = shift::paired(&differences_ns(pairs))?;
        Some(self.estimate(&times(pairs), ratio, difference))
    }

    /// Compares by how much each side exceeds the control of its own run.
    fn estimate_beside_control(
        &self,
        values: Sides<&[RoundValues]>,
        controls: &Sides<Rounds>,
        which: usize,
    ) -> Option<Estimate> {
        let in_base_run = Sides { base: &controls.base.values[..], candidate: values.base };
        let in_candidate_run =
            Sides { base: &controls.candidate.values[..], candidate: values.candidate };
        let pairs = Sides { base: in_base_run, candidate: in_candidate_run }
            .map(|run| common_rounds(run, |round| round.ns[which]));
        let logarithms = pairs.as_ref().map(|side| ln_ratios(side));
        let excesses = pairs.map(|side| differences_ns(&side));
        self.estimate_from_samples(&logarithms, &excesses)
    }

    /// The estimate from the logarithms and the times of two independent samples.
    fn estimate_from_samples(
        &self,
        logarithms: &Sides<Vec<f64>>,
        times: &Sides<Vec<f64>>,
    ) -> Option<Estimate> {
        let ratio = shift::unpaired(&logarithms.base, &logarithms.candidate)?;
        let difference = shift::unpaired(&times.base, &times.candidate)?;
        Some(self.estimate(times, ratio, difference))
    }

    fn estimate(
        &self,
        times: &Sides<Vec<f64>>,
        ratio: Interval95,
        difference: Interval95,
    ) -> Estimate {
        let whole = |ns: f64| ns.round() as i64;
        let fewer = times.base.len().min(times.candidate.len());
        let ratio_interval = bounded_interval(&ratio, fewer).map(|i| i.map(|ln| tidy(ln.exp())));
        let difference_interval = bounded_interval(&difference, fewer).map(|i| i.map(whole));
        let medians = times.as_ref().map(|side| median(side.iter().copied()).round());
        let finding = match self.limits.conclude(self.percentile, ratio_interval, medians) {
            Conclusion::BaseIsLower => Finding::Later,
            Conclusion::CandidateIsLower => Finding::Earlier,
            Conclusion::NotShown => Finding::NoDifferenceShown,
            Conclusion::Unknown => Finding::TooFewRounds,
            Conclusion::NotTrusted => Finding::NotTrusted,
        };
        Estimate {
            a_ns: whole(medians.base),
            b_ns: whole(medians.candidate),
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
}

/// Remedy for a report without samples, which can be of another tool.
pub const NO_SAMPLES_HINT: &str =
    "A report of osjitter run keeps the samples, unless --no-samples is given.";

/// Returns warnings about the two runs, in addition to differences in environment.
#[must_use]
pub fn warnings(a: &Report, b: &Report, subjects: &[SubjectComparison]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if subjects.iter().any(|s| s.method == Method::TwoRuns) {
        warnings.push(Warning::new(
            "two-runs",
            "The sides were not measured in the same rounds: the intervals show how rounds differ within a run, not how \
             one run differs from the next.",
            "Measure both subjects in one run, or gate the two programs, before acting on a small difference.",
        ));
    }
    if subjects.iter().any(|s| s.a.same_stall_share.is_none() || s.b.same_stall_share.is_none()) {
        warnings.push(Warning::new(
            "no-samples",
            "A report contains no samples: each tick of a stall counts, and the picture has no band.",
            NO_SAMPLES_HINT,
        ));
    }
    if a.partial || b.partial {
        warnings.push(Warning::new(
            "partial",
            "A run was interrupted: its last rounds are missing.",
            "Run it again.",
        ));
    }
    let settings = differing_settings(a, b);
    if !settings.is_empty() {
        let message = format!("The runs were set up differently: {}.", settings.join("; "));
        warnings.push(Warning::new(
            "settings-differ",
            message,
            "Unless these settings are the purpose of the comparison, run both with the same settings.",
        ));
    }
    warnings
}

/// The differing settings, which do not prevent a comparison because they may be its purpose.
fn differing_settings(a: &Report, b: &Report) -> Vec<String> {
    let mut differences = Vec::new();
    for ((name, in_a), (_, in_b)) in settings(a).into_iter().zip(settings(b)) {
        if in_a != in_b {
            differences.push(format!("{name} {in_a} against {in_b}"));
        }
    }
    differences
}

/// The compared settings with their names.
fn settings(report: &Report) -> [(&'static str, String); 5] {
    let plan = &report.plan;
    let none = || "none".to_owned();
    let lengths = plan.scenarios.iter().map(|s| s.round_ticks.to_string());
    let mut round_ticks: Vec<String> = lengths.collect();
    round_ticks.sort_unstable();
    round_ticks.dedup();
    [
        ("scheduling class", plan.sched.clone().unwrap_or_else(none)),
        ("memory locked", plan.mlock.to_string()),
        ("bound to CPU", plan.cpu.map_or_else(none, |cpu| cpu.to_string())),
        ("ticks of a round", round_ticks.join(", ")),
        ("tool version", report.tool.version.clone()),
    ]
}
