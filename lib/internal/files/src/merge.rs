//! Merges the reports of several runs, CPUs or hosts without loss: all ticks are kept, and all
//! numbers are recomputed.

use std::collections::{BTreeSet, HashMap};

use crate::compare::compare_cpus;
use crate::counters::add_if_complete;
use crate::file::{File as _, Invalid};
use crate::fitness::Fitness;
use crate::histogram;
use crate::report::{
    Clock, Load, Plan, Report, Round, Scenario, Status, Subject, SubjectSettings, Summary, Trace,
    Warning,
};
use crate::round_costs::RoundCost;
use crate::settings;
use crate::summary::{InstanceRound, stored_samples, summarise};
use crate::trust;
use jitterstat::sample::RoundSamples;
use jitterstat::stats::quantile;

#[cfg(test)]
mod tests;

/// Code of the warning that reports with different plans were merged.
pub const PLANS_DIFFER: &str = "merged-plans-differ";
/// Code of the warning that reports of different machines or clocks were merged.
pub const HOSTS_DIFFER: &str = "merged-hosts-differ";
/// Code of the warning that the reports are of different versions of a tool.
pub const TOOLS_DIFFER: &str = "merged-tools-differ";
/// Code of the warning that a subject failed in some of the reports.
pub const FAILURES: &str = "merged-failures";
/// Code of the warning that the cost of a subject was counted in different windows.
pub const COSTS_DIFFER: &str = "merged-costs-differ";
/// Code of the warning that the settings of a subject differ between reports.
pub const SETTINGS_DIFFER: &str = "merged-settings-differ";

/// The median of a subject in one report relative to the other reports.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedMedian {
    /// Index of the report.
    pub source: usize,
    /// Identifier of the subject.
    pub id: String,
    /// Median lateness of the subject in that report.
    pub p50_ns: i64,
    /// Ratio of `p50_ns` to the median over all reports.
    pub ratio: f64,
}

/// The reason for which reports cannot be merged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The list of reports is empty.
    #[error("nothing to merge")]
    Nothing,
    /// There is only one report.
    #[error("cannot merge a single report: give two or more")]
    OnlyOne,
    /// A report contains no samples, so that percentiles cannot be merged without loss.
    #[error("report {report} has no samples of {subject}: it cannot be merged without loss")]
    NoSamples {
        /// Number of the report, from 1.
        report: usize,
        /// Identifier of the subject.
        subject: String,
    },
    /// The plans differ in more than seed and number of ticks.
    #[error("the plans differ: {0}")]
    PlansDiffer(PlanDifference),
    /// Two reports contain the same round. Counting it twice would narrow every interval without a
    /// new measurement.
    #[error("reports {first} and {second} come from the same run: give each run once")]
    SameRun {
        /// Number of the first of the two reports, from 1.
        first: usize,
        /// Number of the second.
        second: usize,
    },
    /// The merged report would exceed the limits of a report; contains the violation.
    #[error("the merged report would be more than a report can hold: {0}")]
    TooMuch(#[source] Invalid),
}

/// A difference between the plans of the first report and another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("report {report}: {difference}")]
pub struct PlanDifference {
    /// Number of the other report, from 1.
    pub report: usize,
    /// The part of the plan that differs.
    pub difference: PlanPart,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanPart {
    /// The settings of the process.
    #[error("scheduling class, memory lock or timer slack is another")]
    Settings,
    /// A scenario that only one of the plans contains; contains its identifier.
    #[error("{0} is not in both")]
    Missing(String),
    /// How a scenario is measured; contains its identifier.
    #[error("{0} has another command, meter, period, round, warm-up or number of instances")]
    Scenario(String),
}

/// Merges reports in the given order. Tool, host and clock are those of the first report, with a
/// warning if others differ. The seed is that of the first report.
///
/// # Errors
/// Returns an error if there are fewer than two reports, a report has no samples, two reports
/// contain the same run, the result exceeds the limits of a report, or, without `force`, the plans
/// differ.
pub fn merge(reports: &[Report], force: bool) -> Result<Report, MergeError> {
    let [first, rest @ ..] = reports else { return Err(MergeError::Nothing) };
    if rest.is_empty() {
        return Err(MergeError::OnlyOne);
    }
    check_samples(reports)?;
    check_runs_differ(reports)?;
    let plan_difference = first_plan_difference(first, rest);
    if let (Some(difference), false) = (&plan_difference, force) {
        return Err(MergeError::PlansDiffer(difference.clone()));
    }
    let mut merged = first.clone();
    for report in rest {
        append(&mut merged, report);
    }
    for subject in &mut merged.subjects {
        merged.warnings.extend(recompute(subject, reports));
    }
    settings::state_differences(&mut merged);
    merged.cpu_comparisons = compare_cpus(&merged);
    if reports.iter().any(|r| r.fitness.is_some()) {
        merged.fitness = Fitness::from_report(&merged);
    }
    trust::mark_distrusted(&mut merged);
    if let Some(difference) = plan_difference {
        merged.warnings.push(Warning::new(
            PLANS_DIFFER,
            format!("Reports of different plans were merged: {difference}."),
            "Compare their rounds, not their sums.",
        ));
    }
    let is_like_first = |r: &Report| r.host == first.host && r.clock.source == first.clock.source;
    if !rest.iter().all(is_like_first) {
        let message = "Reports of machines in different states were merged; the facts are those of the first.";
        let hint = "Look at the ranking before trusting a sum.";
        merged.warnings.push(Warning::new(HOSTS_DIFFER, message, hint));
    }
    if rest.iter().any(|report| report.tool != first.tool) {
        let message =
            "Reports of different versions of the tool were merged; the stated one is the first.";
        let hint = "Merge reports of one version.";
        merged.warnings.push(Warning::new(TOOLS_DIFFER, message, hint));
    }
    merged.check().map_err(MergeError::TooMuch)?;
    Ok(merged)
}

/// Returns an error if a report contains no samples of a measured subject.
fn check_samples(reports: &[Report]) -> Result<(), MergeError> {
    for (n, report) in (1..).zip(reports) {
        for subject in &report.subjects {
            if subject.summary.is_some() && !subject.has_samples() {
                return Err(MergeError::NoSamples { report: n, subject: subject.id.clone() });
            }
        }
    }
    Ok(())
}

/// Returns the first difference between the plan of the first report and another plan, with the
/// number of its report.
fn first_plan_difference(first: &Report, rest: &[Report]) -> Option<PlanDifference> {
    for (n, report) in (2..).zip(rest) {
        if let Some(difference) = plan_difference(first, report) {
            return Some(PlanDifference { report: n, difference });
        }
    }
    None
}

/// Recomputes the numbers of a subject from the rounds of all reports, and removes those that differ
/// in their meaning, with a warning for each.
fn recompute(subject: &mut Subject, reports: &[Report]) -> Vec<Warning> {
    let costs = StoredCosts::from_rounds(&subject.rounds);
    subject.summary = summarise_subject(subject, costs);
    // The worst ticks of all reports are unknown: each report explains only its own worst ticks.
    subject.why = None;
    subject.histogram = None;
    let subjects = reports.iter().flat_map(|r| &r.subjects);
    let parts: Vec<&Subject> = subjects.filter(|s| is_same(s, subject)).collect();
    subject.status = merge_status(&parts);
    let mut warnings = failure_warnings(subject, &parts);
    if let Some(summary) = &mut subject.summary {
        let summaries: Vec<&Summary> = parts.iter().filter_map(|s| s.summary.as_ref()).collect();
        add_lost_ticks(summary, &summaries);
        match costs {
            StoredCosts::WithWindows => {}
            StoredCosts::PerTick => {
                summary.cpu_ns_per_tick = mean_per_tick(&summaries, |s| s.cpu_ns_per_tick);
                summary.wakeups_per_tick = mean_per_tick(&summaries, |s| s.wakeups_per_tick);
            }
            StoredCosts::Mixed => warnings.push(Warning::new(
                COSTS_DIFFER,
                format!("The cost of {} is unknown: one report is of version 0.2, in which it includes the start and the warm-up.", subject.id),
                "Merge reports of one version.",
            )),
        }
        let lateness = subject.rounds.iter().flat_map(|r| &r.lateness_ns);
        subject.histogram = Some(histogram::pack(lateness.copied()));
    }
    // A subject that failed may have no settings, and they affect no number.
    let measured: Vec<&Subject> = parts.into_iter().filter(|part| is_measured(part)).collect();
    let Some(first) = measured.first() else { return warnings };
    subject.backend.clone_from(&first.backend);
    if measured.iter().any(|part| part.backend != first.backend) {
        subject.backend = None;
    }
    let settings = |part: &Subject| part.settings.as_ref().map(without_differences);
    subject.settings = settings(first);
    if measured.iter().any(|part| settings(part) != subject.settings) {
        subject.settings = None;
        warnings.push(Warning::new(
            SETTINGS_DIFFER,
            format!(
                "The settings of {} differ between the reports, or are unknown in one.",
                subject.id
            ),
            "Look at the settings in each report.",
        ));
    }
    warnings
}

fn is_measured(subject: &Subject) -> bool {
    !subject.rounds.is_empty()
}

/// Returns the status of a subject over several reports. It failed if it failed in each of them, or
/// if no report measured it.
fn merge_status(parts: &[&Subject]) -> Status {
    let reasons: Vec<&str> = failures(parts).map(|failure| failure.reason).collect();
    let is_failed = |part: &&&Subject| matches!(part.status, Status::Failed { .. });
    let failed = parts.iter().filter(is_failed).count();
    if failed > 0 && (failed == parts.len() || !parts.iter().any(|part| is_measured(part))) {
        return Status::Failed { reason: reasons.join("; ") };
    }
    let is_complete = parts.iter().all(|part| part.status == Status::Measured);
    if is_complete { Status::Measured } else { Status::Partial }
}

/// A reason for which a subject failed, with the number of reports in which it did.
struct Failure<'a> {
    reason: &'a str,
    reports: usize,
}

/// Returns each reason for which a subject failed, in the order of the reports.
fn failures<'a>(parts: &[&'a Subject]) -> impl Iterator<Item = Failure<'a>> {
    let mut failures: Vec<Failure<'a>> = Vec::new();
    for part in parts {
        let Status::Failed { reason } = &part.status else { continue };
        match failures.iter_mut().find(|failure| failure.reason == reason) {
            Some(failure) => failure.reports += 1,
            None => failures.push(Failure { reason, reports: 1 }),
        }
    }
    failures.into_iter()
}

/// Returns a warning for each reason for which a subject failed, if others of the reports measured
/// it.
fn failure_warnings(subject: &Subject, parts: &[&Subject]) -> Vec<Warning> {
    if subject.status != Status::Partial {
        return Vec::new();
    }
    let (id, total) = (&subject.id, parts.len());
    let warning = |Failure { reason, reports }: Failure<'_>| {
        Warning::new(
            FAILURES,
            format!(
                "{id} failed in {reports} of {total} reports: {reason}. Its numbers are those of the \
                 rounds that were measured."
            ),
            "Repeat the run in which it failed.",
        )
    };
    failures(parts).map(warning).collect()
}

/// Returns the reason for which a subject of a merged report failed in some of the reports.
#[must_use]
pub fn partial_failure<'r>(report: &'r Report, subject: &Subject) -> Option<&'r str> {
    let mut messages = report.warnings.iter().filter(|w| w.code == FAILURES).map(|w| &w.message);
    messages.find_map(|message| message.strip_prefix(&subject.id)?.strip_prefix(' '))
}

/// Returns the settings themselves, without the differences from those of another subject.
fn without_differences(settings: &SubjectSettings) -> SubjectSettings {
    SubjectSettings { differences: Vec::new(), ..settings.clone() }
}

/// Ranks the medians of all subjects in all reports by their distance from the other reports, the
/// largest first.
#[must_use]
pub fn ranking(reports: &[Report]) -> Vec<RankedMedian> {
    let mut medians: HashMap<&str, Vec<f64>> = HashMap::new();
    for subject in reports.iter().flat_map(|r| &r.subjects) {
        let median = median(subject).map(|ns| ns as f64);
        medians.entry(&subject.id).or_default().extend(median);
    }
    let mut ranked = Vec::new();
    for (source, report) in reports.iter().enumerate() {
        for subject in &report.subjects {
            let Some(p50_ns) = median(subject) else { continue };
            let middle = quantile::median(medians[subject.id.as_str()].iter().copied());
            let ratio = p50_ns.max(1) as f64 / middle.max(1.0);
            ranked.push(RankedMedian { source, id: subject.id.clone(), p50_ns, ratio });
        }
    }
    ranked.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
    ranked
}

fn median(subject: &Subject) -> Option<i64> {
    subject.summary.as_ref()?.lateness_ns.p50
}

impl RankedMedian {
    /// Returns the distance from the other reports.
    fn distance(&self) -> f64 {
        self.ratio.ln().abs()
    }
}

/// Returns the first difference between two plans.
fn plan_difference(a: &Report, b: &Report) -> Option<PlanPart> {
    let (p, q) = (&a.plan, &b.plan);
    if (&p.sched, p.mlock, p.timer_slack_ns) != (&q.sched, q.mlock, q.timer_slack_ns) {
        return Some(PlanPart::Settings);
    }
    if let Some(id) = scenario_ids(p).symmetric_difference(&scenario_ids(q)).next() {
        return Some(PlanPart::Missing((*id).to_owned()));
    }
    for scenario in &p.scenarios {
        let other = q.scenarios.iter().find(|other| other.id == scenario.id)?;
        if !is_measured_alike(scenario, other) {
            return Some(PlanPart::Scenario(scenario.id.clone()));
        }
    }
    None
}

fn scenario_ids(plan: &Plan) -> BTreeSet<&str> {
    plan.scenarios.iter().map(|scenario| scenario.id.as_str()).collect()
}

/// Whether two scenarios differ at most in their number of ticks.
fn is_measured_alike(a: &Scenario, b: &Scenario) -> bool {
    (a.period_ns, a.round_ticks, a.warmup_ticks, a.instances, &a.command, &a.meter)
        == (b.period_ns, b.round_ticks, b.warmup_ticks, b.instances, &b.command, &b.meter)
}

/// Appends the rounds of a report, with subsequent indices and later start times.
fn append(merged: &mut Report, report: &Report) {
    append_rounds(merged, report);
    for scenario in &report.plan.scenarios {
        match merged.plan.scenarios.iter_mut().find(|s| s.id == scenario.id) {
            Some(existing) => existing.ticks = existing.ticks.saturating_add(scenario.ticks),
            None => merged.plan.scenarios.push(scenario.clone()),
        }
    }
    // A fact of all reports, or of none.
    merged.plan.cpu = merged.plan.cpu.filter(|_| merged.plan.cpu == report.plan.cpu);
    merged.plan.samples &= report.plan.samples;
    merged.duration_ns = merged.duration_ns.saturating_add(report.duration_ns);
    merged.partial |= report.partial;
    merged.settled = None;
    raise_bounds(&mut merged.clock, &report.clock);
    add_loads(&mut merged.loads, &report.loads);
    if let (Some(trace), Some(more)) = (&mut merged.trace, &report.trace) {
        add_trace(trace, more);
    }
    for change in &report.changes {
        if !merged.changes.contains(change) {
            merged.changes.push(change.clone());
        }
    }
    for warning in &report.warnings {
        if !merged.warnings.contains(warning) {
            merged.warnings.push(warning.clone());
        }
    }
}

/// Raises the errors and the overhead of a clock to those of another report.
fn raise_bounds(clock: &mut Clock, other: &Clock) {
    clock.error_bound_ns = clock.error_bound_ns.max(other.error_bound_ns);
    clock.observer_ns_per_tick = clock.observer_ns_per_tick.max(other.observer_ns_per_tick);
    let rate_errors = [clock.rate_error_ppb, other.rate_error_ppb].into_iter().flatten();
    clock.rate_error_ppb = rate_errors.reduce(f64::max);
}

/// Adds up the usage of loads with equal names. A CPU time that is unknown in one report is unknown
/// in the sum.
fn add_loads(loads: &mut Vec<Load>, more: &[Load]) {
    for load in more {
        let Some(sum) = loads.iter_mut().find(|sum| sum.load == load.load) else {
            loads.push(load.clone());
            continue;
        };
        sum.cpu_ns = add_if_complete(sum.cpu_ns, load.cpu_ns);
        sum.active_ns = sum.active_ns.saturating_add(load.active_ns);
    }
}

/// Adds the counts of another trace. Program, process and thread are those of the first.
fn add_trace(trace: &mut Trace, other: &Trace) {
    trace.cpu_ns = add_if_complete(trace.cpu_ns, other.cpu_ns);
    trace.apart &= other.apart;
    for (sum, more) in [
        (&mut trace.window_ns, other.window_ns),
        (&mut trace.records, other.records),
        (&mut trace.bytes, other.bytes),
        (&mut trace.lost, other.lost),
        (&mut trace.unrecorded, other.unrecorded),
        (&mut trace.undated, other.undated),
        (&mut trace.unseen, other.unseen),
        (&mut trace.dropped, other.dropped),
    ] {
        *sum = sum.saturating_add(more);
    }
}

/// Appends the rounds of each subject of a report.
fn append_rounds(merged: &mut Report, report: &Report) {
    let rounds = merged.subjects.iter().flat_map(|s| &s.rounds).map(|round| round.index);
    let excluded = merged.subjects.iter().flat_map(|s| &s.excluded).map(|round| round.index);
    let next_index = rounds.chain(excluded).map(|n| n.saturating_add(1)).max().unwrap_or(0);
    let start_ns = merged.duration_ns;
    for subject in &report.subjects {
        let mut subject = subject.clone();
        for round in &mut subject.rounds {
            round.index = round.index.saturating_add(next_index);
            round.start_ns = round.start_ns.saturating_add(start_ns);
        }
        for round in &mut subject.excluded {
            round.index = round.index.saturating_add(next_index);
            round.start_ns = round.start_ns.saturating_add(start_ns);
        }
        let Some(existing) = merged.subjects.iter_mut().find(|s| is_same(s, &subject)) else {
            merged.subjects.push(subject);
            continue;
        };
        existing.rounds.append(&mut subject.rounds);
        existing.excluded.append(&mut subject.excluded);
    }
}

/// Whether two subjects have the same identifier, period and number of instances.
fn is_same(a: &Subject, b: &Subject) -> bool {
    (&a.id, a.period_ns, a.instances) == (&b.id, b.period_ns, b.instances)
}

/// Checks that no run is in two reports.
///
/// # Errors
/// Returns an error if two reports contain the same round.
pub fn check_runs_differ(reports: &[Report]) -> Result<(), MergeError> {
    let mut seen = HashMap::new();
    for (n, report) in (1..).zip(reports) {
        for subject in &report.subjects {
            for round in subject.rounds.iter().filter(|r| !r.lateness_ns.is_empty()) {
                // Different rounds differ in their cost in nanoseconds and in the random part of
                // their start.
                let key = (
                    subject.id.as_str(),
                    round.phase_ns,
                    round.cpu_ns,
                    round.lateness_ns.as_slice(),
                );
                let first = *seen.entry(key).or_insert(n);
                if first != n {
                    return Err(MergeError::SameRun { first, second: n });
                }
            }
        }
    }
    Ok(())
}

/// Form in which the rounds of a subject contain their costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredCosts {
    /// Every round states the window of its cost.
    WithWindows,
    /// No round does, as in files of version 0.2: only the costs per tick in the summaries have the
    /// ticks to which they belong.
    PerTick,
    /// Some rounds do.
    Mixed,
}

impl StoredCosts {
    fn from_rounds(rounds: &[Round]) -> Self {
        let stated = rounds.iter().filter(|round| round.cost_ticks.is_some()).count();
        match stated {
            0 => Self::PerTick,
            n if n == rounds.len() => Self::WithWindows,
            _ => Self::Mixed,
        }
    }
}

/// Adds the planned ticks of rounds without a delivered tick, which only the summaries of the parts
/// contain.
fn add_lost_ticks(summary: &mut Summary, parts: &[&Summary]) {
    let planned = parts.iter().map(|part| part.ticks).fold(0, u64::saturating_add);
    let lost = planned.saturating_sub(summary.ticks);
    summary.ticks = summary.ticks.saturating_add(lost);
    for count in [&mut summary.skipped, &mut summary.missed].into_iter().flatten() {
        *count = count.saturating_add(lost);
    }
}

/// The mean over the ticks of all parts of a cost per tick; `None` if a part does not have it.
fn mean_per_tick(parts: &[&Summary], cost: fn(&Summary) -> Option<f64>) -> Option<f64> {
    let (mut total, mut ticks) = (0.0, 0_u64);
    for part in parts {
        total += cost(part)? * part.ticks as f64;
        ticks = ticks.saturating_add(part.ticks);
    }
    Some(total / ticks.max(1) as f64)
}

/// Summarises the rounds of a subject, with their costs if all of them state the window of theirs.
fn summarise_subject(subject: &Subject, costs: StoredCosts) -> Option<Summary> {
    // The entries of the instances of a round are consecutive.
    let rounds = subject.rounds.chunk_by(|a, b| a.index == b.index);
    let samples: Vec<RoundSamples> =
        rounds.flat_map(|entries| stored_samples(subject, entries)).collect();
    let mut parts = Vec::with_capacity(samples.len());
    for (round, samples) in subject.rounds.iter().zip(&samples) {
        let cost = match costs {
            StoredCosts::WithWindows => RoundCost::from_entry(round, subject.instances),
            StoredCosts::PerTick | StoredCosts::Mixed => None,
        };
        let cost = cost.unwrap_or_default();
        parts.push(InstanceRound { round: round.index, samples, cost });
    }
    summarise(&parts, subject.runtime.is_some())
}
