//! A proof for the terminal and for Markdown.

use cli::align::align_by;
use cli::markdown;
use cli::time::{format_fractional_time, format_time};
use cli::wrap::wrap;
use files::compare::{Change, ChangeFinding, Differences};

use crate::doctor::file::{Figures, Outcome, Proof, Proved, Row};
use crate::render::fitness;

const TITLES: [&str; 5] = ["setting", "p50", "p99", "CPU", "change, with interval"];

/// For the terminal.
pub fn table(proof: &Proof, width: usize) -> String {
    let mut text = String::new();
    for proved in &proof.subjects {
        text += &heading(proof, proved);
        text.push('\n');
        text += &align_by(&lines(proved), |column| column == 0 || column == 4);
        text.extend(
            advice(proved).into_iter().map(|(what, keep)| format!("  {what}\n    > {keep}\n")),
        );
        text.push('\n');
    }
    for note in notes(proof) {
        text += &wrap(&note, width);
    }
    text
}

/// For an issue or a pull request.
pub fn markdown(proof: &Proof) -> String {
    let mut text = String::new();
    for proved in &proof.subjects {
        text += &format!(
            "\n**{}**\n\n{}\n",
            heading(proof, proved),
            markdown::format_table(&lines(proved), 1)
        );
        text.extend(
            advice(proved)
                .into_iter()
                .map(|(what, keep)| format!("- {}: `{keep}`\n", markdown::escape_cell(&what))),
        );
    }
    text.extend(notes(proof).iter().map(|note| format!("\n{}\n", markdown::escape_cell(note))));
    text
}

fn heading(proof: &Proof, proved: &Proved) -> String {
    let period = format_time(i64::try_from(proof.period_ns).unwrap_or(i64::MAX));
    format!(
        "{} each {period}, {} rounds of {} ticks",
        proved.subject, proof.rounds, proof.round_ticks
    )
}

/// A row for each setting, and one more for each further number that changes.
fn lines(proved: &Proved) -> Vec<Vec<String>> {
    let mut lines =
        vec![TITLES.map(str::to_owned).to_vec(), cells("as it is", Some(&proved.baseline), "")];
    for row in &proved.rows {
        let (figures, says) = match &row.outcome {
            Outcome::Measured { figures, differences } => (Some(figures), said(differences)),
            Outcome::NotPermitted { .. } => (None, vec!["not permitted".to_owned()]),
            Outcome::Failed { .. } => (None, vec!["not measured".to_owned()]),
        };
        let first = says.first().map_or("", String::as_str);
        lines.push(cells(&row.setting, figures, first));
        lines.extend(says.iter().skip(1).map(|more| {
            [&[""; 4], &[more.as_str()][..]].concat().into_iter().map(str::to_owned).collect()
        }));
    }
    lines
}

fn cells(name: &str, figures: Option<&Figures>, says: &str) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let p50 = dash(figures.and_then(|f| f.p50_ns).map(format_time));
    let p99 = dash(figures.and_then(|f| f.p99_ns).map(format_time));
    let cpu = dash(figures.and_then(|f| f.cpu_ns_per_tick).map(format_fractional_time));
    vec![name.to_owned(), p50, p99, cpu, says.to_owned()]
}

/// The numbers of a setting, by name.
fn numbers(of: &Differences) -> [(&'static str, Option<&Change>); 3] {
    [("p50", of.p50.as_ref()), ("p99", of.p99.as_ref()), ("CPU", of.cpu.as_ref())]
}

/// Every number that changes, or that none is shown to.
fn said(of: &Differences) -> Vec<String> {
    let shown = |wanted: fn(ChangeFinding) -> bool| {
        numbers(of)
            .into_iter()
            .filter_map(move |(name, c)| Some((name, c.filter(|c| wanted(c.shown))?)))
    };
    let changes: Vec<String> = shown(|s| matches!(s, ChangeFinding::Less | ChangeFinding::More))
        .map(|(name, change)| format!("{name} {}", percent(change)))
        .collect();
    let undecided = [&of.p50, &of.p99]
        .into_iter()
        .all(|c| c.as_ref().is_none_or(|c| c.shown == ChangeFinding::TooFewRounds));
    match (undecided, changes.is_empty()) {
        (true, _) => {
            changes.into_iter().chain(["lateness: too few rounds to say".to_owned()]).collect()
        }
        (false, true) => vec!["no difference shown".to_owned()],
        (false, false) => changes,
    }
}

/// `-71 % [-78, -60]`, or `x5.2 [4.8, 5.6]` where it is more than double.
fn percent(change: &Change) -> String {
    let of = |ratio: f64| {
        let percent = (ratio - 1.0) * 100.0;
        if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
    };
    let times =
        |ratio: f64| if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
    let between = |[low, high]: [f64; 2], number: &dyn Fn(f64) -> String| {
        format!(" [{}, {}]", number(low), number(high))
    };
    let with = |number: &dyn Fn(f64) -> String| {
        change.ratio_interval.map_or(String::new(), |ends| between(ends, number))
    };
    if change.ratio >= 2.0 {
        format!("x{}{}", times(change.ratio), with(&times))
    } else {
        format!("{} %{}", of(change.ratio), with(&of))
    }
}

/// What makes ticks less late, with what keeps it.
fn advice(proved: &Proved) -> Vec<(String, String)> {
    let helps = |row: &&Row| {
        let Outcome::Measured { differences, .. } = &row.outcome else { return false };
        let is = |shown: ChangeFinding| {
            [&differences.p50, &differences.p99].into_iter().flatten().any(|c| c.shown == shown)
        };
        !row.keep.is_empty() && is(ChangeFinding::Less) && !is(ChangeFinding::More)
    };
    let told = |row: &Row| {
        let Outcome::Measured { differences, .. } = &row.outcome else { return String::new() };
        format!("{} makes ticks less late: {}", row.setting, said(differences).join(", "))
    };
    proved.rows.iter().filter(helps).map(|row| (told(row), row.keep.clone())).collect()
}

/// What to know before believing it.
fn notes(proof: &Proof) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(fitness::sentence(proof.fitness.as_ref()));
    if proof.partial {
        notes.push("Interrupted: this is what was measured until then.".to_owned());
    }
    let rows = || proof.subjects.iter().flat_map(|proved| &proved.rows);
    let mut named: Vec<&str> = Vec::new();
    for row in rows() {
        let note = match &row.outcome {
            Outcome::NotPermitted { reason, needs } => {
                format!("{}: not permitted ({reason}); it needs {needs}.", row.setting)
            }
            Outcome::Failed { reason } => format!("{}: not measured: {reason}.", row.setting),
            Outcome::Measured { .. } => continue,
        };
        if !named.contains(&row.setting.as_str()) {
            named.push(&row.setting);
            notes.push(note);
        }
    }
    notes.push(format!(
        "Changes are of the median round, against the same rounds with everything as it is; p50, p99 and CPU are of all \
         ticks. A proof shows a change that is not there in at most {:.0} % of the cases.",
        proof.alpha * 100.0
    ));
    notes
}
