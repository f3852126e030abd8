//! Explains judged metrics: the rule that decided each one, and what could decide an open one.

use cli::time::{format_duration, format_percent};
use files::gate::verdict::{JudgedNumber, Metric, Mode, PairVerdict, StallLift};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::args::MAX_PAIRS;
use crate::gate::text::{
    PercentileLift, Row, format_change, format_option, format_range, format_tolerance,
};

/// A judged metric, whichever question it answers.
pub struct MetricView<'a> {
    pub name: &'a str,
    pub judged: &'a JudgedNumber,
    pub lift: Option<&'a StallLift>,
}

/// The formatted change of a metric.
struct ChangeCells {
    ratio: String,
    interval: String,
    tolerated: String,
}

/// Converts the lift of a percentile for a section.
pub fn percentile_lift(name: &str, lift: Option<&StallLift>) -> Option<PercentileLift> {
    let ratios = Sides { base: lift?.a, candidate: lift?.b };
    Some(PercentileLift { name: name.to_owned(), ratios })
}

impl MetricView<'_> {
    fn change_cells(&self) -> ChangeCells {
        let JudgedNumber { ratio, ratio_interval, tolerated_ratio, .. } = *self.judged;
        let format_interval = |[low, high]: [f64; 2]| format_range(low, high, format_change);
        ChangeCells {
            ratio: format_option(ratio, format_change),
            interval: format_option(ratio_interval, format_interval),
            tolerated: format_tolerance(tolerated_ratio),
        }
    }

    /// Builds the row of the metric. `cells` are the values of the sides; `class` and `case` name
    /// the test case in JUnit.
    pub fn row(&self, class: &str, case: &str, mut cells: Vec<String>) -> Row {
        let change = self.change_cells();
        cells.extend([change.ratio, change.interval, change.tolerated]);
        Row {
            name: self.name.to_owned(),
            cells,
            verdict: self.judged.verdict,
            class: class.to_owned(),
            case: case.to_owned(),
            detail: self.explanation(),
        }
    }

    /// Describes the rule that decided, with its numbers.
    pub fn explanation(&self) -> String {
        let ChangeCells { ratio, interval, tolerated } = self.change_cells();
        let Self { name, judged, .. } = self;
        let change = format!("{name} {ratio} ({interval})");
        match (judged.verdict, judged.reason) {
            // Above half of the tolerance, an interval that reaches the tolerance is a regression.
            (Outcome::Regressed | Outcome::LimitBroken, _) if self.is_within_tolerance() => {
                format!("{change} reaches {tolerated}")
            }
            (Outcome::Regressed | Outcome::LimitBroken, _) => {
                format!("{change} exceeds {tolerated}")
            }
            (Outcome::Pass, _) => format!("{change} is within {tolerated}"),
            (Outcome::Improved, _) => format!("{change} is an improvement"),
            (_, Some(Reason::StallDominated)) => self.explain_stalls(&tolerated),
            (_, Some(Reason::NotClear)) => {
                format!("{change} is worse, but not clearly beyond {tolerated}")
            }
            (_, Some(Reason::TooNoisy)) => self.explain_noise(&change, &tolerated),
            (_, Some(reason)) => format!("{name}: {}", reason),
            (_, None) => change,
        }
    }

    /// Returns whether the estimated change is tolerated. The tolerated ratio is below 1 if higher
    /// values are better.
    fn is_within_tolerance(&self) -> bool {
        let tolerated = self.judged.tolerated_ratio;
        let is_within =
            |ratio: f64| if tolerated < 1.0 { ratio > tolerated } else { ratio < tolerated };
        self.judged.ratio.is_some_and(is_within)
    }

    fn explain_noise(&self, change: &str, tolerated: &str) -> String {
        let both = self.lift.map_or(1.0, |lift| lift.both);
        let tolerated_ratio = self.judged.tolerated_ratio;
        match self.judged.ratio_interval {
            // The interval alone would pass; stalls that raise both sides could hide a change.
            Some([_, high]) if high < tolerated_ratio && high >= tolerated_ratio / both => {
                let raised = format_percent(both - 1.0);
                format!(
                    "{change} is within {tolerated}, but stalls raise both sides by {raised} and could hide more"
                )
            }
            _ => format!("{change} may or may not exceed {tolerated}"),
        }
    }

    fn explain_stalls(&self, tolerated: &str) -> String {
        let name = self.name;
        let consequence = format!("and could hide a rise of {tolerated}");
        match self.lift {
            Some(lift) if 2.0 * (lift.both - 1.0) >= lift.late_anyway - 1.0 => {
                let rise = format_percent(lift.both - 1.0);
                format!("stalls raise {name} of both sides by {rise}, {consequence}")
            }
            Some(lift) => {
                let rise = format_percent(lift.late_anyway - 1.0);
                format!(
                    "stalls raise {name} by {rise} on a side that is late even without them, {consequence}"
                )
            }
            None => format!("{name}: {}", Reason::StallDominated),
        }
    }
}

/// Suggests how an inconclusive comparison could be decided.
///
/// Returns `None` if the comparison is decided or was cut short.
pub fn advice(verdict: &PairVerdict) -> Option<String> {
    if verdict.verdict != Outcome::Inconclusive || verdict.pairs == 0 {
        return None;
    }
    let open_metric = |reason: Reason| {
        let mut metrics = verdict.metrics.iter();
        metrics
            .find(|metric| metric.judged.is_inconclusive() && metric.judged.reason == Some(reason))
    };
    if let Some(Metric { name, .. }) = open_metric(Reason::StallDominated) {
        return Some(format!(
            "no number of pairs would decide it here: a quieter machine or CPU would, or a wider --tolerance {name}=…%"
        ));
    }
    let first = open_metric(Reason::TooNoisy).or_else(|| open_metric(Reason::TooFewRounds))?;
    let duet_hint = if can_use_duet(verdict) { ", or try --duet" } else { "" };
    let Some(pairs) = pairs_to_decide(verdict) else {
        return Some(format!(
            "more pairs would not decide it here: a quieter machine would, or a wider --tolerance {}=…%{duet_hint}",
            first.name
        ));
    };
    let pair_seconds = verdict.duration_ns as f64 / 1e9 / verdict.pairs as f64;
    let duration = format_duration(pair_seconds * pairs as f64);
    Some(format!(
        "about {pairs} pairs of rounds ({duration}) would probably decide it: --max-pairs {pairs}{duet_hint}"
    ))
}

/// Returns the number of pairs that would decide every open metric. `None` if one of them needs
/// more than a gate allows.
fn pairs_to_decide(verdict: &PairVerdict) -> Option<u64> {
    let is_undecided = |metric: &&Metric| {
        metric.judged.is_inconclusive()
            && matches!(metric.judged.reason, Some(Reason::TooNoisy | Reason::TooFewRounds))
    };
    let undecided = verdict.metrics.iter().filter(is_undecided);
    let needed: Option<Vec<u64>> = undecided
        .map(|metric| metric.pairs_to_decide.filter(|&pairs| pairs <= MAX_PAIRS))
        .collect();
    needed?.into_iter().max()
}

/// Returns whether the comparison could run both sides at once: it is one of subjects, which have
/// a period in their names, and not a duet yet.
fn can_use_duet(verdict: &PairVerdict) -> bool {
    let has_subjects = verdict.plan.cpu.is_some() && verdict.a.contains('@');
    verdict.mode == Mode::Interleaved && has_subjects
}

/// Explains rows of a comparison whose numbers seem to contradict each other.
pub fn notes(verdict: &PairVerdict) -> Vec<String> {
    verdict.metrics.iter().flat_map(|metric| metric_notes(metric, verdict.pairs)).collect()
}

fn metric_notes(metric: &Metric, pairs: u64) -> Vec<String> {
    /// A difference between the change and the ratio of the medians that needs an explanation.
    const MIN_EXPLAINED_DIFFERENCE: f64 = 0.01;
    let mut notes = Vec::new();
    let name = &metric.name;
    if metric.pairs < pairs {
        let used = metric.pairs;
        notes
            .push(format!("{name} is judged by the quieter half of the pairs, {used} of {pairs}."));
    }
    let median_ratio = metric.b_ns as f64 / metric.a_ns.max(1) as f64;
    let difference = metric.judged.ratio.map_or(0.0, |ratio| (ratio - median_ratio).abs());
    if difference > MIN_EXPLAINED_DIFFERENCE {
        notes.push(format!(
            "The change of {name} is the typical change within a pair; the medians of the sides differ by {}.",
            format_change(median_ratio)
        ));
    }
    notes
}
