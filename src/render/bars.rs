//! `--histogram`: percentiles and a histogram of each subject, drawn with characters.

use cli::printable::to_printable;
use cli::time::format_time;
use cli::wrap::wrap;
use files::report::{Report, Subject};

use crate::render::classes::{self, Class};
use crate::render::label::labels;
use crate::render::samples::Lateness;
use crate::render::{overflow, percentile, quantity};

const CELL: &str = "\u{2588}";
/// Least cells of a bar; a terminal that has no room for them gets longer lines.
const MIN_CELLS: usize = 8;
/// So many empty classes in a row are one line.
const RUN_OF_EMPTY: usize = 3;

/// Every measured subject of a report, on scales that are the same for all of them.
pub fn text(report: &Report, columns: usize) -> String {
    let gaps = quantity::is_gaps(report);
    let what = if gaps { "turns" } else { "ticks" };
    let scales =
        "by percentile, on a logarithmic scale, and as a histogram, with bars in proportion";
    let mut text = wrap(&format!("{} {scales}", quantity::name(report)), columns);
    let d = |s: &'_ Subject| s.summary.as_ref().map(|m| (m.lateness_ns.min, m.lateness_ns.max));
    let low = report.subjects.iter().filter_map(d).map(|(min, _)| min.max(1)).min().unwrap_or(1);
    let high = report.subjects.iter().filter_map(d).map(|(_, max)| max.max(1)).max().unwrap_or(1);
    for (subject, name) in report.subjects.iter().zip(labels(report).names) {
        let Some(summary) = &subject.summary else { continue };
        text +=
            &format!("\n{name}: {} {what}\n", summary.ticks - summary.skipped.min(summary.ticks));
        let d = &summary.lateness_ns;
        let known = percentile::supported(d).map(|(p, ns)| (p.label, ns));
        for (name, ns) in [("min", d.min)].into_iter().chain(known).chain([("max", d.max)]) {
            let head = format!("{name:>8}  {:>9}  ", format_time(ns));
            // Where the least of all subjects lies there is no bar left: one cell is, so that
            // nothing looks missing.
            let cells = classes::of_time(ns, low, high, room(&head, columns)).max(1);
            text += &format!("{head}{}\n", CELL.repeat(cells));
        }
        let values = Lateness::of(subject);
        text += &histogram(&values, what, columns);
        text.extend(overflow::says(subject).map(|above| wrap(&above, columns)));
    }
    to_printable(&text)
}

/// Cells that a line has left for its bar.
fn room(head: &str, columns: usize) -> usize {
    columns.saturating_sub(head.chars().count()).max(MIN_CELLS)
}

fn histogram(values: &Lateness, what: &str, columns: usize) -> String {
    let classes = classes::classes(values);
    if classes.is_empty() {
        return String::new();
    }
    let most = classes.iter().map(|c| c.count).max().unwrap_or(1);
    let digits = most.to_string().len().max(what.len());
    let mut text = format!("{:>8}  {:>9}  {what:>digits$}\n", "", "from");
    for run in classes.chunk_by(|a, b| a.count == 0 && b.count == 0) {
        if run.len() >= RUN_OF_EMPTY {
            text += &format!("{:>8}  {:>9}  {:>digits$}\n", "", "...", 0);
            continue;
        }
        for Class { from, count } in run {
            // What is early or on time has no place on a logarithmic scale.
            let from = if *from == i64::MIN { "0 or less".to_owned() } else { format_time(*from) };
            let head = format!("{:>8}  {from:>9}  {count:>digits$}  ", "");
            let bar = CELL.repeat(classes::of_count(*count, most, room(&head, columns)));
            text += format!("{head}{bar}").trim_end();
            text.push('\n');
        }
    }
    text
}
