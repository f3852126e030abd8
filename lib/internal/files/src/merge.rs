//! Merges the reports of several runs, CPUs or hosts without loss: all ticks are kept, and all
//! numbers are recomputed.

use std::collections::HashMap;
use std::fmt;

use crate::file::File as _;
use crate::fitness::Fitness;
use crate::histogram;
use crate::report::{Report, Round, Status, Subject, Summary, Warning};
use crate::summary::{InstanceRound, RoundCost, stored_samples, summarise};
use jitterstat::sample::RoundSamples;

/// Code of the warning that reports with different plans were merged.
pub const PLANS_DIFFER: &str = "merged-plans-differ";
/// Code of the warning that reports of different machines were merged.
pub const HOSTS_DIFFER: &str = "merged-hosts-differ";

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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// The list of reports is empty.
    Nothing,
    /// There is only one report.
    OnlyOne,
    /// A report contains no samples, so that percentiles cannot be merged without loss.
    NoSamples {
        /// Number of the report, from 1.
        report: usize,
        /// Identifier of the subject.
        subject: String,
    },
    /// The plans differ in more than seed and number of ticks; contains the difference.
    PlansDiffer(String),
    /// Two reports contain the same round. Counting it twice would narrow every interval without a
    /// new measurement.
    SameRun {
        /// Number of the first of the two reports, from 1.
        first: usize,
        /// Number of the second.
        second: usize,
    },
    /// The merged report would exceed the limits of a report; contains the violation.
    TooMuch(String),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing to merge"),
            Self::OnlyOne => f.write_str("cannot merge a single report: give two or more"),
            Self::NoSamples { report, subject } => {
                write!(
                    f,
                    "report {report} has no samples of {subject}: it cannot be merged without loss"
                )
            }
            Self::PlansDiffer(what) => write!(f, "the plans differ: {what}"),
            Self::SameRun { first, second } => {
                write!(f, "reports {first} and {second} come from the same run: give each run once")
            }
            Self::TooMuch(what) => {
                write!(f, "the merged report would be more than a report can hold: {what}")
            }
        }
    }
}

impl std::error::Error for MergeError {}

/// Merges reports in the given order. Host and clock are those of the first report, and warnings
/// name the differences.
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
    let plan_difference = rest
        .iter()
        .enumerate()
        .find_map(|(n, r)| Some(format!("report {}: {}", n + 2, plan_difference(first, r)?)));
    if let (Some(difference), false) = (&plan_difference, force) {
        return Err(MergeError::PlansDiffer(difference.clone()));
    }
    let mut merged = first.clone();
    for report in rest {
        append(&mut merged, report);
    }
    for subject in &mut merged.subjects {
        recompute(subject, reports);
    }
    if reports.iter().any(|r| r.fitness.is_some()) {
        merged.fitness = Fitness::from_report(&merged);
    }
    if let Some(difference) = plan_difference {
        merged.warnings.push(warning(
            PLANS_DIFFER,
            format!("Reports of different plans were merged: {difference}."),
            "Compare their rounds, not their sums.",
        ));
    }
    if rest.iter().any(|r| r.host != first.host) {
        let message = "Reports of machines in different states were merged; the facts are those of the first.";
        let hint = "Look at the ranking before trusting a sum.";
        merged.warnings.push(warning(HOSTS_DIFFER, message.to_owned(), hint));
    }
    merged.check().map_err(|e| MergeError::TooMuch(e.to_string()))?;
    Ok(merged)
}

/// Returns an error if a report contains no samples of a measured subject.
fn check_samples(reports: &[Report]) -> Result<(), MergeError> {
    let lacks_samples =
        |s: &&Subject| s.summary.is_some() && s.rounds.iter().all(|r| r.lateness_ns.is_empty());
    for (n, report) in (1..).zip(reports) {
        if let Some(subject) = report.subjects.iter().find(lacks_samples) {
            return Err(MergeError::NoSamples { report: n, subject: subject.id.clone() });
        }
    }
    Ok(())
}

/// Recomputes the numbers of a subject from the rounds of all reports.
fn recompute(subject: &mut Subject, reports: &[Report]) {
    subject.summary = summarise_subject(subject);
    // The latest ticks of all reports are unknown: each report explains only its own latest ticks.
    subject.why = None;
    let parts = reports.iter().flat_map(|r| &r.subjects).filter(|s| is_same(s, subject));
    let parts: Vec<&Summary> = parts.filter_map(|s| s.summary.as_ref()).collect();
    subject.summary.iter_mut().for_each(|summary| add_totals(summary, &parts));
    let lateness = subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied());
    subject.histogram = subject.summary.is_some().then(|| histogram::pack(lateness));
}

/// Ranks the medians of all subjects in all reports by their distance from the other reports, the
/// largest first.
#[must_use]
pub fn ranking(reports: &[Report]) -> Vec<RankedMedian> {
    let median = |s: &Subject| s.summary.as_ref().and_then(|m| m.lateness_ns.p50);
    let mut medians: HashMap<&str, Vec<i64>> = HashMap::new();
    for subject in reports.iter().flat_map(|r| &r.subjects) {
        medians.entry(&subject.id).or_default().extend(median(subject));
    }
    medians.values_mut().for_each(|values| values.sort_unstable());
    let mut ranked = Vec::new();
    for (source, report) in reports.iter().enumerate() {
        for subject in &report.subjects {
            let Some(p50_ns) = median(subject) else { continue };
            let others = &medians[subject.id.as_str()];
            let middle = others[others.len() / 2].midpoint(others[(others.len() - 1) / 2]);
            let ratio = p50_ns.max(1) as f64 / middle.max(1) as f64;
            ranked.push(RankedMedian { source, id: subject.id.clone(), p50_ns, ratio });
        }
    }
    ranked.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    ranked
}

fn warning(code: &str, message: String, hint: &str) -> Warning {
    Warning { code: code.to_owned(), message, hint: hint.to_owned() }
}

/// Returns the first difference between two plans.
fn plan_difference(a: &Report, b: &Report) -> Option<String> {
    let (p, q) = (&a.plan, &b.plan);
    if (&p.sched, p.mlock, p.timer_slack_ns) != (&q.sched, q.mlock, q.timer_slack_ns) {
        return Some("scheduling class, memory lock or timer slack is another".to_owned());
    }
    let ids = |r: &Report| {
        r.plan.scenarios.iter().map(|s| s.id.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let (x, y) = (ids(a), ids(b));
    if let Some(id) = x.symmetric_difference(&y).next() {
        return Some(format!("{id} is not in both"));
    }
    p.scenarios.iter().find_map(|s| {
        let t = q.scenarios.iter().find(|t| t.id == s.id)?;
        let key = |s: &crate::report::Scenario| {
            (s.period_ns, s.round_ticks, s.warmup_ticks, s.instances, s.command.clone())
        };
        (key(s) != key(t)).then(|| {
            format!("{} has another command, period, round, warm-up or number of instances", s.id)
        })
    })
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
    merged.duration_ns = merged.duration_ns.saturating_add(report.duration_ns);
    merged.partial |= report.partial;
    merged.clock.error_bound_ns = merged.clock.error_bound_ns.max(report.clock.error_bound_ns);
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

/// Appends the rounds of each subject of a report.
fn append_rounds(merged: &mut Report, report: &Report) {
    let rounds = merged.subjects.iter().flat_map(|s| &s.rounds);
    let next_index = rounds.map(|r| r.index.saturating_add(1)).max().unwrap_or(0);
    let start_ns = merged.duration_ns;
    for subject in &report.subjects {
        let rounds = subject.rounds.iter().map(|r| Round {
            index: r.index.saturating_add(next_index),
            start_ns: r.start_ns.saturating_add(start_ns),
            ..r.clone()
        });
        if let Some(existing) = merged.subjects.iter_mut().find(|s| is_same(s, subject)) {
            existing.rounds.extend(rounds);
            if subject.status != Status::Measured {
                existing.status = Status::Partial;
            }
        } else {
            merged.subjects.push(Subject { rounds: rounds.collect(), ..subject.clone() });
        }
    }
}

/// Whether two subjects have the same identifier, period and number of instances.
fn is_same(a: &Subject, b: &Subject) -> bool {
    (&a.id, a.period_ns, a.instances) == (&b.id, b.period_ns, b.instances)
}

/// Returns an error if two reports contain the same round.
fn check_runs_differ(reports: &[Report]) -> Result<(), MergeError> {
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

/// Adds the numbers that only the summaries of the parts contain: the planned ticks of rounds
/// without a delivered tick, and the cost of the recorded ticks. The cost of a round includes its
/// warm-up.
fn add_totals(summary: &mut Summary, parts: &[&Summary]) {
    let planned = parts.iter().map(|part| part.ticks).fold(0, u64::saturating_add);
    let lost = planned.saturating_sub(summary.ticks);
    for count in [&mut summary.ticks, &mut summary.skipped, &mut summary.missed] {
        *count = count.saturating_add(lost);
    }
    let per_tick = |cost: fn(&Summary) -> Option<f64>| {
        let costs = parts.iter().map(|part| Some(cost(part)? * part.ticks as f64));
        costs.sum::<Option<f64>>().map(|total| total / planned.max(1) as f64)
    };
    summary.cpu_ns_per_tick = per_tick(|s| s.cpu_ns_per_tick);
    summary.wakeups_per_tick = per_tick(|s| s.wakeups_per_tick);
}

/// Summarises the rounds of a subject without their cost, which includes the warm-up.
fn summarise_subject(subject: &Subject) -> Option<Summary> {
    let parts: Vec<(u64, RoundSamples)> =
        subject.rounds.iter().map(|r| (r.index, stored_samples(subject, r))).collect();
    let cost = RoundCost::default();
    let parts: Vec<InstanceRound<'_>> = parts
        .iter()
        .map(|(round, samples)| InstanceRound { round: *round, samples, cost })
        .collect();
    summarise(&parts, subject.runtime.is_some())
}
