//! A calibration for the terminal.

use std::fmt::Write as _;

use jitterstat::file::File as _;
use jitterstat::gate::calibration::{Calibration, InconclusiveChance, RealGates};

use crate::render::fitness;
use crate::render::formats::{Format, Made, Offer};
use crate::text::align::align;
use crate::text::time::time;
use crate::text::wrap::{WIDEST_PARAGRAPH, wrap};

/// The formats of a calibration.
pub const FORMATS: [Offer<Calibration>; 2] = [
    (Format::Table, |calibration| Ok(Made::Text(table(calibration)))),
    (Format::Json, |calibration| Ok(Made::Text(calibration.to_json()))),
];

fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// A difference of logarithms as a rise.
fn apart(ln: f64) -> String {
    percent(ln.exp_m1())
}

/// What a gate can see, look by look.
fn table(calibration: &Calibration) -> String {
    let plan = &calibration.plan;
    let seconds = calibration.duration_ns as f64 / 1e9;
    let cpu = plan.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    let (subject, pairs) = (&calibration.subject, calibration.pairs);
    let mut text = format!("{subject} against itself: {pairs} pairs of rounds in {seconds:.0}s{cpu}\n");
    if let Some(failure) = &calibration.failure {
        text += &wrap(&format!("It could not go on: {failure}"), WIDEST_PARAGRAPH);
    } else if calibration.partial {
        text.push_str("Interrupted: this is of the pairs there were.\n");
    }
    text.push('\n');
    if !calibration.metrics.is_empty() {
        text += &align(&rows(calibration), 1);
        text.push('\n');
    }
    let steal = calibration.steal_share.map_or(String::new(), |s| format!(" Of all CPUs stolen: {}.", percent(s)));
    let stalls = percent(calibration.same_stall_share);
    let said = [
        seen(calibration),
        undecided(&calibration.inconclusive),
        false_alarms(plan.alpha, &calibration.real_gates),
        format!("Ticks inside a stall already counted: {stalls}.{steal}"),
    ];
    for says in said.iter().filter(|says| !says.is_empty()) {
        text += &wrap(says, WIDEST_PARAGRAPH);
    }
    text.extend(fitness::sentence(calibration.fitness.as_ref()).map(|line| wrap(&line, WIDEST_PARAGRAPH)));
    for warning in &calibration.warnings {
        text += &wrap(&format!("{} {}", warning.message, warning.hint), WIDEST_PARAGRAPH);
    }
    text
}

fn rows(calibration: &Calibration) -> Vec<Vec<String>> {
    let metrics = &calibration.metrics;
    let row = |name: &str, cells: Vec<String>| [vec![name.to_owned()], cells].concat();
    let mut rows = vec![
        row("", metrics.iter().map(|m| m.name.clone()).collect()),
        row("median round", metrics.iter().map(|m| time(m.median_ns)).collect()),
        row("the rounds of a pair differ by (sd)", metrics.iter().map(|m| apart(m.spread)).collect()),
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
            change.map_or("-".to_owned(), |c| format!("+{} = {}", percent(c.ratio - 1.0), time(c.difference_ns)))
        });
        rows.push(row(&name, cells.collect()));
    }
    rows
}

/// What a gate sees in a time that people wait for; empty where the pairs do not tell.
fn seen(calibration: &Calibration) -> String {
    const WAIT_NS: u64 = 45_000_000_000;
    let looks = calibration.metrics.first().map_or(&[][..], |m| &m.smallest_change);
    let Some(which) = looks.iter().rposition(|c| c.after_ns <= WAIT_NS).or((!looks.is_empty()).then_some(0)) else {
        return String::new();
    };
    let changes = calibration
        .metrics
        .iter()
        .filter_map(|m| m.smallest_change.get(which).map(|c| format!("{} at {}", percent(c.ratio - 1.0), m.name)));
    let (seconds, changes) = (looks[which].after_ns as f64 / 1e9, changes.collect::<Vec<_>>().join(" and "));
    format!("On this machine, {seconds:.0} s see a change of {changes}, 95 times in 100.")
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
    format!("Without a change a gate ends undecided: {} (at the default tolerances).", told.join(", "))
}

fn false_alarms(alpha: f64, real: &RealGates) -> String {
    let mut text = format!("False alarms by design: at most {}. ", percent(alpha));
    let RealGates { gates, passed, regressed, inconclusive, .. } = real;
    if *gates == 0 {
        text.push_str("No real gate came to an end in this time; a rate takes 100.");
        return text;
    }
    let _ = write!(
        text,
        "Real gates in this time: {gates} ({passed} passed, {regressed} false alarms, {inconclusive} open)"
    );
    match (real.false_alarm_rate, real.false_alarm_rate_upper95) {
        (Some(rate), Some(upper)) => {
            let _ = write!(text, ", a rate of {}, with 95 % confidence below {}.", percent(rate), percent(upper));
        }
        _ => text.push_str(": too few to claim a rate, which takes 100."),
    }
    text
}
