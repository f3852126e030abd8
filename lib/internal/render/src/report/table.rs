//! The terminal table: one line per subject, with units in the cells.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use cli::printable::to_printable;
use cli::terminal::{is_verbose, note};
use cli::time::{format_interval, format_number, format_time};
use cli::words::{capitalize, end_sentence, group_digits, or_dash, pluralize, prefix_or_empty};
use cli::wrap::wrap;
use files::report::{PERCENTILES, Percentile, Report, Subject, Summary, Warning};

use crate::document::{Document, Table, terminal};
use crate::report::cost::core_percent;
use crate::report::label::{failure_note, labels};
use crate::report::origin::{self, origin};
use crate::report::ranking::Ranking;
use crate::report::trust::Trust;
use crate::report::{fitness, settings, summary, tradeoff, why};
use files::entry::summaries;
use files::quantity;

/// Code of the warning that a run ended at a late tick.
pub const BREAK: &str = "break";

/// Options of the table.
#[derive(Args, Clone, Debug, Default)]
pub struct TableArgs {
    /// Order of the rows [default: as measured]
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<Sort>,
    /// Percentiles to show, such as p50,p99.9 [default: as many as fit]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percentile_parser(), hide_possible_values = true)]
    pub percentiles: Vec<Percentile>,
    /// Columns to show, such as percentiles,max,core [default: percentiles,max,missed,cpu]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub columns: Vec<Column>,
}

impl TableArgs {
    /// Names the given flags on standard error, for an output without the table of a run. Those
    /// that `is_default` accepts are not named.
    pub fn note_flags(&self, histogram: bool, quiet: bool, is_default: fn(&str) -> bool) {
        for (flag, is_given) in [
            ("--histogram", histogram),
            ("--sort", self.sort.is_some()),
            ("--percentiles", !self.percentiles.is_empty()),
            ("--columns", !self.columns.is_empty()),
        ] {
            if is_given && !is_default(flag) {
                let message = format!("{flag} has no effect: it goes with the table of a run");
                note(quiet, &message);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Lowest lateness first; as measured without a clear difference
    Lateness,
    /// Lowest CPU time per tick first, even without a clear difference
    Cpu,
    /// Fewest missed ticks first
    Missed,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    Min,
    Mean,
    Percentiles,
    Max,
    /// Ticks that had not arrived when the next one was due, in percent
    Missed,
    /// CPU time of the process per tick
    Cpu,
    /// CPU time of the process in percent of one core
    Core,
    Ticks,
}

const DEFAULT_COLUMNS: [Column; 4] =
    [Column::Percentiles, Column::Max, Column::Missed, Column::Cpu];

const COLUMNS_WITHOUT_PERCENTILES: [Column; 5] =
    [Column::Min, Column::Mean, Column::Max, Column::Missed, Column::Cpu];

/// Returns the parser of a percentile by its label or its key.
fn percentile_parser() -> impl TypedValueParser<Value = Percentile> {
    let values = PERCENTILES.map(|p| PossibleValue::new(p.label).alias(p.key));
    PossibleValuesParser::new(values).map(|name| {
        let mut percentiles = PERCENTILES.into_iter();
        percentiles.find(|p| p.label == name || p.key == name).expect("a possible value")
    })
}

/// Renders the answer, the fitness of the machine, the table, the other sentences of the summary
/// and the warnings. Lines are at most `columns` wide, unless a word is longer.
pub fn with_summary(report: &Report, args: &TableArgs, columns: usize) -> String {
    let ranking = Ranking::new(report);
    let table = render_table(&ranking, args, columns);
    let width = terminal::prose_width(&table, columns);
    let mut text = wrap(&summary::answer(&ranking), width);
    if let Some((word, why)) = fitness::describe_report(report) {
        text += &wrap(&format!("{word}: {why}"), width);
    }
    text.push('\n');
    text += &table;
    let details = summary::details(&ranking);
    if !details.is_empty() {
        text.push('\n');
        text += &wrap(&details, width);
    }
    let warnings = describe_warnings(&report.warnings);
    if report.is_own() || is_verbose() {
        for warning in warnings {
            text.push('\n');
            text += &wrap(&warning, width);
        }
    } else if !warnings.is_empty() {
        text.push('\n');
        text.extend(warnings.iter().map(|warning| shorten_to_line(warning, width)));
        text += "All of these notes: -v\n";
    }
    to_printable(&text) + &render_diagnoses(report, columns)
}

/// Returns the warnings as sentences, one for each code: the first with this code, and the number
/// of others.
pub fn describe_warnings(warnings: &[Warning]) -> Vec<String> {
    let mut by_code: Vec<(&Warning, usize)> = Vec::new();
    for warning in warnings {
        match by_code.iter_mut().find(|(first, _)| first.code == warning.code) {
            Some((_, others)) => *others += 1,
            None => by_code.push((warning, 0)),
        }
    }
    by_code.into_iter().map(|(first, others)| format_group(first, others)).collect()
}

/// Shortens a text to one line: its first sentence, or if that is too long, as many clauses or
/// words as fit, and an ellipsis.
fn shorten_to_line(text: &str, width: usize) -> String {
    const ELLIPSIS: &str = " …";
    let wrapped = wrap(text, width.saturating_sub(ELLIPSIS.chars().count()));
    let Some((line, _)) = wrapped.trim_end().split_once('\n') else { return wrapped };
    let clauses = format!("{line} ");
    if let Some((sentence, _)) = clauses.split_once(". ") {
        return format!("{sentence}.\n");
    }
    let ends = ["; ", ": "].into_iter().filter_map(|end| clauses.rfind(end));
    let end = ends.max().filter(|&end| end * 5 >= width * 3).unwrap_or(line.len());
    format!("{}{ELLIPSIS}\n", &line[..end])
}

fn format_group(warning: &Warning, others: usize) -> String {
    let more = if others > 0 { format!(" (And {others} more like it.)") } else { String::new() };
    format_warning(warning) + &more
}

/// Formats the code of a warning and its sentences.
pub fn format_warning(warning: &Warning) -> String {
    format!("{}: {}", warning.code, warning_sentences(warning))
}

/// Returns the message and the hint of a warning as sentences.
pub fn warning_sentences(warning: &Warning) -> String {
    let texts = [&warning.message, &warning.hint].into_iter().filter(|text| !text.is_empty());
    let sentences: Vec<String> = texts.map(|text| end_sentence(text)).collect();
    sentences.join(" ")
}

/// Renders the diagnoses of late ticks after an empty line: those of the user's programs or, if no
/// subject is a program, of all subjects. Returns an empty text if no subject was profiled.
pub fn render_diagnoses(report: &Report, columns: usize) -> String {
    let mut diagnoses = Document::new();
    why::add_main_diagnoses(&mut diagnoses, report);
    if diagnoses.is_empty() {
        return String::new();
    }
    to_printable(&format!("\n{}", terminal::render(&diagnoses, columns)))
}

/// Renders the tables of several reports one below the other, each under its date and machine;
/// `words` adds the summary and the warnings.
pub fn render_reports(reports: &[Report], args: &TableArgs, columns: usize, words: bool) -> String {
    let render = if words { with_summary } else { without_summary };
    if let [report] = reports {
        return render(report, args, columns);
    }
    let mut text = String::new();
    for report in reports {
        text += &to_printable(&wrap(&origin(report), terminal::prose_width("", columns)));
        text += &render(report, args, columns);
        text.push('\n');
    }
    text
}

fn without_summary(report: &Report, args: &TableArgs, columns: usize) -> String {
    to_printable(&render_table(&Ranking::new(report), args, columns))
}

/// A column of the table.
#[derive(Clone, Copy)]
enum TableColumn {
    Percentile {
        percentile: Percentile,
        /// Whether the report ranks by this percentile. The cells of its winners have a mark.
        is_ranked: bool,
        with_interval: bool,
    },
    /// A column other than those of the percentiles.
    Plain(Column),
}

impl TableColumn {
    fn heading(self, trust: Trust) -> String {
        match self {
            Self::Percentile { percentile, with_interval: true, .. } => {
                format!("{} [95 % interval]", trust.heading(percentile))
            }
            Self::Percentile { percentile, .. } => trust.heading(percentile),
            Self::Plain(column @ (Column::Min | Column::Mean | Column::Max)) => {
                trust.statistic_heading(plain_heading(column))
            }
            Self::Plain(column) => plain_heading(column).to_owned(),
        }
    }

    /// Returns the cell of a measured subject, if its value is known.
    fn cell(self, ranking: &Ranking<'_>, index: usize, trust: Trust) -> Option<String> {
        let subject = &ranking.report().subjects[index];
        let summary = subject.summary.as_ref()?;
        match self {
            Self::Percentile { percentile, is_ranked, with_interval } => {
                let cell = format_percentile(summary, percentile.key, with_interval)?;
                Some(mark_if(is_ranked && ranking.is_winner(index), cell))
            }
            Self::Plain(column) => {
                let cell = plain_cell(column, subject, summary, trust)?;
                let is_cost = column == Column::Cpu;
                Some(mark_if(is_cost && ranking.is_cheapest(index), cell))
            }
        }
    }
}

fn mark_if(is_best: bool, cell: String) -> String {
    if is_best { format!("*{cell}") } else { cell }
}

/// Renders the table with its title and footnotes, and with the interval of the ranking percentile
/// if there is space for it.
fn render_table(ranking: &Ranking<'_>, args: &TableArgs, columns: usize) -> String {
    let report = ranking.report();
    let mut table = build_table(ranking, args, &table_columns(ranking, args, true));
    if !terminal::fits(&table, columns) {
        table = build_table(ranking, args, &table_columns(ranking, args, false));
    }
    let shared = labels(report).shared;
    let shared = if shared.is_empty() { String::new() } else { format!("; {shared}") };
    let title = format!("{} and CPU time per tick{shared}", capitalize(quantity::name(report)));
    let rows = terminal::render_table(&table, columns);
    let width = terminal::prose_width(&rows, columns);
    let mut text = wrap(&title, width) + &rows;
    if table.cells().any(|cell| cell.starts_with('*')) {
        text += &wrap(&mark_note(ranking), width);
    }
    let mut texts = table.headings().chain(table.cells());
    if texts.any(is_marked) {
        text.extend(Trust::from_report(report).note().map(|note| wrap(&note, width)));
    }
    if args.sort == Some(Sort::Lateness) && ranking.percentile().is_none() {
        let by = ranking.shown();
        text += &wrap(&format!("sorted by {by}, which is unreliable"), width);
    }
    for note in notes(report) {
        text += &wrap(&note, width);
    }
    text
}

/// Returns whether a heading or a cell has the mark of a number that is not trusted.
fn is_marked(text: &str) -> bool {
    text.ends_with('?') || text.contains("? [")
}

/// Returns the footnote that explains the marks.
fn mark_note(ranking: &Ranking<'_>) -> String {
    let is_behind = |s: &Summary| tradeoff::missed_share(s) > tradeoff::MAX_MISSED_SHARE;
    let among = if summaries(ranking.report()).any(is_behind) {
        " among subjects that missed at most half of their ticks"
    } else {
        ""
    };
    let ranked = ranking.shown().replace('_', ".");
    let subjects = 0..ranking.report().subjects.len();
    let has_winner = subjects.clone().any(|index| ranking.is_winner(index));
    let has_cheapest = subjects.into_iter().any(|index| ranking.is_cheapest(index));
    let meaning = match (has_winner, has_cheapest) {
        (true, true) => format!("lowest {ranked} and lowest CPU time"),
        (true, false) => format!("lowest {ranked}"),
        (false, _) => "lowest CPU time".to_owned(),
    };
    format!("* {meaning}{among}")
}

/// Returns the other footnotes: failures, early ticks, commands, loads, and whether the run is
/// incomplete.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for subject in &report.subjects {
        notes.extend(failure_note(subject));
        if let Some(Summary { early: Some(early @ 1..), .. }) = subject.summary {
            let ticks = pluralize(early, "tick");
            notes.push(format!("{}: {ticks} came before the deadline", subject.id));
        }
    }
    notes.extend(origin::commands(report));
    notes.extend(report.loads.iter().filter_map(origin::load));
    notes.extend(settings::notes(report));
    notes.extend(early_end_note(report));
    notes
}

/// Returns the note on a run that is incomplete: how it ended.
pub fn early_end_note(report: &Report) -> Option<String> {
    let has_late_end = report.warnings.iter().any(|warning| warning.code == BREAK);
    let how = if has_late_end { "ended at a late tick" } else { "interrupted" };
    report.partial.then(|| format!("{how}: the values cover the time until then"))
}

/// Whether a percentile is known, or would be from more ticks. Some outputs of other tools have only
/// the range of their values, and their mean.
fn has_percentiles(report: &Report) -> bool {
    report.is_own()
        || summaries(report).any(|s| {
            let known =
                |percentile: &Percentile| s.lateness_ns.percentile(percentile.key).is_some();
            PERCENTILES.iter().any(known)
        })
}

/// Returns the columns of the table. `with_interval` adds the interval of the ranking percentile.
fn table_columns(ranking: &Ranking<'_>, args: &TableArgs, with_interval: bool) -> Vec<TableColumn> {
    let (shown, ranked) = (ranking.shown(), ranking.percentile());
    let mut columns = match args.columns.as_slice() {
        [] if has_percentiles(ranking.report()) => DEFAULT_COLUMNS.to_vec(),
        [] => COLUMNS_WITHOUT_PERCENTILES.to_vec(),
        chosen => chosen.to_vec(),
    };
    if !args.percentiles.is_empty() && !columns.contains(&Column::Percentiles) {
        columns.insert(0, Column::Percentiles);
    }
    let has_interval = summaries(ranking.report()).any(|s| s.lateness_ns.ci95.contains_key(shown));
    let percentiles = match args.percentiles.as_slice() {
        [] => &PERCENTILES[..PERCENTILES.len() - 1],
        chosen => chosen,
    };
    let mut table_columns = Vec::new();
    for column in columns {
        if column != Column::Percentiles {
            table_columns.push(TableColumn::Plain(column));
            continue;
        }
        for &percentile in percentiles {
            let is_ranked = Some(percentile.key) == ranked;
            let with_interval = percentile.key == shown && with_interval && has_interval;
            let column = TableColumn::Percentile { percentile, is_ranked, with_interval };
            table_columns.push(column);
        }
    }
    table_columns
}

/// Returns the headings of the columns that a narrow terminal leaves out first: those that are not
/// trusted, from the right; then p90 and the others from p99.9 on. The median and the percentile
/// that ranks stay.
fn expendable_headings(ranking: &Ranking<'_>, columns: &[TableColumn]) -> Vec<String> {
    let (shown, trust) = (ranking.shown(), Trust::from_report(ranking.report()));
    let mut others: Vec<&str> = Vec::new();
    for column in columns {
        match column {
            TableColumn::Percentile { percentile, .. } => others.push(percentile.key),
            TableColumn::Plain(Column::Max) => others.push("max"),
            TableColumn::Plain(_) => {}
        }
    }
    others.retain(|key| !["p50", shown].contains(key));
    others.reverse();
    others.sort_by_key(|key| (trust.covers(key), drop_rank(key, trust)));
    let heading = |key: &str| {
        let mut columns = columns.iter().map(|column| column.heading(trust));
        columns.find(|heading| heading.trim_end_matches('?') == key.replace('_', "."))
    };
    let mut headings: Vec<String> = others.into_iter().filter_map(heading).collect();
    headings.push(plain_heading(Column::Missed).to_owned());
    headings
}

/// Returns the rank in which a narrow terminal leaves out a column. Of the trusted columns, p90 is
/// first, because it is between two others that remain.
fn drop_rank(key: &str, trust: Trust) -> u8 {
    match key {
        _ if !trust.covers(key) => 0,
        "p90" => 0,
        "max" => 2,
        _ => 1,
    }
}

fn format_percentile(summary: &Summary, key: &str, with_interval: bool) -> Option<String> {
    let lateness = &summary.lateness_ns;
    let value = format_time(lateness.percentile(key)?);
    let interval = lateness.ci95.get(key).filter(|_| with_interval);
    let interval = interval.map(|ci| format_interval(ci[0], ci[1]));
    Some(value + &prefix_or_empty(" ", interval))
}

fn plain_heading(column: Column) -> &'static str {
    match column {
        Column::Percentiles => "percentiles",
        Column::Min => "min",
        Column::Mean => "mean",
        Column::Max => "max",
        Column::Missed => "missed",
        Column::Cpu => "CPU",
        Column::Core => "of a core",
        Column::Ticks => "ticks",
    }
}

/// Returns the cell of a column other than those of the percentiles.
fn plain_cell(
    column: Column,
    subject: &Subject,
    summary: &Summary,
    trust: Trust,
) -> Option<String> {
    match column {
        Column::Percentiles => None,
        Column::Min => Some(format_time(summary.lateness_ns.min)),
        Column::Mean => summary.lateness_ns.mean.map(format_time),
        Column::Max => Some(format_time(summary.lateness_ns.max)),
        Column::Missed => {
            let cell = tradeoff::format_missed(subject, summary)?;
            Some(trust.count_cell(summary, "missed", &cell))
        }
        Column::Cpu => Some(format_time(summary.cpu_ns_per_tick?.round() as i64)),
        Column::Core => Some(format!("{} %", format_number(core_percent(subject)?))),
        Column::Ticks => Some(group_digits(summary.ticks)),
    }
}

/// Returns the table with a row for each subject. A cell is a dash if its value is not known, or if
/// too few ticks support the percentile.
fn build_table(ranking: &Ranking<'_>, args: &TableArgs, columns: &[TableColumn]) -> Table {
    let trust = Trust::from_report(ranking.report());
    let mut heading = vec!["subject".to_owned()];
    heading.extend(columns.iter().map(|column| column.heading(trust)));
    let mut table = Table::new(heading, 1);
    if args.columns.is_empty() {
        table = table.with_expendable(&expendable_headings(ranking, columns));
    }
    let names = labels(ranking.report()).names;
    for index in sorted_subjects(ranking, &names, args.sort) {
        let mut row = vec![names[index].clone()];
        for column in columns {
            row.push(or_dash(column.cell(ranking, index, trust)));
        }
        table.row(row);
    }
    table
}

/// Returns the indices of the subjects in the order of the rows. Subjects without the value to sort
/// by come last.
fn sorted_subjects(ranking: &Ranking<'_>, names: &[String], sort: Option<Sort>) -> Vec<usize> {
    let subjects = &ranking.report().subjects;
    let mut sorted: Vec<usize> = (0..subjects.len()).collect();
    match sort {
        None => {}
        Some(Sort::Name) => sorted.sort_by_key(|&index| &names[index]),
        Some(Sort::Lateness) => {
            sorted.sort_by_key(|&index| lateness_rank(ranking, index));
        }
        Some(Sort::Cpu) => sort_by_value(subjects, &mut sorted, |s| s.cpu_ns_per_tick),
        Some(Sort::Missed) => sort_by_value(subjects, &mut sorted, |summary| {
            summary.missed.or(summary.missed_at_least)?;
            Some(tradeoff::missed_share(summary))
        }),
    }
    sorted
}

/// Returns the key by which subjects are sorted by lateness.
fn lateness_rank(ranking: &Ranking<'_>, index: usize) -> (bool, Option<i64>) {
    let summary = ranking.report().subjects[index].summary.as_ref();
    let late = summary.and_then(|summary| summary.lateness_ns.percentile(ranking.shown()));
    (late.is_none(), ranking.sort_value(index))
}

fn sort_by_value(subjects: &[Subject], sorted: &mut [usize], value: fn(&Summary) -> Option<f64>) {
    let value_or_infinity = |index: &usize| {
        let summary = subjects[*index].summary.as_ref();
        summary.and_then(value).unwrap_or(f64::INFINITY)
    };
    sorted.sort_by(|a, b| value_or_infinity(a).total_cmp(&value_or_infinity(b)));
}
