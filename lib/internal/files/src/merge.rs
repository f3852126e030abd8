//! Joins the reports of several runs, CPUs or hosts without loss: every tick is kept, every number
//! computed anew.

use std::collections::HashMap;
use std::fmt;

use crate::file::File as _;
use crate::fitness::Fitness;
use crate::histogram;
use crate::report::{Report, Round, Status, Subject, Summary, Warning};
use crate::summary::{InstanceRound, RoundCost, stored_samples, summarise};
use jitterstat::sample::RoundSamples;

/// Code of the warning in a report that was merged although the plans differ.
pub const PLANS_DIFFER: &str = "merged-plans-differ";
/// Code of the warning in a report whose parts come from several machines.
pub const HOSTS_DIFFER: &str = "merged-hosts-differ";

/// How far one report's median of a subject is from the other reports'.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedMedian {
    /// Which of the reports, from 0.
    pub source: usize,
    /// Id of the subject.
    pub id: String,
    /// Its median lateness in that report.
    pub p50_ns: i64,
    /// `p50_ns` over the median of all reports' medians of this subject.
    pub ratio: f64,
}

/// Why reports cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// No report.
    Nothing,
    /// A single report.
    OnlyOne,
    /// A report without samples: percentiles cannot be joined without loss.
    NoSamples {
        /// Which report, from 1.
        report: usize,
        /// Id of the subject.
        subject: String,
    },
    /// Plans that differ in more than seed and number of ticks: where.
    PlansDiffer(String),
    /// Two reports that hold the same round: counted twice, it would narrow every interval without
    /// a new measurement.
    SameRun {
        /// Number of the first of the two reports, from 1.
        first: usize,
        /// Number of the second.
        second: usize,
    },
    /// Together they are more than a report can hold: what, and where.
    TooMuch(String),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing to merge"),
            Self::OnlyOne => f.write_str("one report is merged with nothing: give two or more"),
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
                write!(f, "merged, they are more than a report can hold: {what}")
            }
        }
    }
}

impl std::error::Error for MergeError {}

/// Joins reports in the given order. Host and clock are the first one's; a warning names what
/// differs.
///
/// # Errors
/// Fewer than two reports, a report without samples, a run that is there twice, more than one
/// report can hold or, without `force`, plans that differ.
pub fn merge(reports: &[Report], force: bool) -> Result<Report, MergeError> {
    let [first, rest @ ..] = reports else { return Err(MergeError::Nothing) };
    if rest.is_empty() {
        return Err(MergeError::OnlyOne);
    }
    for (n, report) in reports.iter().enumerate() {
        let without = report
            .subjects
            .iter()
            .find(|s| s.summary.is_some() && s.rounds.iter().all(|r| r.lateness_ns.is_empty()));
        if let Some(subject) = without {
            return Err(MergeError::NoSamples { report: n + 1, subject: subject.id.clone() });
        }
    }
    check_runs_differ(reports)?;
    let difference = rest
        .iter()
        .enumerate()
        .find_map(|(n, r)| Some(format!("report {}: {}", n + 2, difference(first, r)?)));
    if let (Some(what), false) = (&difference, force) {
        return Err(MergeError::PlansDiffer(what.clone()));
    }
    let mut merged = first.clone();
    for report in rest {
        append(&mut merged, report);
    }
    for subject in &mut merged.subjects {
        subject.summary = summary_of(subject);
        // Which ticks are the latest cannot be found out from the latest of each part.
        subject.why = None;
        let parts = reports.iter().flat_map(|r| &r.subjects).filter(|s| is_same(s, subject));
        let parts: Vec<&Summary> = parts.filter_map(|s| s.summary.as_ref()).collect();
        subject.summary.iter_mut().for_each(|summary| add_totals(summary, &parts));
        let all = subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied());
        subject.histogram = subject.summary.is_some().then(|| histogram::pack(all));
    }
    if reports.iter().any(|r| r.fitness.is_some()) {
        merged.fitness = Fitness::from_report(&merged);
    }
    if let Some(what) = difference {
        merged.warnings.push(warning(
            PLANS_DIFFER,
            format!("Reports of different plans were merged: {what}."),
            "Compare their rounds, not their sums.",
        ));
    }
    if rest.iter().any(|r| r.host != first.host) {
        let what = "Reports of machines in different states were merged; the facts are those of the first.".to_owned();
        merged.warnings.push(warning(
            HOSTS_DIFFER,
            what,
            "Look at the ranking before trusting a sum.",
        ));
    }
    merged.check().map_err(|e| MergeError::TooMuch(e.to_string()))?;
    Ok(merged)
}

/// Each report's median of each subject, the one furthest from the others first.
#[must_use]
pub fn ranking(reports: &[Report]) -> Vec<RankedMedian> {
    let median = |s: &Subject| s.summary.as_ref().and_then(|m| m.lateness_ns.p50);
    let mut of_all: HashMap<&str, Vec<i64>> = HashMap::new();
    for subject in reports.iter().flat_map(|r| &r.subjects) {
        of_all.entry(&subject.id).or_default().extend(median(subject));
    }
    of_all.values_mut().for_each(|medians| medians.sort_unstable());
    let mut all = Vec::new();
    for (source, report) in reports.iter().enumerate() {
        for subject in &report.subjects {
            let Some(p50_ns) = median(subject) else { continue };
            let others = &of_all[subject.id.as_str()];
            let middle = others[others.len() / 2].midpoint(others[(others.len() - 1) / 2]);
            let ratio = p50_ns.max(1) as f64 / middle.max(1) as f64;
            all.push(RankedMedian { source, id: subject.id.clone(), p50_ns, ratio });
        }
    }
    all.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    all
}

fn warning(code: &str, message: String, hint: &str) -> Warning {
    Warning { code: code.to_owned(), message, hint: hint.to_owned() }
}

/// How two plans differ.
fn difference(a: &Report, b: &Report) -> Option<String> {
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

/// Adds the rounds of one report behind those that are there: numbered on, and later in time.
fn append(merged: &mut Report, report: &Report) {
    let next = merged
        .subjects
        .iter()
        .flat_map(|s| &s.rounds)
        .map(|r| r.index.saturating_add(1))
        .max()
        .unwrap_or(0);
    let later = merged.duration_ns;
    for subject in &report.subjects {
        let rounds = subject.rounds.iter().map(|r| Round {
            index: r.index.saturating_add(next),
            start_ns: r.start_ns.saturating_add(later),
            ..r.clone()
        });
        if let Some(there) = merged.subjects.iter_mut().find(|s| is_same(s, subject)) {
            there.rounds.extend(rounds);
            if subject.status != Status::Measured {
                there.status = Status::Partial;
            }
        } else {
            merged.subjects.push(Subject { rounds: rounds.collect(), ..subject.clone() });
        }
    }
    for scenario in &report.plan.scenarios {
        match merged.plan.scenarios.iter_mut().find(|s| s.id == scenario.id) {
            Some(there) => there.ticks = there.ticks.saturating_add(scenario.ticks),
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

/// Another period or number of instances under the same id is another subject.
fn is_same(a: &Subject, b: &Subject) -> bool {
    (&a.id, a.period_ns, a.instances) == (&b.id, b.period_ns, b.instances)
}

/// Returns an error if two reports contain the same round.
fn check_runs_differ(reports: &[Report]) -> Result<(), MergeError> {
    let mut seen = HashMap::new();
    for (n, report) in (1..).zip(reports) {
        for subject in &report.subjects {
            for round in subject.rounds.iter().filter(|r| !r.lateness_ns.is_empty()) {
                // What a round cost to the nanosecond, and the random part of its start, are never
                // those of another.
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

/// Adds what only the summaries of the parts state: what was asked for in rounds in which no tick
/// came, and the cost of the recorded ticks, where that of a round includes its warm-up.
fn add_totals(summary: &mut Summary, parts: &[&Summary]) {
    let asked = parts.iter().map(|part| part.ticks).fold(0, u64::saturating_add);
    let lost = asked.saturating_sub(summary.ticks);
    for count in [&mut summary.ticks, &mut summary.skipped, &mut summary.missed] {
        *count = count.saturating_add(lost);
    }
    let per_tick = |of: fn(&Summary) -> Option<f64>| {
        let total =
            parts.iter().map(|part| Some(of(part)? * part.ticks as f64)).sum::<Option<f64>>();
        total.map(|total| total / asked.max(1) as f64)
    };
    summary.cpu_ns_per_tick = per_tick(|s| s.cpu_ns_per_tick);
    summary.wakeups_per_tick = per_tick(|s| s.wakeups_per_tick);
}

/// All but the cost, which the rounds have only with their warm-up.
fn summary_of(subject: &Subject) -> Option<Summary> {
    let parts: Vec<(u64, RoundSamples)> =
        subject.rounds.iter().map(|r| (r.index, stored_samples(subject, r))).collect();
    let cost = RoundCost::default();
    let parts: Vec<InstanceRound<'_>> = parts
        .iter()
        .map(|(round, samples)| InstanceRound { round: *round, samples, cost })
        .collect();
    summarise(&parts, subject.runtime.is_some())
}
