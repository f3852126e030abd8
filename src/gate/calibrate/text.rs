//! The formats of a calibration, and its description.

use std::fmt::Write as _;

use cli::amount::format_amount;
use cli::terminal;
use cli::time::format_percent;
use cli::words::{pluralize, prefix_or_empty};
use files::file::File as _;
use files::gate::calibration::runs::RunCalibration;
use files::gate::calibration::{
    CalibratedNumber, Calibration, DetectableChange, InconclusiveChance, RealGates,
};
use files::report::Warning;
use render::document::{Document, Table};

use render::formats::{Format, Offer, Rendering};
use render::report::fitness;

/// The formats of a calibration.
pub const FORMATS: [Offer<Calibration>; 4] = [
    (Format::Table, |calibration| {
        Ok(Rendering::terminal(&document(calibration), terminal::columns()))
    }),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
    (Format::Markdown, |calibration| Ok(Rendering::markdown(&document(calibration)))),
    (Format::Html, |calibration| Ok(Rendering::page(PAGE_TITLE, &document(calibration)))),
];

/// The formats of a calibration of whole runs.
pub const RUN_FORMATS: [Offer<RunCalibration>; 4] = [
    (Format::Table, |calibration| {
        Ok(Rendering::terminal(&document(calibration), terminal::columns()))
    }),
    (Format::Json, |calibration| Ok(Rendering::Text(calibration.to_json()))),
    (Format::Markdown, |calibration| Ok(Rendering::markdown(&document(calibration)))),
    (Format::Html, |calibration| Ok(Rendering::page(PAGE_TITLE, &document(calibration)))),
];

const PAGE_TITLE: &str = "osjitter calibrate";

/// Formats a difference of logarithms as a rise in percent.
fn format_log_difference(ln: f64) -> String {
    format_percent(ln.exp_m1())
}

/// The parts of a calibration that are shown, for a file of either kind.
struct CalibrationContent<'a> {
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

impl<'a> From<&'a Calibration> for CalibrationContent<'a> {
    fn from(calibration: &'a Calibration) -> Self {
        let numbers = calibration.numbers();
        let mut sentences = vec![
            detection_sentence("at", &numbers),
            inconclusive_sentence(&calibration.inconclusive),
            false_alarm_sentence(calibration.plan.alpha, &calibration.real_gates),
            conditions_sentence(calibration),
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

impl<'a> From<&'a RunCalibration> for CalibrationContent<'a> {
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

/// Describes the changes that a gate can detect, look by look.
fn document<'a>(calibration: impl Into<CalibrationContent<'a>>) -> Document {
    let content = calibration.into();
    let mut document = Document::new();
    document.title(content.title());
    if let Some(failure) = content.failure {
        document.warning(format!("The calibration ended early: {failure}"));
    } else if content.is_partial {
        document.warning("Interrupted: the values cover the pairs until then.");
    }
    if !content.numbers.is_empty() {
        document.table(content.table());
    }
    document.notes(content.sentences);
    document
}

impl CalibrationContent<'_> {
    /// Describes what was measured.
    fn title(&self) -> String {
        let Self { name, part, pairs, .. } = self;
        let seconds = self.duration_ns as f64 / 1e9;
        let cpu = prefix_or_empty(", CPU ", self.cpu);
        let pairs = pluralize(*pairs, "pair");
        format!("{name} against itself: {pairs} of {part}s in {seconds:.0}s{cpu}")
    }

    /// Returns a table with a column for each number.
    fn table(&self) -> Table {
        let part = self.part;
        let mut table = Table::new(self.cells("", |number| number.name.clone()), 1);
        table.row(self.cells(&format!("median {part}"), |n| format_amount(n.median, &n.unit)));
        table.row(self.cells("standard deviation within a pair", |number| {
            format_log_difference(number.spread)
        }));
        if self.numbers.iter().any(|number| number.spread_quiet_half.is_some()) {
            table.row(self.cells("  in the quieter half of the pairs", |number| {
                number.spread_quiet_half.map_or(String::new(), format_log_difference)
            }));
        }
        table.row(["smallest change that is detected"]);
        let looks = self.numbers.first().map_or(&[][..], |number| &number.changes);
        for (i, look) in looks.iter().enumerate() {
            let name = format!("  at {} pairs, {:.0}s", look.pairs, look.after_ns as f64 / 1e9);
            table.row(self.cells(&name, |number| change_cell(number, i)));
        }
        table
    }

    /// Returns the cells of a row: its name, and a cell for each number.
    fn cells(&self, name: &str, cell: impl Fn(&CalibratedNumber) -> String) -> Vec<String> {
        std::iter::once(name.to_owned()).chain(self.numbers.iter().map(cell)).collect()
    }
}

/// Describes stalls and steal during the calibration.
fn conditions_sentence(calibration: &Calibration) -> String {
    let stalls = format_percent(calibration.same_stall_share);
    let mut text = format!("Ticks that belong to a stall already counted: {stalls}.");
    if let Some(share) = calibration.steal_share {
        let _ = write!(text, " CPU time taken by the hypervisor: {}.", format_percent(share));
    }
    text
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
        "On this machine, a gate of {seconds:.0} s detects a change of {changes} with 95 % probability."
    )
}

fn inconclusive_sentence(chances: &[InconclusiveChance]) -> String {
    if chances.iter().all(|chance| chance.share.is_none()) {
        return String::new();
    }
    let format_chance = |InconclusiveChance { share, seconds, .. }: &InconclusiveChance| match share
    {
        Some(share) => format!("{} after {seconds}s", format_percent(*share)),
        None => format!("100 % after {seconds}s, which is too short for a look"),
    };
    let chances: Vec<String> = chances.iter().map(format_chance).collect();
    let chances = chances.join(", ");
    format!(
        "Probability that a gate without a change is inconclusive, at the default tolerances: {chances}."
    )
}

fn false_alarm_sentence(alpha: f64, real: &RealGates) -> String {
    let mut text = format!("False alarms by design: at most {}. ", format_percent(alpha));
    let RealGates { gates, passed, regressed, inconclusive, .. } = real;
    if *gates == 0 {
        text.push_str("No gate finished in this time; a measured rate needs 100.");
        return text;
    }
    let _ = write!(
        text,
        "Gates in this time: {gates} ({passed} passed, {regressed} false alarms, {inconclusive} inconclusive)"
    );
    match (real.false_alarm_rate, real.false_alarm_rate_upper95) {
        (Some(rate), Some(upper)) => {
            let _ = write!(
                text,
                ": a rate of {}, below {} with 95 % confidence.",
                format_percent(rate),
                format_percent(upper)
            );
        }
        _ => text.push_str(". A measured rate needs 100."),
    }
    text
}
