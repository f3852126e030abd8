//! The terminal table: one line a subject, a unit in each cell.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use cli::align::{align, fit};
use cli::printable::to_printable;
use cli::time::{format_interval, format_number, format_share, format_time};
use cli::wrap::{wrap, wrap_paragraph};
use files::report::{PERCENTILES, Percentile, Report, Status, Subject, Summary};

use crate::render::cost::core_percent;
use crate::render::label::labels;
use crate::render::origin::{self, grouped, origin};
use crate::render::{fitness, percentile, quantity, reading, tradeoff, why};

/// The code of the warning that a run was ended at a late tick.
pub const BREAK: &str = "break";

/// What a person chooses of the table.
#[derive(Args, Clone, Debug, Default)]
pub struct TableArgs {
    /// Order of the lines [default: as measured]
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<Sort>,
    /// Percentiles to show, as in p50,p99.9 [default: as many as there is room for]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = known)]
    pub percentiles: Vec<Percentile>,
    /// Columns to show, as in percentiles,max,core [default: percentiles,max,missed,cpu]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The least late first
    Lateness,
    /// The cheapest first
    Cpu,
    /// What missed the fewest ticks first
    Missed,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    Min,
    Mean,
    Percentiles,
    Max,
    /// Ticks that had not come when the next one was due, in per cent
    Missed,
    /// CPU time of the process per tick
    Cpu,
    /// The same in per cent of one core
    Core,
    Ticks,
}

const DEFAULT: [Column; 4] = [Column::Percentiles, Column::Max, Column::Missed, Column::Cpu];

/// Reads the name of a percentile.
fn known(text: &str) -> Result<Percentile, String> {
    let found = PERCENTILES.into_iter().find(|p| p.label == text || p.key == text);
    found.ok_or_else(|| format!("there are {}", PERCENTILES.map(|p| p.label).join(", ")))
}

/// How fit the machine was, the table, below it a summary in words and the warnings; no line is
/// wider than `columns`, as far as words allow.
pub fn with_reading(report: &Report, args: &TableArgs, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let fit = fitness::line(report)
        .map_or(String::new(), |(word, why)| paragraph(&format!("{word}: {why}")));
    let mut text =
        format!("{fit}{}\n{}", table(report, args, columns), paragraph(&reading::reading(report)));
    for warning in reading::warnings(report) {
        text += &format!("\n{}", paragraph(&warning));
    }
    text += &why::text(report, columns);
    to_printable(&text)
}

/// The tables of several reports, one below the other, each under its date and machine; `words`
/// adds those.
pub fn of_several(reports: &[Report], args: &TableArgs, columns: usize, words: bool) -> String {
    let of = |report| {
        if words {
            with_reading(report, args, columns)
        } else {
            to_printable(&table(report, args, columns))
        }
    };
    match reports {
        [one] => of(one),
        several => several
            .iter()
            .map(|r| format!("{}{}\n", to_printable(&wrap(&origin(r), columns)), of(r)))
            .collect(),
    }
}

/// The cell of a subject that was measured.
type Cell<'a> = Box<dyn Fn(&Subject, &Summary) -> Option<String> + 'a>;

/// One column.
struct Shown<'a> {
    heading: String,
    cell: Cell<'a>,
}

/// Which of the subjects a mark stands beside: for each period and load, among those there are to
/// choose from.
#[derive(Default)]
struct Best<'a> {
    least_late: Vec<&'a str>,
    cheapest: Vec<&'a str>,
}

impl<'a> Best<'a> {
    fn of(report: &'a Report) -> Self {
        let points = tradeoff::points(report);
        let choice = |p: &&tradeoff::Point| tradeoff::keeps_up(&report.subjects[p.subject]);
        let mut best = Self::default();
        let conditions: BTreeSet<_> = points.iter().map(tradeoff::Point::conditions).collect();
        for conditions in conditions {
            let group: Vec<_> =
                points.iter().filter(choice).filter(|p| p.conditions() == conditions).collect();
            if group.len() > 1 {
                let id = |p: &tradeoff::Point| report.subjects[p.subject].id.as_str();
                best.least_late.extend(group.iter().min_by_key(|p| p.late_ns).map(|p| id(p)));
                best.cheapest.extend(
                    group.iter().min_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns)).map(|p| id(p)),
                );
            }
        }
        best
    }
}

fn marked(cell: String, best: &[&str], subject: &Subject) -> String {
    if best.contains(&subject.id.as_str()) { format!("*{cell}") } else { cell }
}

/// The table in the fullest layout that fits: with the interval of the percentile that ranks,
/// without it, without p90, or p99.9 where p90 ranks.
fn table(report: &Report, args: &TableArgs, columns: usize) -> String {
    let best = Best::of(report);
    let all = &PERCENTILES[..PERCENTILES.len() - 1];
    let asked = &args.percentiles;
    let dropped = if tradeoff::percentile(report) == "p90" { "p99_9" } else { "p90" };
    let few: Vec<Percentile> = all.iter().copied().filter(|p| p.key != dropped).collect();
    let layouts = if asked.is_empty() {
        [(all.to_vec(), true), (all.to_vec(), false), (few.clone(), true), (few, false)]
    } else {
        [
            (asked.clone(), true),
            (asked.clone(), false),
            (asked.clone(), false),
            (asked.clone(), false),
        ]
    };
    let rows = |(percentiles, interval): &(Vec<Percentile>, bool)| {
        rows(report, args, &shown(report, args, percentiles, *interval, &best))
    };
    let fits = |rows: &Vec<Vec<String>>| {
        align(rows, 1).lines().all(|line| line.chars().count() <= columns)
    };
    let fullest = layouts.iter().map(rows).find(fits).unwrap_or_else(|| rows(&layouts[3]));
    let labels = labels(report);
    let ranked = tradeoff::percentile(report).replace('_', ".");
    let shared =
        if labels.shared.is_empty() { String::new() } else { format!("; {}", labels.shared) };
    let title = format!("{}, and CPU time, per tick{shared}", capital(quantity::name(report)));
    let mut notes = Vec::new();
    if fullest.iter().flatten().any(|cell| cell.starts_with('*')) {
        let behind = |s: &Subject| {
            s.summary.as_ref().is_some_and(|m| tradeoff::missed(m) > tradeoff::MAX_MISSED)
        };
        let of = if report.subjects.iter().any(behind) {
            ", of those that missed at most half of their ticks"
        } else {
            ""
        };
        notes.push(format!("* the least late at {ranked}, and the cheapest{of}"));
    }
    for subject in &report.subjects {
        if let Status::Failed { reason } = &subject.status {
            notes.push(format!("{}: not measured: {reason}", subject.id));
        }
        if let Some(early) = subject.summary.as_ref().map(|s| s.early).filter(|&n| n > 0) {
            notes.push(format!("{}: {early} ticks came before their deadline", subject.id));
        }
    }
    notes.extend(origin::commands(report));
    notes.extend(report.loads.iter().filter_map(origin::load));
    if report.partial {
        let how = if report.warnings.iter().any(|w| w.code == BREAK) {
            "ended at a late tick"
        } else {
            "interrupted"
        };
        notes.push(format!("{how}: this is what was measured until then"));
    }
    let notes: String = notes.iter().map(|note| wrap(note, columns)).collect();
    wrap(&title, columns) + &fit(&fullest, columns) + &notes
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

fn shown<'a>(
    report: &Report,
    args: &TableArgs,
    percentiles: &[Percentile],
    with_interval: bool,
    best: &'a Best<'a>,
) -> Vec<Shown<'a>> {
    let ranked = tradeoff::percentile(report);
    let mut columns = if args.columns.is_empty() { DEFAULT.to_vec() } else { args.columns.clone() };
    if !args.percentiles.is_empty() && !columns.contains(&Column::Percentiles) {
        columns.insert(0, Column::Percentiles);
    }
    let column = |heading: &str, cell: fn(&Subject, &Summary) -> Option<String>| Shown {
        heading: heading.to_owned(),
        cell: Box::new(cell),
    };
    let known = report
        .subjects
        .iter()
        .filter_map(|s| s.summary.as_ref())
        .any(|s| s.lateness_ns.ci95.contains_key(ranked));
    let percentile = |p: &Percentile| {
        let (key, label) = (p.key, p.label);
        let interval_too = with_interval && known && key == ranked;
        Shown {
            heading: if interval_too {
                format!("{label} [95 % interval]")
            } else {
                label.to_owned()
            },
            cell: Box::new(move |subject: &Subject, summary: &Summary| {
                let d = &summary.lateness_ns;
                let value = format_time(percentile::named(d, key)?);
                let interval = d
                    .ci95
                    .get(key)
                    .filter(|_| interval_too)
                    .map(|ci| format!(" {}", format_interval(ci[0], ci[1])));
                let cell = value + &interval.unwrap_or_default();
                Some(if key == ranked { marked(cell, &best.least_late, subject) } else { cell })
            }),
        }
    };
    let of = |column_of: &Column| match column_of {
        Column::Min => vec![column("min", |_, s| Some(format_time(s.lateness_ns.min)))],
        Column::Mean => vec![column("mean", |_, s| Some(format_time(s.lateness_ns.mean)))],
        Column::Percentiles => percentiles.iter().map(percentile).collect(),
        Column::Max => vec![column("max", |_, s| Some(format_time(s.lateness_ns.max)))],
        // Without a period no tick can be missed.
        Column::Missed => {
            vec![column("missed", |subject, s| {
                (subject.period_ns > 0).then(|| format_share(s.missed, s.ticks))
            })]
        }
        Column::Cpu => vec![Shown {
            heading: "CPU".to_owned(),
            cell: Box::new(|subject, s| {
                Some(marked(
                    format_time(s.cpu_ns_per_tick?.round() as i64),
                    &best.cheapest,
                    subject,
                ))
            }),
        }],
        Column::Core => vec![column("of a core", |subject, _| {
            Some(format!("{} %", format_number(core_percent(subject)?)))
        })],
        Column::Ticks => vec![column("ticks", |_, s| Some(grouped(s.ticks)))],
    };
    columns.iter().flat_map(of).collect()
}

/// A heading, and a line for each subject; a dash where something is not known, or too few ticks
/// support a percentile.
fn rows(report: &Report, args: &TableArgs, shown: &[Shown<'_>]) -> Vec<Vec<String>> {
    let mut lines: Vec<(&Subject, String)> =
        report.subjects.iter().zip(labels(report).names).collect();
    let ranked = tradeoff::percentile(report);
    let of = |subject: &Subject| subject.summary.clone();
    match args.sort {
        None => {}
        Some(Sort::Name) => lines.sort_by(|a, b| a.1.cmp(&b.1)),
        Some(Sort::Lateness) => lines.sort_by_key(|(subject, _)| {
            let late = of(subject).and_then(|s| percentile::named(&s.lateness_ns, ranked));
            (late.is_none(), late)
        }),
        Some(Sort::Cpu) => lines.sort_by(|(a, _), (b, _)| {
            let cpu = |s| of(s).and_then(|s| s.cpu_ns_per_tick).unwrap_or(f64::INFINITY);
            cpu(a).total_cmp(&cpu(b))
        }),
        Some(Sort::Missed) => lines.sort_by(|(a, _), (b, _)| {
            let missed = |s| of(s).map_or(f64::INFINITY, |s| tradeoff::missed(&s));
            missed(a).total_cmp(&missed(b))
        }),
    }
    let heading = std::iter::once("subject".to_owned())
        .chain(shown.iter().map(|s| s.heading.clone()))
        .collect();
    let line = |(subject, name): (&Subject, String)| {
        let summary = subject.summary.as_ref();
        let cell = |s: &Shown<'_>| {
            summary.and_then(|m| (s.cell)(subject, m)).unwrap_or_else(|| "-".to_owned())
        };
        std::iter::once(name).chain(shown.iter().map(cell)).collect()
    };
    std::iter::once(heading).chain(lines.into_iter().map(line)).collect()
}
