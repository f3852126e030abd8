//! The sections of a verdict: the answer to each of its questions.

use std::collections::BTreeSet;
use std::time::Duration;

use cli::amount::format_amount;
use cli::printable::to_printable_line;
use cli::time::{format_duration, format_rate, format_time};
use cli::units::format_rounded_duration;
use cli::words::{group_digits, pluralize, prefix_or_empty};
use files::gate::baseline::MAX_SESSIONS;
use files::gate::verdict::{
    BaselineMetric, BaselineVerdict, JudgedNumber, LimitCheck, Metric, Mode, PairVerdict,
    RateBounds, RunMetric, RunsVerdict, SameProgram, UnjudgedBench, Verdict,
};
use jitterstat::gate::decision::{Outcome, Reason};
use render::document::Document;

use crate::gate::args::MAX_PAIRS;
use crate::gate::text::formats::table;
use crate::gate::text::metric_row::MetricView;
use crate::gate::text::{
    Explanation, PercentileLift, RenderedVerdict, Row, Section, Title, UnjudgedRow, format_change,
    format_confidence, format_option, format_range,
};

impl From<Verdict> for RenderedVerdict {
    /// Describes the answers of a verdict, in the order in which they were measured.
    fn from(verdict: Verdict) -> Self {
        let mut sections: Vec<Section> = verdict.comparisons.iter().map(pair_section).collect();
        sections.extend(verdict.runs.as_ref().map(runs_section));
        sections.extend(verdict.baseline.as_ref().map(baseline_section));
        sections.extend(limit_sections(&verdict.limits));
        number_repeated_cases(&mut sections);
        Self { verdict, sections }
    }
}

/// Numbers the test cases of the same name, from the second one: two questions can be about the same
/// number of a subject, and a tool that reads JUnit or SARIF keeps one result per name.
fn number_repeated_cases(sections: &mut [Section]) {
    let mut names = BTreeSet::new();
    for row in sections.iter_mut().flat_map(|section| &mut section.rows) {
        let first = row.case.clone();
        for number in 2.. {
            if names.insert((row.class.clone(), row.case.clone())) {
                break;
            }
            row.case = format!("{first} ({number})");
        }
    }
}

/// Describes a comparison of two sides by pairs of rounds.
fn pair_section(verdict: &PairVerdict) -> Section {
    let PairVerdict { a, b, pairs, mode, .. } = verdict;
    let seconds = verdict.duration_ns as f64 / 1e9;
    let looks = pluralize(verdict.looks_taken, "look");
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    let mut lifts = Vec::new();
    for metric in &verdict.metrics {
        let Metric { name, judged, lift, .. } = metric;
        let medians = vec![format_time(metric.a_ns), format_time(metric.b_ns)];
        let view = MetricView { name, judged, lift: lift.as_ref() };
        rows.push(view.row(b, name, medians));
        notes.extend(metric_notes(metric, *pairs));
        lifts.extend(lift.as_ref().map(|lift| PercentileLift::new(name, lift)));
    }
    Section {
        title: Title::from_sides(a, b),
        key_heading: "percentile",
        headings: vec!["median A", "median B", "change", "interval", "tolerated"],
        rows,
        notes,
        measured: format!("{pairs} pairs of rounds {mode}, {looks}, {seconds:.1}s"),
        sides: verdict.sides.clone(),
        lifts,
        unjudged: Vec::new(),
        advice: pair_advice(verdict),
    }
}

/// Explains a row whose numbers seem to contradict each other.
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

/// Suggests how an inconclusive comparison could be decided.
///
/// Returns `None` if the comparison is decided or was cut short.
fn pair_advice(verdict: &PairVerdict) -> Option<String> {
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
    // Only subjects, which have a period in their names, can run at once.
    let has_subjects = verdict.plan.cpu.is_some() && verdict.a.contains('@');
    let can_use_duet = verdict.mode == Mode::Interleaved && has_subjects;
    let duet_hint = if can_use_duet { ", or try --duet" } else { "" };
    let metrics = verdict.metrics.iter().map(|metric| (&metric.judged, metric.pairs_to_decide));
    let Some(pairs) = pairs_to_decide(metrics) else {
        return Some(format!(
            "more pairs would not decide it here: a quieter machine would, or a wider --tolerance {}=…%{duet_hint}",
            first.name
        ));
    };
    let pair_seconds = verdict.duration_ns as f64 / 1e9 / verdict.pairs as f64;
    let more = more_pairs(pairs, verdict.pairs, &verdict.plan.looks, pair_seconds, "rounds");
    Some(format!("{} would probably decide it: {}{duet_hint}", more.pairs, more.flag))
}

/// More pairs than were measured, as an advice.
struct MorePairs {
    pairs: String,
    flag: String,
}

/// Describes the pairs at which a gate would decide that needs `needed` and ended after `measured`
/// pairs: those of a planned look that it did not reach, or more than planned.
fn more_pairs(
    needed: u64,
    measured: u64,
    looks: &[u64],
    pair_seconds: f64,
    noun: &str,
) -> MorePairs {
    let missed_look = looks.iter().copied().find(|&look| look > measured && look >= needed);
    let pairs = missed_look.unwrap_or(needed);
    let flag = match missed_look {
        Some(_) => "a longer --max-time".to_owned(),
        None => format!("--max-pairs {pairs}"),
    };
    let duration = format_duration(pair_seconds * pairs as f64);
    MorePairs { pairs: format!("about {pairs} pairs of {noun} ({duration})"), flag }
}

/// Returns the number of pairs that would decide every open metric, given that of each. `None` if
/// one of them needs more than a gate allows.
fn pairs_to_decide<'a>(
    metrics: impl Iterator<Item = (&'a JudgedNumber, Option<u64>)>,
) -> Option<u64> {
    let is_undecided = |judged: &JudgedNumber| {
        judged.is_inconclusive()
            && matches!(judged.reason, Some(Reason::TooNoisy | Reason::TooFewRounds))
    };
    let undecided = metrics.filter(|(judged, _)| is_undecided(judged));
    let needed: Option<Vec<u64>> =
        undecided.map(|(_, pairs)| pairs.filter(|&pairs| pairs <= MAX_PAIRS)).collect();
    needed?.into_iter().max()
}

/// Describes a comparison of two programs by whole runs.
fn runs_section(verdict: &RunsVerdict) -> Section {
    let RunsVerdict { a, b, pairs, .. } = verdict;
    let seconds = verdict.duration_ns as f64 / 1e9;
    let looks = pluralize(verdict.looks_taken, "look");
    let row = |metric: &RunMetric| {
        let medians = [metric.a, metric.b].map(|value| format_amount(value, &metric.unit));
        let name = &to_printable_line(&metric.name);
        let view = MetricView { name, judged: &metric.judged, lift: None };
        view.row(b, name, medians.into())
    };
    Section {
        title: Title::from_sides(a, b),
        key_heading: "metric",
        headings: vec!["median A", "median B", "change", "interval", "tolerated"],
        rows: verdict.metrics.iter().map(row).collect(),
        measured: match &verdict.same_program {
            Some(same) => describe_same_program(same),
            None => format!("{pairs} pairs of runs, {looks}, {seconds:.1}s"),
        },
        sides: Vec::new(),
        notes: Vec::new(),
        lifts: Vec::new(),
        unjudged: verdict.unjudged.iter().map(|bench| unjudged_row(bench, b)).collect(),
        advice: runs_advice(verdict),
    }
}

/// Describes why nothing was measured.
fn describe_same_program(same: &SameProgram) -> String {
    let files = match same.opened_files {
        0 => "open no file of their trees".to_owned(),
        files => format!("open equal files of their trees ({files})"),
    };
    format!(
        "Not measured: both executables are the same byte by byte, and {files}. --measure-equal measures them."
    )
}

fn unjudged_row(bench: &UnjudgedBench, class: &str) -> UnjudgedRow {
    UnjudgedRow {
        name: to_printable_line(&bench.name),
        class: class.to_owned(),
        explanation: to_printable_line(&bench.to_string()),
        is_allowed: bench.allowed,
    }
}

/// Suggests what would decide an inconclusive verdict: other numbers if none was judged, or more
/// pairs.
fn runs_advice(verdict: &RunsVerdict) -> Option<String> {
    // More pairs do not help a gate that was interrupted, or whose program fails or leaves work
    // behind.
    let is_cut = matches!(
        verdict.reason,
        Some(Reason::Interrupted | Reason::NotMeasured | Reason::LeftOverProcesses)
    );
    if verdict.verdict != Outcome::Inconclusive || verdict.pairs == 0 || is_cut {
        return None;
    }
    if verdict.metrics.is_empty() {
        return Some(
            "the runs ended early, because more of them would not change that; give the benchmarks more to \
             do, or judge another of their numbers with --metric"
                .to_owned(),
        );
    }
    let metrics = verdict.metrics.iter().map(|metric| (&metric.judged, metric.pairs_to_decide));
    let pairs = pairs_to_decide(metrics)?;
    let pair_seconds = verdict.duration_ns as f64 / 1e9 / verdict.pairs as f64;
    let RunsVerdict { a, b, plan, .. } = verdict;
    let more = more_pairs(pairs, verdict.pairs, &plan.looks, pair_seconds, "runs");
    Some(format!("{} would probably decide {b} against {a}: {}", more.pairs, more.flag))
}

/// Headings of a comparison with stored sessions.
const BASELINE_HEADINGS: [&str; 6] =
    ["control", "stored", "now", "change", "interval", "tolerated"];

/// Describes the percentiles of a session, compared with the stored ones.
pub fn baseline_document(metrics: &[BaselineMetric]) -> Document {
    let rows: Vec<Row> = metrics.iter().map(|metric| baseline_row(metric, "")).collect();
    let mut document = Document::new();
    let rows: Vec<&Row> = rows.iter().collect();
    document.table(table("percentile", &BASELINE_HEADINGS, &rows, |outcome| outcome.to_string()));
    document
}

fn baseline_row(metric: &BaselineMetric, subject: &str) -> Row {
    let case = format!("{} against stored sessions", metric.name);
    let values = vec![
        format_time(metric.control_ns),
        format_option(metric.stored_ns, format_time),
        format_time(metric.now_ns),
    ];
    let view =
        MetricView { name: &metric.name, judged: &metric.judged, lift: metric.lift.as_ref() };
    view.row(subject, &case, values)
}

/// Describes a comparison with stored sessions.
fn baseline_section(verdict: &BaselineVerdict) -> Section {
    let BaselineVerdict { file, subject, control, pairs, .. } = verdict;
    let seconds = verdict.duration_ns as f64 / 1e9;
    let sessions = pluralize(verdict.sessions, "session");
    let title = format!("{subject} over its control {control}, against {sessions} of {file}");
    let mut rows = Vec::new();
    let mut lifts = Vec::new();
    for metric in &verdict.metrics {
        rows.push(baseline_row(metric, subject));
        lifts.extend(metric.lift.as_ref().map(|lift| PercentileLift::new(&metric.name, lift)));
    }
    Section {
        title: Title::Subject(title),
        key_heading: "percentile",
        headings: BASELINE_HEADINGS.to_vec(),
        rows,
        measured: format!("{pairs} pairs of rounds {}, {seconds:.1}s", Mode::Interleaved),
        notes: Vec::new(),
        sides: verdict.sides.clone(),
        lifts,
        unjudged: Vec::new(),
        advice: (verdict.reason == Some(Reason::TooNoisy)).then(|| baseline_advice(verdict)),
    }
}

fn baseline_advice(verdict: &BaselineVerdict) -> String {
    let BaselineVerdict { file, pairs, sessions, .. } = verdict;
    let more_sessions = if *sessions < MAX_SESSIONS as u64 {
        format!(" or more than {sessions} stored sessions (osjitter gate baseline add {file})")
    } else {
        String::new()
    };
    format!("more than {pairs} pairs of rounds (--max-pairs){more_sessions} can narrow it")
}

/// Describes limits: those on numbers, and those on the rate of missed ticks.
fn limit_sections(checks: &[LimitCheck]) -> Vec<Section> {
    let Some(first) = checks.first() else { return Vec::new() };
    let (ticks, rounds) = (pluralize(first.ticks, "tick"), pluralize(first.rounds, "round"));
    let title = || Title::Subject(format!("{}, {ticks} in {rounds}", first.subject));
    let (rates, values): (Vec<&LimitCheck>, Vec<&LimitCheck>) =
        checks.iter().partition(|check| check.rate.is_some());
    let mut sections = Vec::new();
    if !values.is_empty() {
        sections.push(Section {
            title: title(),
            key_heading: "limited",
            headings: vec!["limit", "value", "99 % interval"],
            rows: values.iter().map(|check| value_row(check)).collect(),
            notes: Vec::new(),
            measured: String::new(),
            sides: Vec::new(),
            lifts: Vec::new(),
            unjudged: Vec::new(),
            advice: limit_advice(&values),
        });
    }
    if !rates.is_empty() {
        sections.push(Section {
            title: title(),
            key_heading: "rate",
            headings: vec!["limit", "missed", "bound"],
            rows: rates.iter().map(|check| rate_row(check)).collect(),
            notes: rates
                .iter()
                .filter_map(|check| stall_note(check.rate.as_ref()?))
                .take(1)
                .collect(),
            measured: String::new(),
            sides: Vec::new(),
            lifts: Vec::new(),
            unjudged: Vec::new(),
            advice: limit_advice(&rates),
        });
    }
    sections
}

fn value_row(check: &LimitCheck) -> Row {
    let format = |value: f64| match &check.unit[..] {
        "ns" => format_time(value.round() as i64),
        unit => format!("{value:.3} {unit}"),
    };
    let (limit, value) = (format(check.limit), format_option(check.value, format));
    let interval = format_option(check.interval, |[low, high]| format_range(low, high, format));
    let path = &check.path;
    let reason = unshown_reason(check);
    let sentence = format!("{path} {value} ({interval}), limit {limit}{reason}");
    Row {
        name: path.clone(),
        class: check.subject.clone(),
        case: format!("{path} at most {limit}"),
        verdict: check.verdict,
        explanation: Explanation::Sentence(sentence),
        cells: vec![limit, value, interval],
    }
}

/// Returns the reason of an inconclusive limit, unless its numbers show it: they contain the limit.
fn unshown_reason(check: &LimitCheck) -> String {
    let is_shown = |reason: &Reason| match reason {
        Reason::TooNoisy => true,
        Reason::TooFewTicks => check.rate.is_some(),
        _ => false,
    };
    prefix_or_empty(": ", check.reason.filter(|reason| !is_shown(reason)))
}

fn rate_row(check: &LimitCheck) -> Row {
    let path = &check.path;
    let limit = format_rate(check.limit / 100.0);
    let (missed, bound, sentence) = match &check.rate {
        Some(bounds) => {
            let (missed, ticks) = (group_digits(bounds.missed), group_digits(check.ticks));
            let missed = format!("{missed} of {ticks} ticks");
            let bound = format_bound(bounds, check.verdict);
            let after = format_duration(bounds.measured_ns as f64 / 1e9);
            let assumed = bounds.max_stall_ns.map_or(String::new(), |ns| {
                format!("; no stall above {}", format_rounded_duration(Duration::from_nanos(ns)))
            });
            let reason = unshown_reason(check);
            let sentence =
                format!("{path}: {bound} after {after} ({missed}{assumed}), limit {limit}{reason}");
            (missed, bound, sentence)
        }
        None => {
            let none = || "none".to_owned();
            (none(), none(), format!("{path}: not measured, limit {limit}"))
        }
    };
    Row {
        name: path.clone(),
        class: check.subject.clone(),
        case: format!("{path} below {limit}"),
        verdict: check.verdict,
        explanation: Explanation::Sentence(sentence),
        cells: vec![limit, missed, bound],
    }
}

/// Describes the stalls for which the bounds of a rate hold.
fn stall_note(bounds: &RateBounds) -> Option<String> {
    let stall = format_rounded_duration(Duration::from_nanos(bounds.max_stall_ns?));
    Some(format!(
        "The upper bound assumes that no stall is longer than {stall} and that stalls are independent."
    ))
}

/// Formats the bound that decided, with its confidence, or both bounds.
fn format_bound(bounds: &RateBounds, verdict: Outcome) -> String {
    let [lower, upper] = [bounds.lower, bounds.upper].map(format_rate);
    let [below, above] = [bounds.upper_confidence, bounds.lower_confidence].map(format_confidence);
    match verdict {
        Outcome::Pass => format!("below {upper} with {below} % confidence"),
        Outcome::LimitBroken => format!("above {lower} with {above} % confidence"),
        _ if bounds.lower > 0.0 => {
            format!("above {lower} ({above} %), below {upper} ({below} %)")
        }
        _ => format!("below {upper} with {below} % confidence"),
    }
}

/// Suggests how many ticks would decide the inconclusive limits.
fn limit_advice(limits: &[&LimitCheck]) -> Option<String> {
    let slowest = limits.iter().max_by_key(|check| check.ticks_to_decide)?;
    let Some(ticks) = slowest.ticks_to_decide else {
        return limits.iter().find_map(|check| advice_without_number(check));
    };
    let seconds = slowest.period_ns.map(|period| (period as f64 * ticks as f64 / 1e9).ceil());
    let duration = seconds.map_or(String::new(), |seconds| format!(" ({seconds:.0}s)"));
    let about =
        format!("about {}{duration} would probably decide the limits", pluralize(ticks, "tick"));
    Some(match &slowest.report {
        Some(_) => format!("a report of {about}"),
        None => format!("{about}: --ticks {ticks}"),
    })
}

/// Suggests what would decide an inconclusive limit for which no number of ticks is known.
fn advice_without_number(check: &LimitCheck) -> Option<String> {
    // A rate is judged by its rounds, which become no more if they are longer.
    let needed = match (check.reason?, &check.rate) {
        (Reason::TooFewRounds, _) | (Reason::TooFewTicks, Some(_)) => "rounds",
        (Reason::TooFewTicks | Reason::TooNoisy, None) => "ticks",
        _ => return None,
    };
    let more = match &check.report {
        Some(_) => format!("a report of more {needed}"),
        None => "more --ticks".to_owned(),
    };
    let assumes_no_stall = check.rate.as_ref().is_some_and(|rate| rate.max_stall_ns.is_none());
    let or_stall = if assumes_no_stall { ", or --max-stall," } else { "" };
    Some(format!("{more}{or_stall} would probably decide the limits"))
}

#[cfg(test)]
mod tests {
    use files::gate::verdict::RunPlan;

    use super::*;

    #[test]
    fn more_pairs_reach_planned_look() {
        let advice = |needed, measured, looks: &[u64]| {
            let more = more_pairs(needed, measured, looks, 0.1, "runs");
            format!("{}: {}", more.pairs, more.flag)
        };
        let looks = [50, 100, 200];
        let next = "about 100 pairs of runs (10s): a longer --max-time";
        assert_eq!(advice(60, 50, &looks), next);
        // 24 pairs are no look.
        let first = "about 50 pairs of runs (5s): a longer --max-time";
        assert_eq!(advice(24, 9, &looks), first);
        assert_eq!(advice(24, 30, &looks), first);
        let more = "about 260 pairs of runs (26s): --max-pairs 260";
        assert_eq!(advice(260, 200, &looks), more);
    }

    /// A gate refuses more pairs than its maximum, and some numbers are decided by no more pairs.
    #[test]
    fn advised_pairs_decide_every_number() {
        let metric = |pairs_to_decide| RunMetric {
            name: "wall".to_owned(),
            unit: "ns".to_owned(),
            higher_is_better: false,
            judged: JudgedNumber {
                verdict: Outcome::Inconclusive,
                reason: Some(Reason::TooNoisy),
                ratio: None,
                ratio_interval: None,
                tolerated_ratio: 1.05,
            },
            a: 1.0,
            b: 1.0,
            pairs: 12,
            pairs_to_decide,
            values: Vec::new(),
        };
        let plan = RunPlan {
            warmup_runs: 1,
            prepare: None,
            seed: 1,
            cpu: None,
            alpha: 0.005,
            looks: vec![24],
        };
        let advice = |numbers: &[Option<u64>]| {
            runs_advice(&RunsVerdict {
                a: "a".to_owned(),
                b: "b".to_owned(),
                duration_ns: 1,
                verdict: Outcome::Inconclusive,
                reason: Some(Reason::TooNoisy),
                plan: plan.clone(),
                pairs: 24,
                looks_taken: 1,
                metrics: numbers.iter().copied().map(metric).collect(),
                unjudged: Vec::new(),
                same_program: None,
            })
        };
        let most = advice(&[Some(90), Some(MAX_PAIRS)]).expect("an advice");
        assert!(most.ends_with("would probably decide b against a: --max-pairs 6400"), "{most}");
        assert_eq!(advice(&[Some(90), Some(MAX_PAIRS + 1)]), None);
        assert_eq!(advice(&[Some(90), None]), None);
    }
}
