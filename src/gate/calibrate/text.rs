//! The formats of a calibration, and its table for the terminal.

use std::fmt::Write as _;

use cli::amount::format_amount;
use cli::time::format_time;
use cli::wrap::wrap_paragraph;
use files::file::File as _;
use files::gate::calibration::runs::{CalibratedRunMetric, RunCalibration};
use files::gate::calibration::{CalibratedMetric, Calibration, InconclusiveChance, RealGates};
use files::report::Warning;
use render::document::align::fit;

use crate::gate::text::format_change;
use crate::terminal;
use render::formats::{Format, Offer, Rendering};
use render::report::fitness;

/// The formats of a calibration.
pub const FORMATS: [Offer<Calibration>; 2] = [
    (Format::Table, |calibration| Ok(Rendering::Text(table(calibration, terminal::columns())))),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
];

/// The formats of a calibration of whole runs.
pub const RUN_FORMATS: [Offer<RunCalibration>; 2] = [
    (Format::Table, |calibration| Ok(Rendering::Text(run_table(calibration, terminal::columns())))),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
];

/// Formats a share with one decimal below 10 %, and none above.
fn format_percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// Formats a difference of logarithms as a rise in percent.
fn format_log_difference(ln: f64) -> String {
    format_percent(ln.exp_m1())
}

/// Describes the measurement, and why it ended early.
fn format_head(
    description: &str,
    failure: Option<&String>,
    is_partial: bool,
    columns: usize,
) -> String {
    let mut text = wrap_paragraph(description, columns);
    if let Some(failure) = failure {
        text += &wrap_paragraph(&format!("It could not go on: {failure}"), columns);
    } else if is_partial {
        text.push_str("Interrupted: this covers the pairs measured so far.\n");
    }
    text.push('\n');
    text
}

/// Formats the table, the sentences below it, and the warnings.
fn format_body(
    rows: &[Vec<String>],
    sentences: &[String],
    warnings: &[Warning],
    columns: usize,
) -> String {
    let mut text = String::new();
    if rows.len() > 1 {
        text += &fit(rows, columns);
        text.push('\n');
    }
    for sentence in sentences.iter().filter(|sentence| !sentence.is_empty()) {
        text += &wrap_paragraph(sentence, columns);
    }
    for warning in warnings {
        text += &wrap_paragraph(&format!("{} {}", warning.message, warning.hint), columns);
    }
    text
}

/// Renders the changes that a gate can detect, look by look.
fn table(calibration: &Calibration, columns: usize) -> String {
    let plan = &calibration.plan;
    let seconds = calibration.duration_ns as f64 / 1e9;
    let cpu = plan.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    let (subject, pairs) = (&calibration.subject, calibration.pairs);
    let description =
        format!("{subject} against itself: {pairs} pairs of rounds in {seconds:.0}s{cpu}");
    let steal = calibration.steal_share;
    let steal =
        steal.map_or(String::new(), |s| format!(" Of all CPUs stolen: {}.", format_percent(s)));
    let stalls = format_percent(calibration.same_stall_share);
    let metrics: Vec<DetectableChanges> =
        calibration.metrics.iter().map(DetectableChanges::from).collect();
    let mut sentences = vec![
        detection_sentence("at", &metrics),
        inconclusive_sentence(&calibration.inconclusive),
        false_alarm_sentence(plan.alpha, &calibration.real_gates),
        format!("Ticks inside a stall already counted: {stalls}.{steal}"),
    ];
    sentences.extend(fitness::sentence(calibration.fitness.as_ref()));
    format_head(&description, calibration.failure.as_ref(), calibration.partial, columns)
        + &format_body(&rows(calibration), &sentences, &calibration.warnings, columns)
}

/// Renders the changes that a gate of whole runs can detect, look by look.
fn run_table(calibration: &RunCalibration, columns: usize) -> String {
    let (plan, program, pairs) = (&calibration.plan, &calibration.program, calibration.pairs);
    let seconds = calibration.duration_ns as f64 / 1e9;
    let cpu = plan.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    let description =
        format!("{program} against itself: {pairs} pairs of runs in {seconds:.0}s{cpu}");
    let metrics: Vec<DetectableChanges> =
        calibration.metrics.iter().map(DetectableChanges::from).collect();
    let sentences = [
        detection_sentence("in", &metrics),
        inconclusive_sentence(&calibration.inconclusive),
        false_alarm_sentence(plan.alpha, &calibration.real_gates),
    ];
    format_head(&description, calibration.failure.as_ref(), calibration.partial, columns)
        + &format_body(&run_rows(&calibration.metrics), &sentences, &calibration.warnings, columns)
}

/// Builds a row with a cell for each metric.
fn row<T>(name: &str, metrics: &[T], cell: impl Fn(&T) -> String) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(metrics.iter().map(cell)).collect()
}

/// Names the row of a look.
fn look_name(pairs: u64, after_ns: u64) -> String {
    format!("  at {pairs} pairs, {:.0}s", after_ns as f64 / 1e9)
}

fn run_rows(metrics: &[CalibratedRunMetric]) -> Vec<Vec<String>> {
    let mut rows = vec![row("", metrics, |metric| metric.name.clone())];
    let Some(first) = metrics.first() else { return rows };
    rows.extend([
        row("median run", metrics, |metric| format_amount(metric.median, &metric.unit)),
        row("the runs of a pair differ by (sd)", metrics, |metric| {
            format_log_difference(metric.spread)
        }),
        row("  in the quieter half of the pairs", metrics, |metric| {
            format_log_difference(metric.spread_quiet_half)
        }),
        row("smallest change that is detected", metrics, |_| String::new()),
    ]);
    for (i, look) in first.smallest_change.iter().enumerate() {
        let name = look_name(look.pairs, look.after_ns);
        rows.push(row(&name, metrics, |metric| run_change_cell(metric, i)));
    }
    rows
}

fn run_change_cell(metric: &CalibratedRunMetric, look: usize) -> String {
    metric.smallest_change.get(look).map_or("-".to_owned(), |change| {
        let difference = format_amount(change.difference, &metric.unit);
        format!("{} = {difference}", format_change(change.ratio))
    })
}

fn rows(calibration: &Calibration) -> Vec<Vec<String>> {
    let metrics = &calibration.metrics[..];
    let Some(first) = metrics.first() else { return Vec::new() };
    let mut rows = vec![
        row("", metrics, |metric| metric.name.clone()),
        row("median round", metrics, |metric| format_time(metric.median_ns)),
        row("the rounds of a pair differ by (sd)", metrics, |metric| {
            format_log_difference(metric.spread)
        }),
    ];
    if metrics.iter().any(|metric| metric.spread_quiet_half.is_some()) {
        rows.push(row("  in the quieter half of the pairs", metrics, |metric| {
            metric.spread_quiet_half.map_or(String::new(), format_log_difference)
        }));
    }
    rows.push(row("smallest change that is detected", metrics, |_| String::new()));
    for (i, look) in first.smallest_change.iter().enumerate() {
        let name = look_name(look.pairs, look.after_ns);
        rows.push(row(&name, metrics, |metric| change_cell(metric, i)));
    }
    rows
}

fn change_cell(metric: &CalibratedMetric, look: usize) -> String {
    metric.smallest_change.get(look).map_or("-".to_owned(), |change| {
        let rise = format_percent(change.ratio - 1.0);
        format!("+{rise} = {}", format_time(change.difference_ns))
    })
}

/// The smallest changes of a metric that a gate detects, look by look.
struct DetectableChanges<'a> {
    name: &'a str,
    looks: Vec<DetectableChange>,
}

/// The smallest change that a gate detects at a look.
struct DetectableChange {
    /// Expected time until the look.
    after_ns: u64,
    /// The change as a share.
    share: f64,
}

impl<'a> From<&'a CalibratedMetric> for DetectableChanges<'a> {
    fn from(metric: &'a CalibratedMetric) -> Self {
        let looks = metric.smallest_change.iter().map(|change| DetectableChange {
            after_ns: change.after_ns,
            share: change.ratio - 1.0,
        });
        Self { name: &metric.name, looks: looks.collect() }
    }
}

impl<'a> From<&'a CalibratedRunMetric> for DetectableChanges<'a> {
    fn from(metric: &'a CalibratedRunMetric) -> Self {
        let looks = metric.smallest_change.iter().map(|change| DetectableChange {
            after_ns: change.after_ns,
            share: (change.ratio - 1.0).abs(),
        });
        Self { name: &metric.name, looks: looks.collect() }
    }
}

/// Describes the changes that a gate detects in an acceptable time. Empty if no look was
/// calibrated. `preposition` precedes the name of a metric.
fn detection_sentence(preposition: &str, metrics: &[DetectableChanges<'_>]) -> String {
    const ACCEPTABLE_WAIT_NS: u64 = 45_000_000_000;
    let Some(looks) = metrics.first().map(|metric| &metric.looks) else { return String::new() };
    let latest = looks.iter().rposition(|look| look.after_ns <= ACCEPTABLE_WAIT_NS).unwrap_or(0);
    let Some(DetectableChange { after_ns, .. }) = looks.get(latest) else { return String::new() };
    let format_metric = |metric: &DetectableChanges<'_>| {
        let change = metric.looks.get(latest)?;
        Some(format!("{} {preposition} {}", format_percent(change.share), metric.name))
    };
    let changes: Vec<String> = metrics.iter().filter_map(format_metric).collect();
    let changes = match &changes[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => changes.concat(),
    };
    let seconds = *after_ns as f64 / 1e9;
    format!(
        "On this machine, a gate of {seconds:.0} s detects a change of {changes}, 95 times in 100."
    )
}

fn inconclusive_sentence(chances: &[InconclusiveChance]) -> String {
    if chances.iter().all(|chance| chance.share.is_none()) {
        return String::new();
    }
    let format_chance = |InconclusiveChance { share, seconds, .. }: &InconclusiveChance| match share
    {
        Some(share) => format!("{} in {seconds}s", format_percent(*share)),
        None => format!("always in {seconds}s, which is too short for a look"),
    };
    let chances: Vec<String> = chances.iter().map(format_chance).collect();
    let chances = chances.join(", ");
    format!("Without a change a gate ends undecided: {chances} (at the default tolerances).")
}

fn false_alarm_sentence(alpha: f64, real: &RealGates) -> String {
    let mut text = format!("False alarms by design: at most {}. ", format_percent(alpha));
    let RealGates { gates, passed, regressed, inconclusive, .. } = real;
    if *gates == 0 {
        text.push_str("No real gate finished in this time; a rate needs 100.");
        return text;
    }
    let _ = write!(
        text,
        "Real gates in this time: {gates} ({passed} passed, {regressed} false alarms, {inconclusive} open)"
    );
    match (real.false_alarm_rate, real.false_alarm_rate_upper95) {
        (Some(rate), Some(upper)) => {
            let _ = write!(
                text,
                ", a rate of {}, with 95 % confidence below {}.",
                format_percent(rate),
                format_percent(upper)
            );
        }
        _ => text.push_str(": too few to claim a rate, which needs 100."),
    }
    text
}
