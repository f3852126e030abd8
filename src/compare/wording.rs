//! The rows and sentences of a comparison.

use std::fmt::{self, Write as _};

use cli::amount::{format_amount, format_ratio, format_ratio_with_interval};
use cli::time::{format_difference, format_difference_interval, format_percent, format_time};
use files::compare::{
    ComparedMetric, Comparison, Estimate, Finding, Method, RunEstimate, SubjectComparison,
};
use files::environment::Difference;
use files::subjects::SLEEPING_CONTROL;
use jitterstat::stats::bootstrap::MIN_ROUNDS;

use render::report::fitness;

/// How the estimate of a row differs from the one over all rounds or runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    QuietHalf,
    Control,
    Baseline,
}

impl Mark {
    /// Returns the word in the name of the row.
    fn word(self) -> &'static str {
        match self {
            Self::QuietHalf => "quiet",
            Self::Control => "ctl",
            Self::Baseline => "rel",
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.word())?;
        match self {
            Self::QuietHalf => f.write_str("only the half of the pairs with the lowest lateness."),
            Self::Control => {
                let control = SLEEPING_CONTROL.name;
                write!(f, "how much later each side is than the control {control} in the same run.")
            }
            Self::Baseline => f.write_str("as multiples of the baseline of the same gate."),
        }
    }
}

/// Returns the name of a row.
fn marked_name(name: &str, mark: Option<Mark>) -> String {
    match mark {
        Some(mark) => format!("{name} {}", mark.word()),
        None => name.to_owned(),
    }
}

/// Distinguishes the percentiles of a comparison from those of a run.
pub const MEDIAN_ROUND_NOTE: &str =
    "Percentiles are those of the median round; osjitter run shows those of all ticks";

/// An estimate for one percentile of lateness.
pub struct PercentileRow<'a> {
    percentile: String,
    mark: Option<Mark>,
    pub estimate: &'a Estimate,
}

impl PercentileRow<'_> {
    fn name(&self) -> String {
        marked_name(&self.percentile, self.mark)
    }

    /// Formats the name, both sides, their ratio and difference, and the number of rounds.
    ///
    /// The ratio of an estimate relative to the control is not that of its two times, and is left
    /// out: see [`control_sentence`].
    pub fn cells(&self) -> [String; 6] {
        let estimate = self.estimate;
        let is_relative = self.mark == Some(Mark::Control);
        [
            self.name(),
            format_time(estimate.a_ns),
            format_time(estimate.b_ns),
            if is_relative { "-".to_owned() } else { format_ratio_of(estimate) },
            format_estimated_difference(estimate),
            format_counts(estimate.rounds_a, estimate.rounds_b),
        ]
    }
}

/// Describes the ratios relative to the control. Empty if there are none.
pub fn control_sentence(rows: &[PercentileRow<'_>]) -> String {
    let mut ratios = Vec::new();
    for row in rows.iter().filter(|row| row.mark == Some(Mark::Control)) {
        ratios.push(format!("{} {}", row.percentile, format_ratio_of(row.estimate)));
    }
    if ratios.is_empty() {
        return String::new();
    }
    format!("B/A as multiples of the control in the same run: {}.", ratios.join(", "))
}

/// Returns the rows of two subjects, percentile by percentile.
pub fn percentile_rows(comparison: &SubjectComparison) -> Vec<PercentileRow<'_>> {
    let mut rows = Vec::new();
    for percentile in &comparison.percentiles {
        let estimates = [
            (None, Some(&percentile.all)),
            (Some(Mark::QuietHalf), percentile.quiet_half.as_ref()),
            (Some(Mark::Control), percentile.beside_control.as_ref()),
        ];
        for (mark, estimate) in estimates {
            if let Some(estimate) = estimate {
                let percentile = percentile.name.replace('_', ".");
                rows.push(PercentileRow { percentile, mark, estimate });
            }
        }
    }
    rows
}

/// Returns the marks in the names of rows.
pub fn used_marks(rows: &[PercentileRow<'_>]) -> impl Iterator<Item = Mark> {
    let marks = [Mark::QuietHalf, Mark::Control];
    marks.into_iter().filter(|mark| rows.iter().any(|row| row.mark == Some(*mark)))
}

/// An estimate for one metric of whole runs.
pub struct MetricRow<'a> {
    metric: &'a ComparedMetric,
    mark: Option<Mark>,
    pub estimate: &'a RunEstimate,
}

impl MetricRow<'_> {
    pub fn name(&self) -> String {
        marked_name(&self.metric.name, self.mark)
    }

    /// Formats the name, both sides, their ratio, and the number of runs.
    pub fn cells(&self) -> [String; 5] {
        let RunEstimate { a, b, ratio, ratio_ci95, .. } = *self.estimate;
        let [a, b] = match self.mark {
            Some(_) => [a, b].map(format_ratio),
            None => [a, b].map(|value| format_amount(value, &self.metric.unit)),
        };
        let counts = format_counts(self.estimate.runs_a, self.estimate.runs_b);
        [self.name(), a, b, format_ratio_with_interval(ratio, ratio_ci95), counts]
    }
}

/// Returns the rows of whole runs. A metric that is also compared relative to the baselines has
/// two.
pub fn metric_rows(comparison: &Comparison) -> Vec<MetricRow<'_>> {
    let mut rows = Vec::new();
    for metric in &comparison.metrics {
        rows.push(MetricRow { metric, mark: None, estimate: &metric.all });
        if let Some(estimate) = &metric.beside_baseline {
            rows.push(MetricRow { metric, mark: Some(Mark::Baseline), estimate });
        }
    }
    rows
}

/// Returns whether a metric is compared relative to the baselines of the gates.
pub fn has_relative_metrics(comparison: &Comparison) -> bool {
    comparison.metrics.iter().any(|metric| metric.beside_baseline.is_some())
}

/// Describes how whole runs were compared.
pub fn metrics_method(comparison: &Comparison) -> String {
    let metrics = &comparison.metrics;
    let is_exact = metric_rows(comparison).iter().all(|row| row.estimate.exact);
    let interval = interval_kind(is_exact);
    if metrics.iter().all(|metric| metric.method == Method::PairedByRound) {
        format!("paired by run (signed-rank interval, {interval})")
    } else {
        format!("two gates, not paired (Mann-Whitney interval, {interval})")
    }
}

/// Describes how two subjects were compared.
pub fn subject_method(comparison: &SubjectComparison) -> String {
    let is_exact = percentile_rows(comparison).iter().all(|row| row.estimate.exact);
    let interval = interval_kind(is_exact);
    match comparison.method {
        Method::PairedByRound => format!("paired by round (signed-rank interval, {interval})"),
        Method::TwoRuns => format!("two runs, not paired (Mann-Whitney interval, {interval})"),
    }
}

fn interval_kind(is_exact: bool) -> &'static str {
    if is_exact { "exact" } else { "normal approximation" }
}

/// Formats the difference of an estimate with its interval. Positive numbers have a plus.
fn format_estimated_difference(estimate: &Estimate) -> String {
    let difference = format_difference(estimate.difference_ns);
    match estimate.difference_ns_ci95 {
        Some([low, high]) => format!("{difference} {}", format_difference_interval(low, high)),
        None => difference,
    }
}

fn format_ratio_of(estimate: &Estimate) -> String {
    format_ratio_with_interval(estimate.ratio, estimate.ratio_ci95)
}

/// Formats the rounds or runs of both sides, as one number if they are equal.
fn format_counts(a: u64, b: u64) -> String {
    if a == b { a.to_string() } else { format!("{a}/{b}") }
}

fn format_finding(finding: Finding) -> &'static str {
    match finding {
        Finding::NoDifferenceShown => "no difference shown",
        Finding::Later => "B is later",
        Finding::Earlier => "B is less late",
        Finding::Worse => "B is worse",
        Finding::Better => "B is better",
        Finding::TooFewRounds => "too few rounds for an interval",
        Finding::NotTrusted => "unreliable, because the machine itself was late there",
    }
}

/// Lists the findings of all percentiles.
pub fn findings_sentence(comparison: &SubjectComparison) -> String {
    let rows = percentile_rows(comparison);
    if rows.is_empty() {
        return "The rounds have too few ticks for any percentile.".to_owned();
    }
    group_findings(rows.iter().map(|row| (row.name(), row.estimate.finding)))
}

/// Lists findings with the names that have each of them.
pub fn group_findings(findings: impl Iterator<Item = (String, Finding)>) -> String {
    let mut groups: Vec<(Finding, Vec<String>)> = Vec::new();
    for (name, finding) in findings {
        match groups.iter_mut().find(|(group, _)| *group == finding) {
            Some((_, names)) => names.push(name),
            None => groups.push((finding, vec![name])),
        }
    }
    let mut sentences = Vec::new();
    for (finding, names) in groups {
        sentences.push(format!("{}: {}.", names.join(", "), format_finding(finding)));
    }
    sentences.join(" ")
}

/// Returns notes that help to interpret a comparison: the role of chance, and a remedy for missing
/// intervals.
pub fn footnotes(comparison: &Comparison) -> impl Iterator<Item = String> {
    [chance_note(comparison), few_rounds_note(comparison)].into_iter().flatten()
}

/// Returns a remedy if there are too few rounds or runs for an interval.
fn few_rounds_note(comparison: &Comparison) -> Option<String> {
    let is_few = |finding: Finding| finding == Finding::TooFewRounds;
    let mut rows = comparison.subjects.iter().flat_map(percentile_rows);
    if rows.any(|row| is_few(row.estimate.finding)) {
        return Some(format!(
            "An interval needs {MIN_ROUNDS} rounds of each side: measure again with more --ticks."
        ));
    }
    let mut metrics = metric_rows(comparison).into_iter();
    metrics.any(|row| is_few(row.estimate.finding)).then(|| {
        format!(
            "An interval needs {MIN_ROUNDS} runs of each side: gate again with more --max-pairs."
        )
    })
}

/// Counts the differences shown, if there are so many estimates that chance alone makes some.
fn chance_note(comparison: &Comparison) -> Option<String> {
    const MIN_ESTIMATES: usize = 10;
    let (mut different, mut total) = (0, 0);
    for row in comparison.subjects.iter().flat_map(percentile_rows) {
        match row.estimate.finding {
            Finding::TooFewRounds | Finding::NotTrusted => continue,
            Finding::NoDifferenceShown => {}
            _ => different += 1,
        }
        total += 1;
    }
    if different == 0 || total < MIN_ESTIMATES {
        return None;
    }
    let differ = if different == 1 { "differs" } else { "differ" };
    Some(format!(
        "{different} of {total} figures {differ} significantly; about one in twenty does by chance."
    ))
}

/// Describes stalls and steal on both sides. Empty if neither is known.
pub fn conditions_sentence(comparison: &SubjectComparison) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut text = String::new();
    if a.same_stall_share.is_some() || b.same_stall_share.is_some() {
        let (a, b) = (format_known(a.same_stall_share), format_known(b.same_stall_share));
        let _ = write!(text, "Ticks that belong to a stall already counted: A {a}, B {b}. ");
    }
    for percentile in &comparison.percentiles {
        let Some([a, b]) = percentile.lift else { continue };
        // Smaller lifts are shown as 0.0 %.
        if a.max(b) >= 1.000_5 {
            let name = percentile.name.replace('_', ".");
            let (a, b) = (format_percent(a - 1.0), format_percent(b - 1.0));
            let _ = write!(text, "Stalls raise {name} by {a} in A and {b} in B. ");
        }
    }
    if a.steal_share.is_some() || b.steal_share.is_some() {
        let (a, b) = (format_known(a.steal_share), format_known(b.steal_share));
        let _ = write!(text, "CPU time taken by the hypervisor: A {a}, B {b}.");
    }
    text.trim_end().to_owned()
}

fn format_known(share: Option<f64>) -> String {
    share.map_or("unknown".to_owned(), format_percent)
}

/// Describes the fitness of the machine for each side; once if both sides have the same.
pub fn fitness_notes(comparison: &Comparison) -> Vec<String> {
    let a = fitness::sentence(comparison.a.fitness.as_ref());
    let b = fitness::sentence(comparison.b.fitness.as_ref());
    if a == b {
        return a.into_iter().collect();
    }
    let a = a.map(|sentence| format!("A: {sentence}"));
    let b = b.map(|sentence| format!("B: {sentence}"));
    a.into_iter().chain(b).collect()
}

/// Warns that the comparison was forced although the conditions of the sides differ.
pub fn forced_warning(comparison: &Comparison) -> Option<String> {
    if comparison.forced.is_empty() {
        return None;
    }
    let differences = format_differences(&comparison.forced);
    Some(format!(
        "FORCED: not comparable: {differences}. These differences also affect the numbers."
    ))
}

pub fn format_differences(differences: &[Difference]) -> String {
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    differences.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(ratio: f64, ratio_ci95: Option<[f64; 2]>, finding: Finding) -> Estimate {
        Estimate {
            a_ns: 14_200,
            b_ns: 15_000,
            ratio,
            ratio_ci95,
            difference_ns: 800,
            difference_ns_ci95: ratio_ci95.map(|_| [-20, 1_300]),
            rounds_a: 40,
            rounds_b: 38,
            exact: true,
            finding,
        }
    }

    #[test]
    fn estimates_are_shown_with_intervals() {
        let estimate = estimate(1.0563, Some([0.9984, 12.345]), Finding::NoDifferenceShown);
        let mut row =
            PercentileRow { percentile: "p50".to_owned(), mark: None, estimate: &estimate };
        let cells = row.cells();
        assert_eq!(cells[3..], ["1.06 [0.998, 12.3]", "+800 ns [-20 ns, +1.30 us]", "40/38"]);
        assert_eq!(control_sentence(std::slice::from_ref(&row)), "");
        row.mark = Some(Mark::Control);
        assert_eq!(row.cells()[3..5], ["-", "+800 ns [-20 ns, +1.30 us]"]);
        let expected = "B/A as multiples of the control in the same run: p50 1.06 [0.998, 12.3].";
        assert_eq!(control_sentence(&[row]), expected);
    }

    #[test]
    fn missing_intervals_are_left_out() {
        let estimate = estimate(1.0563, None, Finding::TooFewRounds);
        let row = PercentileRow { percentile: "p50".to_owned(), mark: None, estimate: &estimate };
        assert_eq!(row.cells()[3..5], ["1.06", "+800 ns"]);
    }
}
