//! Loops as lines of text: pure.

use std::collections::HashMap;
use std::time::Duration;

use clap::ValueEnum;
use cli::printable::to_printable_line;
use cli::time::format_time;
use cli::units::format_exact_duration;

use crate::top::figures::{Loop, Loops, Sort, Window};

/// A terminal narrower than this shows fewer figures.
const WIDE: usize = 100;
/// Names take from so many columns ...
const MIN_NAME: usize = 8;
/// ... to so many.
const MAX_NAME: usize = 24;
/// Figures that a terminal too narrow for all goes without, the first of them first.
const FIRST_TO_GO: [&str; 5] = ["SLOW", "WORK", "PERIOD", "P50", "MAX"];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A heading, its width, and what it shows.
type Column = (&'static str, usize, fn(&Loop, Window) -> String);

const FIGURES: [Column; 7] = [
    ("PERIOD", 7, |of, _| period(of.now.period)),
    ("P50", 7, |of, window| ns(of.of(window).lateness.quantile(0.5))),
    ("P99", 7, |of, window| ns(of.of(window).lateness.quantile(0.99))),
    ("MAX", 7, |of, window| ns(of.of(window).lateness.max())),
    ("MISSED", 7, |of, window| count(of.of(window).missed)),
    ("SLOW", 5, |of, window| count(of.of(window).missed_by_work)),
    ("WORK", 7, |of, window| ns(of.of(window).work.quantile(0.99))),
];

/// The whole screen: at most `lines` lines of at most `columns` characters.
pub fn screen(
    loops: &Loops,
    window: Window,
    sort: Sort,
    faults: &[String],
    [columns, lines]: [usize; 2],
) -> Vec<String> {
    let number = loops.iter().count();
    let plural = if number == 1 { "" } else { "s" };
    let mut all = vec![format!("{number} metered loop{plural}, the last {}", name(&window))];
    let mut below: Vec<String> =
        faults.iter().take(2).map(|fault| to_printable_line(fault)).collect();
    if faults.len() > 2 {
        below.push(format!("and {} more that cannot be read", faults.len() - 2));
    }
    below.push("1 2 3 window  s sort  q quit".to_owned());
    if number == 0 {
        all.push("none is running as this user; see osjitter top --help".to_owned());
    } else {
        all.extend(table(loops, window, sort, columns, lines.saturating_sub(below.len() + 1)));
    }
    all.truncate(lines.saturating_sub(below.len()));
    all.extend(below);
    all.truncate(lines);
    all.into_iter().map(|line| cut(&line, columns)).collect()
}

/// A heading and a line a loop; where there are more, the last line says how many.
pub fn table(
    loops: &Loops,
    window: Window,
    sort: Sort,
    columns: usize,
    lines: usize,
) -> Vec<String> {
    let process = columns >= WIDE;
    let mut namesakes: HashMap<&str, u64> = HashMap::new();
    loops.iter().for_each(|of| *namesakes.entry(&of.now.name).or_default() += 1);
    // Two instances of a service have the same meters: which is whose, where no column says it.
    let pid = |of: &Loop| (!process && namesakes[&*of.now.name] > 1).then_some(of.now.pid);
    let names = loops
        .iter()
        .map(|of| label(&of.now.name, pid(of), usize::MAX).chars().count())
        .max()
        .unwrap_or(0);
    let mut figures = FIGURES.to_vec();
    let width = |figures: &[Column]| figures.iter().map(|(_, width, _)| width + 1).sum::<usize>();
    for goes in FIRST_TO_GO {
        if MIN_NAME + width(&figures) > columns {
            figures.retain(|(heading, ..)| *heading != goes);
        }
    }
    let most = columns.saturating_sub(width(&figures) + 1).clamp(MIN_NAME, MAX_NAME);
    let name_width = names.clamp(MIN_NAME, most);
    let heading = |mut text: String| {
        for (heading, width, _) in &figures {
            let marked = if heading.eq_ignore_ascii_case(&name(&sort)) {
                format!("*{heading}")
            } else {
                (*heading).to_owned()
            };
            text += &format!(" {marked:>width$}");
        }
        if process {
            text += &format!("  {:24}", "PROGRAM");
        }
        text
    };
    let meter = if sort == Sort::Name { "*METER" } else { "METER" };
    let mut all = vec![heading(format!("{meter:name_width$}"))];
    let room = columns.saturating_sub(all[0].chars().count() + 1);
    if room >= "P99/s".len() {
        all[0] += " P99/s";
    }
    for of in loops.iter() {
        let mut line = format!("{:name_width$}", label(&of.now.name, pid(of), name_width));
        for (_, width, figure) in &figures {
            line += &format!(" {:>width$}", figure(of, window));
        }
        if process {
            let program = format!("{} {}", of.now.pid, to_printable_line(&of.now.program));
            line += &format!("  {:24}", cut(&program, 24));
        }
        line += " ";
        line += &sparkline(of, room.min(60));
        all.push(line.trim_end().to_owned());
    }
    let more = all.len().saturating_sub(lines.max(1));
    if more > 0 {
        all.truncate(lines.max(1) - 1);
        all.push(format!("and {} more", more + 1));
    }
    all.into_iter().map(|line| cut(&line, columns)).collect()
}

/// A meter's name, and whose it is where that is asked for: the end of the name goes first.
fn label(name: &str, pid: Option<u32>, columns: usize) -> String {
    let process = pid.map_or_else(String::new, |pid| format!(" {pid}"));
    cut(&to_printable_line(name), columns.saturating_sub(process.len())) + &process
}

/// The p99 of the last seconds, from zero to the largest of them; a gap where no tick came.
fn sparkline(of: &Loop, room: usize) -> String {
    let from = of.course().len().saturating_sub(room);
    let seconds: Vec<Option<Duration>> = of.course().skip(from).collect();
    let most = seconds.iter().flatten().max().map_or(1, |most| most.as_nanos().max(1));
    let level =
        |p99: Duration| LEVELS[(p99.as_nanos() * LEVELS.len() as u128 / (most + 1)) as usize];
    seconds.into_iter().map(|p99| p99.map_or(' ', level)).collect()
}

/// Exact where that is short.
fn period(length: Duration) -> String {
    let exact = format_exact_duration(length);
    if exact.len() <= 6 { exact } else { ns(Some(length)) }
}

/// In at most seven characters, below 1000 s.
fn ns(value: Option<Duration>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| format_time(i64::try_from(value.as_nanos()).unwrap_or(i64::MAX)),
    )
}

/// In at most five characters.
fn count(n: u64) -> String {
    match n {
        0..100_000 => n.to_string(),
        100_000..10_000_000 => format!("{}k", n / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", n / 1_000_000),
        _ => ">10G".to_owned(),
    }
}

fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests;
