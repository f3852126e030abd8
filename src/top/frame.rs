//! Renders loops as lines of text. Does no I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use cli::printable::to_printable_line;
use cli::terminal::TerminalSize;
use cli::time::format_time;
use cli::units::{format_exact_duration, to_signed_ns};
use cli::words::{or_dash, pluralize};
use render::report::late_code;

use crate::top::late_functions::LateFunction;
use crate::top::loop_stats::{Loops, MeteredLoop, Sort, Window};

/// Terminal width from which the process and program of a loop have a column.
const MIN_PROGRAM_COLUMNS: usize = 100;
const PROGRAM_WIDTH: usize = 24;
const MIN_NAME_WIDTH: usize = 8;
const MAX_NAME_WIDTH: usize = 24;
const MAX_SPARKLINE_WIDTH: usize = 60;
/// Maximum number of loops whose function a screen names.
const MAX_FUNCTIONS: usize = 3;
/// Maximum number of unreadable files that a screen lists.
const MAX_FAULTS: usize = 2;
/// Columns that a narrow terminal omits, in this order.
const OMITTED_FIRST: [&str; 5] = ["SLOW", "WORK", "PERIOD", "P50", "MAX"];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Heading of the only column that does not depend on the window.
const PERIOD: &str = "PERIOD";

/// A column with a value per loop.
#[derive(Clone, Copy)]
struct Column {
    heading: &'static str,
    width: usize,
    format: fn(&MeteredLoop, Window) -> String,
}

const COLUMNS: [Column; 7] = [
    Column { heading: PERIOD, width: 7, format: |l, _| format_period(l.snapshot.period) },
    Column { heading: "P50", width: 7, format: |l, w| lateness_quantile(l, w, 0.5) },
    Column { heading: "P99", width: 7, format: |l, w| lateness_quantile(l, w, 0.99) },
    Column { heading: "MAX", width: 7, format: |l, w| format_ns(l.stats(w).lateness.max()) },
    Column { heading: "MISSED", width: 7, format: |l, w| format_count(l.stats(w).missed) },
    Column { heading: "SLOW", width: 5, format: |l, w| format_count(l.stats(w).missed_by_work) },
    Column { heading: "WORK", width: 7, format: |l, w| format_ns(l.stats(w).work.quantile(0.99)) },
];

/// The meaning of the keys and columns.
const HELP: [&str; 15] = [
    "KEY     MEANING",
    "1 2 3   show the last 1, 10 or 60 s",
    "s       sort by the next column; the heading of the current one begins with *",
    "?       show or hide this help",
    "q       quit; so do Esc and Ctrl-C",
    "",
    "METER   name of the loop, with its process if several have the name",
    "PERIOD  time from one deadline to the next",
    "P50     median lateness; P99: exceeded by 1 % of the ticks; MAX: highest",
    "MISSED  ticks that were not delivered before the next one was due",
    "SLOW    missed ticks that the loop's own work delayed",
    "WORK    99th percentile of that work",
    "P99/s   p99 of each second, scaled to the highest; a gap has no tick or poll",
    "",
    "… replaces the middle of a long name",
];

/// The window and order that the user selected.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub window: Window,
    pub sort: Sort,
    /// Whether a loop that was watched for less than the window has no numbers.
    pub needs_whole_window: bool,
    /// Whether the meaning of the keys and columns is shown instead of the loops.
    pub has_help: bool,
}

/// Renders the whole screen in at most `size.lines` lines of at most `size.columns` characters.
pub fn screen(loops: &Loops, view: View, faults: &[String], size: TerminalSize) -> Vec<String> {
    let count = loops.iter().count();
    let metered_loops = pluralize(count, "metered loop");
    let mut lines = vec![format!("{metered_loops}, the last {}", value_name(&view.window))];
    let mut footer = if view.has_help { Vec::new() } else { function_lines(loops) };
    footer.truncate(MAX_FUNCTIONS);
    footer.extend(footer_lines(faults));
    if view.has_help {
        lines.extend(HELP.map(str::to_owned));
    } else if count == 0 {
        lines.push("none is running as this user; see osjitter top --help".to_owned());
    } else {
        let table_lines = size.lines.saturating_sub(footer.len() + 1);
        lines.extend(table(loops, view, TerminalSize { lines: table_lines, ..size }));
    }
    lines.truncate(size.lines.saturating_sub(footer.len()));
    lines.extend(footer);
    lines.truncate(size.lines);
    lines.into_iter().map(|line| truncate(&line, size.columns)).collect()
}

/// Names the functions that ran during the last late tick of each loop, as far as they are known.
pub fn function_lines(loops: &Loops) -> Vec<String> {
    let mut lines = Vec::new();
    for metered in loops.iter() {
        if let Some(LateFunction { lateness, code }) = &metered.late_function {
            let name = to_printable_line(&metered.snapshot.name);
            let lateness = format_time(to_signed_ns(*lateness));
            lines.push(format!("{name}: {lateness} late, {}", late_code::describe(code)));
        }
    }
    lines
}

fn footer_lines(faults: &[String]) -> Vec<String> {
    let mut lines: Vec<String> =
        faults.iter().take(MAX_FAULTS).map(|fault| to_printable_line(fault)).collect();
    if faults.len() > MAX_FAULTS {
        lines.push(format!("and {} more that cannot be read", faults.len() - MAX_FAULTS));
    }
    lines.push("1 2 3 window  s sort  ? help  q quit".to_owned());
    lines
}

/// Renders a heading and a line per loop. If there are too many loops, the last line counts the
/// rest.
pub fn table(loops: &Loops, view: View, size: TerminalSize) -> Vec<String> {
    let layout = TableLayout::new(loops, size.columns);
    let mut heading = layout.heading(view.sort);
    let sparkline_width = size.columns.saturating_sub(heading.chars().count() + 1);
    if sparkline_width >= "P99/s".len() {
        heading += " P99/s";
    }
    let sparkline_width = sparkline_width.min(MAX_SPARKLINE_WIDTH);
    let mut lines = vec![heading];
    for metered in loops.iter() {
        let line = layout.line(metered, view) + " " + &sparkline(metered, sparkline_width);
        lines.push(line.trim_end().to_owned());
    }
    let excess = lines.len().saturating_sub(size.lines.max(1));
    if excess > 0 {
        lines.truncate(size.lines.max(1) - 1);
        lines.push(format!("and {} more", excess + 1));
    }
    lines.into_iter().map(|line| truncate(&line, size.columns)).collect()
}

/// The columns that fit a terminal.
struct TableLayout<'a> {
    columns: Vec<Column>,
    name_width: usize,
    has_program: bool,
    /// Number of loops per name.
    name_counts: BTreeMap<&'a str, u64>,
}

impl<'a> TableLayout<'a> {
    fn new(loops: &'a Loops, terminal_columns: usize) -> Self {
        let mut name_counts: BTreeMap<&str, u64> = BTreeMap::new();
        for l in loops.iter() {
            *name_counts.entry(&l.snapshot.name).or_default() += 1;
        }
        let columns = fitting_columns(terminal_columns);
        let available = terminal_columns.saturating_sub(total_width(&columns) + 1);
        let has_program = terminal_columns >= MIN_PROGRAM_COLUMNS;
        let mut layout = Self { columns, name_width: 0, has_program, name_counts };
        let names = loops.iter().map(|l| layout.label(l, usize::MAX).chars().count());
        let max_width = available.clamp(MIN_NAME_WIDTH, MAX_NAME_WIDTH);
        layout.name_width = names.max().unwrap_or(0).clamp(MIN_NAME_WIDTH, max_width);
        layout
    }

    /// Returns a loop's name, with its process if the name alone is ambiguous: two instances of a
    /// service have equal meters, and there may be no column that tells them apart.
    fn label(&self, metered: &MeteredLoop, columns: usize) -> String {
        let snapshot = &metered.snapshot;
        let is_ambiguous = !self.has_program
            && self.name_counts.get(&*snapshot.name).is_some_and(|count| *count > 1);
        label(&snapshot.name, is_ambiguous.then_some(snapshot.pid), columns)
    }

    fn heading(&self, sort: Sort) -> String {
        let name = if sort == Sort::Name { "*METER" } else { "METER" };
        let mut text = format!("{name:width$}", width = self.name_width);
        for Column { heading, width, .. } in &self.columns {
            let is_sorted = heading.eq_ignore_ascii_case(&value_name(&sort));
            let marked = if is_sorted { format!("*{heading}") } else { (*heading).to_owned() };
            text += &format!(" {marked:>width$}");
        }
        if self.has_program {
            text += &format!("  {:PROGRAM_WIDTH$}", "PROGRAM");
        }
        text
    }

    fn line(&self, metered: &MeteredLoop, view: View) -> String {
        let View { window, needs_whole_window, .. } = view;
        let has_numbers = metered.has(window) || !needs_whole_window;
        let width = self.name_width;
        let mut text = format!("{:width$}", self.label(metered, width));
        for Column { heading, width, format } in &self.columns {
            let cell = if has_numbers || *heading == PERIOD {
                format(metered, window)
            } else {
                or_dash(None)
            };
            text += &format!(" {cell:>width$}");
        }
        if self.has_program {
            let snapshot = &metered.snapshot;
            let program = format!("{} {}", snapshot.pid, to_printable_line(&snapshot.program));
            text += &format!("  {:PROGRAM_WIDTH$}", elide(&program, PROGRAM_WIDTH));
        }
        text
    }
}

/// Returns the columns that fit next to a name of minimum width.
fn fitting_columns(terminal_columns: usize) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    for omitted in OMITTED_FIRST {
        if MIN_NAME_WIDTH + total_width(&columns) > terminal_columns {
            columns.retain(|column| column.heading != omitted);
        }
    }
    columns
}

fn total_width(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width + 1).sum()
}

/// Formats a meter's name and process. If there are too few columns, the name is elided.
fn label(name: &str, pid: Option<u32>, columns: usize) -> String {
    let process = pid.map_or_else(String::new, |pid| format!(" {pid}"));
    elide(&to_printable_line(name), columns.saturating_sub(process.len())) + &process
}

/// Renders the p99 of the last seconds, scaled from zero to their maximum, with a gap for each
/// second without a tick, and for a longer time without a poll.
fn sparkline(metered: &MeteredLoop, width: usize) -> String {
    let skipped = metered.p99_history().len().saturating_sub(width);
    let seconds: Vec<Option<Duration>> = metered.p99_history().skip(skipped).collect();
    let max_ns = seconds.iter().flatten().max().map_or(1, |max| max.as_nanos().max(1));
    let level =
        |p99: Duration| LEVELS[(p99.as_nanos() * LEVELS.len() as u128 / (max_ns + 1)) as usize];
    seconds.into_iter().map(|p99| p99.map_or(' ', level)).collect()
}

/// Formats a period exactly if that is short.
fn format_period(length: Duration) -> String {
    let exact = format_exact_duration(length);
    if exact.len() <= 6 { exact } else { format_ns(Some(length)) }
}

fn lateness_quantile(metered: &MeteredLoop, window: Window, q: f64) -> String {
    format_ns(metered.stats(window).lateness.quantile(q))
}

/// Formats a time in at most seven characters if it is below 1000 s.
fn format_ns(value: Option<Duration>) -> String {
    or_dash(value.map(to_signed_ns).map(format_time))
}

/// Formats a count in at most five characters.
fn format_count(n: u64) -> String {
    match n {
        0..100_000 => n.to_string(),
        100_000..10_000_000 => format!("{}k", n / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", n / 1_000_000),
        _ => ">10G".to_owned(),
    }
}

/// Replaces the middle of a text that has more than `columns` characters: names of loops and
/// programs differ at their ends.
fn elide(text: &str, columns: usize) -> String {
    let length = text.chars().count();
    if length <= columns {
        return text.to_owned();
    }
    let Some(kept) = columns.checked_sub(1) else { return String::new() };
    let end = kept / 2;
    let start: String = text.chars().take(kept - end).collect();
    start + "…" + &text.chars().skip(length - end).collect::<String>()
}

fn truncate(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests;
