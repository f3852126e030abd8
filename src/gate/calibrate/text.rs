//! The formats of a calibration, and its table for the terminal.

use std::fmt::Write as _;

use cli::amount::format_amount;
use cli::wrap::wrap_paragraph;
use files::file::File as _;
use files::gate::calibration::runs::RunCalibration;
use files::gate::calibration::{
    CalibratedNumber, Calibration, DetectableChange, InconclusiveChance, RealGates,
};
use files::report::Warning;
use render::document::align::fit;

use crate::terminal;
use render::formats::{Format, Offer, Rendering};
use render::report::fitness;

/// The formats of a calibration.
pub const FORMATS: [Offer<Calibration>; 2] = [
    (Format::Table, |calibration| Ok(table(calibration))),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
];

/// The formats of a calibration of whole runs.
pub const RUN_FORMATS: [Offer<RunCalibration>; 2] = [
    (Format::Table, |calibration| Ok(table(calibration))),
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

/// The parts of a calibration that its table shows, for a file of either kind.
struct TableContent<'a> {
    /// Subject or program on both sides.
    name: &'a str,
    /// The two parts of a pair: `round` or `run`.
    part: &'static str,
    pairs: u64,
    duration_ns: u64,
    cpu: Option<usize>,
    failure: Option<&'a str>,
    is_partial: bool,
    numbers: Vec<CalibratedNumber>,
    /// Sentences below the table; some of them are empty.
    sentences: Vec<String>,
}

impl<'a> From<&'a Calibration> for TableContent<'a> {
    fn from(calibration: &'a Calibration) -> Self {
        let stalls = format_percent(calibration.same_stall_share);
        let format_steal = |share| format!(" Of all CPUs stolen: {}.", format_percent(share));
        let steal = calibration.steal_share.map_or(String::new(), format_steal);
        let numbers = calibration.numbers();
        let mut sentences = vec![
            detection_sentence("at", &numbers),
            inconclusive_sentence(&calibration.inconclusive),
            false_alarm_sentence(calibration.plan.alpha, &calibration.real_gates),
            format!("Ticks inside a stall already counted: {stalls}.{steal}"),
        ];
        sentences.extend(fitness::sentence(calibration.fitness.as_ref()));
        sentences.extend(calibration.warnings.iter().map(warning_sentence));
        Self {
            name: &calibration.subject,
            part: "round",
            pairs: calibration.pairs,
            duration_ns: calibration.duration_ns,
            cpu: calibration.plan.cpu,
            failure: calibration.failure.as_deref(),
            is_partial: calibration.partial,
            numbers,
            sentences,
        }
    }
}

impl<'a> From<&'a RunCalibration> for TableContent<'a> {
    fn from(calibration: &'a RunCalibration) -> Self {
        let numbers = calibration.numbers();
        let mut sentences = vec![
            detection_sentence("in", &numbers),
            inconclusive_sentence(&calibration.inconclusive),
            false_alarm_sentence(calibration.plan.alpha, &calibration.real_gates),
        ];
        sentences.extend(calibration.warnings.iter().map(warning_sentence));
        Self {
            name: &calibration.program,
            part: "run",
            pairs: calibration.pairs,
            duration_ns: calibration.duration_ns,
            cpu: calibration.plan.cpu,
            failure: calibration.failure.as_deref(),
            is_partial: calibration.partial,
            numbers,
            sentences,
        }
    }
}

/// Renders the changes that a gate can detect, look by look.
fn table<'a>(calibration: impl Into<TableContent<'a>>) -> Rendering {
    let columns = terminal::columns();
    let content = calibration.into();
    let mut text = content.head(columns);
    let rows = content.rows();
    if rows.len() > 1 {
        text += &fit(&rows, columns);
        text.push('\n');
    }
    for sentence in content.sentences.iter().filter(|sentence| !sentence.is_empty()) {
        text += &wrap_paragraph(sentence, columns);
    }
    Rendering::Text(text)
}

impl TableContent<'_> {
    /// Describes the measurement, and why it ended early.
    fn head(&self, columns: usize) -> String {
        let Self { name, part, pairs, .. } = self;
        let seconds = self.duration_ns as f64 / 1e9;
        let cpu = self.cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
        let description =
            format!("{name} against itself: {pairs} pairs of {part}s in {seconds:.0}s{cpu}");
        let mut text = wrap_paragraph(&description, columns);
        if let Some(failure) = self.failure {
            text += &wrap_paragraph(&format!("It could not go on: {failure}"), columns);
        } else if self.is_partial {
            text.push_str("Interrupted: this covers the pairs measured so far.\n");
        }
        text.push('\n');
        text
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let part = self.part;
        let spread = format!("the {part}s of a pair differ by (sd)");
        let mut rows = vec![
            self.row("", |number| number.name.clone()),
            self.row(&format!("median {part}"), |n| format_amount(n.median, &n.unit)),
            self.row(&spread, |number| format_log_difference(number.spread)),
        ];
        if self.numbers.iter().any(|number| number.spread_quiet_half.is_some()) {
            rows.push(self.row("  in the quieter half of the pairs", |number| {
                number.spread_quiet_half.map_or(String::new(), format_log_difference)
            }));
        }
        rows.push(self.row("smallest change that is detected", |_| String::new()));
        let looks = self.numbers.first().map_or(&[][..], |number| &number.changes);
        for (i, look) in looks.iter().enumerate() {
            let name = format!("  at {} pairs, {:.0}s", look.pairs, look.after_ns as f64 / 1e9);
            rows.push(self.row(&name, |number| change_cell(number, i)));
        }
        if self.numbers.is_empty() { Vec::new() } else { rows }
    }

    /// Builds a row with a cell for each number.
    fn row(&self, name: &str, cell: impl Fn(&CalibratedNumber) -> String) -> Vec<String> {
        std::iter::once(name.to_owned()).chain(self.numbers.iter().map(cell)).collect()
    }
}

fn warning_sentence(warning: &Warning) -> String {
    format!("{} {}", warning.message, warning.hint)
}

fn change_cell(number: &CalibratedNumber, look: usize) -> String {
    number.changes.get(look).map_or("-".to_owned(), |change| {
        let sign = if change.ratio < 1.0 { "-" } else { "+" };
        let share = format_percent((change.ratio - 1.0).abs());
        format!("{sign}{share} = {}", format_amount(change.difference, &number.unit))
    })
}

/// Describes the changes that a gate detects in an acceptable time. Empty if no look was
/// calibrated. `preposition` precedes the name of a number.
fn detection_sentence(preposition: &str, numbers: &[CalibratedNumber]) -> String {
    const ACCEPTABLE_WAIT_NS: u64 = 45_000_000_000;
    let Some(looks) = numbers.first().map(|number| &number.changes) else { return String::new() };
    let latest = looks.iter().rposition(|look| look.after_ns <= ACCEPTABLE_WAIT_NS).unwrap_or(0);
    let Some(DetectableChange { after_ns, .. }) = looks.get(latest) else { return String::new() };
    let format_number = |number: &CalibratedNumber| {
        let share = (number.changes.get(latest)?.ratio - 1.0).abs();
        Some(format!("{} {preposition} {}", format_percent(share), number.name))
    };
    let changes: Vec<String> = numbers.iter().filter_map(format_number).collect();
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
