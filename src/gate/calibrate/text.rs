//! A calibration for the terminal.

use std::fmt::Write as _;

use cli::align::fit;
use cli::amount::format_amount;
use cli::time::format_time;
use cli::wrap::wrap_paragraph;
use files::file::File as _;
use files::gate::calibration::runs::{CalibratedRunMetric, RunCalibration};
use files::gate::calibration::{CalibratedMetric, Calibration, InconclusiveChance, RealGates};
use files::report::Warning;

use crate::gate::text::change;
use crate::render::fitness;
use crate::render::formats::{Format, Offer, Rendering};
use crate::terminal;

/// The formats of a calibration.
pub const FORMATS: [Offer<Calibration>; 2] = [
    (Format::Table, |calibration| Ok(Rendering::Text(table(calibration, terminal::columns())))),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
];

/// The formats of a calibration of whole runs.
pub const RUN_FORMATS: [Offer<RunCalibration>; 2] = [
    (Format::Table, |calibration| {
        Ok(Rendering::Text(table_of_runs(calibration, terminal::columns())))
    }),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
];

fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// A difference of logarithms as a rise.
fn apart(ln: f64) -> String {
    percent(ln.exp_m1())
}

/// What was run, for how long, and what kept it from its end.
fn head(what: &str, failure: Option<&String>, is_partial: bool, columns: usize) -> String {
    let mut text = wrap_paragraph(what, columns);
    if let Some(failure) = failure {
        text += &wrap_paragraph(&format!("It could not go on: {failure}"), columns);
    } else if is_partial {
        text.push_str("Interrupted: this covers the pairs measured so far.\n");
    }
    text.push('\n');
    text
}

/// Rows, sentences, warnings.
fn body(rows: &[Vec<String>], said: &[String], warnings: &[Warning], columns: usize) -> String {
    let mut text = String::new();
    if rows.len() > 1 {
        text += &fit(rows, columns);
        text.push('\n');
    }
    text.extend(
        said.iter().filter(|says| !says.is_empty()).map(|says| wrap_paragraph(says, columns)),
    );
    text.extend(
        warnings.iter().map(|w| wrap_paragraph(&format!("{} {}", w.message, w.hint), columns)),
    );
    text
}

/// What a gate can see, look by look.
fn table(calibration: &Calibration, columns: usize) -> String {
    let plan = &calibration.plan;
    let seconds = calibration.duration_ns as f64 / 1e9;
    let cpu = plan.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    let (subject, pairs) = (&calibration.subject, calibration.pairs);
    let what = format!("{subject} against itself: {pairs} pairs of rounds in {seconds:.0}s{cpu}");
    let steal = calibration
        .steal_share
        .map_or(String::new(), |s| format!(" Of all CPUs stolen: {}.", percent(s)));
    let stalls = percent(calibration.same_stall_share);
    let looks = |m: &CalibratedMetric| {
        m.smallest_change.iter().map(|c| (c.after_ns, c.ratio - 1.0)).collect()
    };
    let metrics: Vec<_> = calibration.metrics.iter().map(|m| (m.name.as_str(), looks(m))).collect();
    let mut said = vec![
        seen("at", &metrics),
        undecided(&calibration.inconclusive),
        false_alarms(plan.alpha, &calibration.real_gates),
        format!("Ticks inside a stall already counted: {stalls}.{steal}"),
    ];
    said.extend(fitness::sentence(calibration.fitness.as_ref()));
    head(&what, calibration.failure.as_ref(), calibration.partial, columns)
        + &body(&rows(calibration), &said, &calibration.warnings, columns)
}

/// What a gate of whole runs can see, look by look.
fn table_of_runs(calibration: &RunCalibration, columns: usize) -> String {
    let (plan, program, pairs) = (&calibration.plan, &calibration.program, calibration.pairs);
    let seconds = calibration.duration_ns as f64 / 1e9;
    let cpu = plan.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    let what = format!("{program} against itself: {pairs} pairs of runs in {seconds:.0}s{cpu}");
    let looks = |m: &CalibratedRunMetric| {
        m.smallest_change.iter().map(|c| (c.after_ns, (c.ratio - 1.0).abs())).collect()
    };
    let metrics: Vec<_> = calibration.metrics.iter().map(|m| (m.name.as_str(), looks(m))).collect();
    let said = [
        seen("in", &metrics),
        undecided(&calibration.inconclusive),
        false_alarms(plan.alpha, &calibration.real_gates),
    ];
    head(&what, calibration.failure.as_ref(), calibration.partial, columns)
        + &body(&rows_of_runs(&calibration.metrics), &said, &calibration.warnings, columns)
}

fn rows_of_runs(metrics: &[CalibratedRunMetric]) -> Vec<Vec<String>> {
    let row = |name: &str, cells: Vec<String>| [vec![name.to_owned()], cells].concat();
    let all = |cell: &dyn Fn(&CalibratedRunMetric) -> String| metrics.iter().map(cell).collect();
    let mut rows = vec![row("", all(&|m| m.name.clone()))];
    if metrics.is_empty() {
        return rows;
    }
    rows.push(row("median run", all(&|m| format_amount(m.median, &m.unit))));
    rows.push(row("the runs of a pair differ by (sd)", all(&|m| apart(m.spread))));
    rows.push(row("  in the quieter half of the pairs", all(&|m| apart(m.spread_quiet_half))));
    rows.push(row("smallest change that is seen", all(&|_| String::new())));
    for (i, look) in metrics[0].smallest_change.iter().enumerate() {
        let name = format!("  at {} pairs, {:.0}s", look.pairs, look.after_ns as f64 / 1e9);
        let seen = |m: &CalibratedRunMetric| {
            let found = m.smallest_change.get(i);
            found.map_or("-".to_owned(), |c| {
                format!("{} = {}", change(c.ratio), format_amount(c.difference, &m.unit))
            })
        };
        rows.push(row(&name, all(&seen)));
    }
    rows
}

fn rows(calibration: &Calibration) -> Vec<Vec<String>> {
    let metrics = &calibration.metrics;
    let row = |name: &str, cells: Vec<String>| [vec![name.to_owned()], cells].concat();
    if metrics.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![
        row("", metrics.iter().map(|m| m.name.clone()).collect()),
        row("median round", metrics.iter().map(|m| format_time(m.median_ns)).collect()),
        row(
            "the rounds of a pair differ by (sd)",
            metrics.iter().map(|m| apart(m.spread)).collect(),
        ),
    ];
    if metrics.iter().any(|m| m.spread_quiet_half.is_some()) {
        let quiet = metrics.iter().map(|m| m.spread_quiet_half.map_or(String::new(), apart));
        rows.push(row("  in the quieter half of the pairs", quiet.collect()));
    }
    rows.push(row("smallest change that is seen", vec![String::new(); metrics.len()]));
    for (i, look) in metrics[0].smallest_change.iter().enumerate() {
        let name = format!("  at {} pairs, {:.0}s", look.pairs, look.after_ns as f64 / 1e9);
        let cells = metrics.iter().map(|m| {
            let change = m.smallest_change.get(i);
            change.map_or("-".to_owned(), |c| {
                format!("+{} = {}", percent(c.ratio - 1.0), format_time(c.difference_ns))
            })
        });
        rows.push(row(&name, cells.collect()));
    }
    rows
}

/// What a gate sees in a time that people wait for; empty where the pairs do not tell. Of each
/// metric, its looks: the time they take, and the change as a share; `of` stands before its name.
fn seen(of: &str, metrics: &[(&str, Vec<(u64, f64)>)]) -> String {
    const WAIT_NS: u64 = 45_000_000_000;
    let looks = metrics.first().map_or(&[][..], |(_, looks)| looks);
    let Some(which) =
        looks.iter().rposition(|(ns, _)| *ns <= WAIT_NS).or((!looks.is_empty()).then_some(0))
    else {
        return String::new();
    };
    let change = |(name, looks): &(&str, Vec<(u64, f64)>)| {
        let (_, change) = looks.get(which)?;
        Some(format!("{} {of} {name}", percent(*change)))
    };
    let changes: Vec<String> = metrics.iter().filter_map(change).collect();
    let listed = match &changes[..] {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => changes.concat(),
    };
    format!(
        "On this machine, {:.0} s see a change of {listed}, 95 times in 100.",
        looks[which].0 as f64 / 1e9
    )
}

fn undecided(chances: &[InconclusiveChance]) -> String {
    let told: Vec<String> = chances
        .iter()
        .map(|c| match c.share {
            Some(share) => format!("{} in {}s", percent(share), c.seconds),
            None => format!("always in {}s, which hold no look", c.seconds),
        })
        .collect();
    if chances.iter().all(|c| c.share.is_none()) {
        return String::new();
    }
    format!(
        "Without a change a gate ends undecided: {} (at the default tolerances).",
        told.join(", ")
    )
}

fn false_alarms(alpha: f64, real: &RealGates) -> String {
    let mut text = format!("False alarms by design: at most {}. ", percent(alpha));
    let RealGates { gates, passed, regressed, inconclusive, .. } = real;
    if *gates == 0 {
        text.push_str("No real gate finished in this time; a rate takes 100.");
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
                percent(rate),
                percent(upper)
            );
        }
        _ => text.push_str(": too few to claim a rate, which takes 100."),
    }
    text
}
