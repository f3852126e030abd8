//! A comparison for the terminal and for Markdown.

use std::fmt::Write as _;

use jitterstat::compare::{Compared, Comparison};

use crate::compare::view;
use crate::render::markdown::cell;
use crate::render::reading::wrap;
use crate::render::table::{WIDEST_PARAGRAPH, printable};
use crate::text::align::align;

/// For the terminal, 80 columns wide where the names are not longer.
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    let paragraph = |text: &mut String, says: &str| {
        if !says.is_empty() {
            *text += &wrap(says, WIDEST_PARAGRAPH);
        }
    };
    if let Some(forced) = view::forced(comparison) {
        paragraph(&mut text, &forced);
        text.push('\n');
    }
    for (i, compared) in comparison.subjects.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        let names = [("A", &compared.a.id, &comparison.a.file), ("B", &compared.b.id, &comparison.b.file)];
        for (side, id, file) in names {
            let _ = writeln!(text, "{side}  {id}\n   in {file}");
        }
        let (rows, marks) = numbers(compared);
        let _ = writeln!(text, "{}\n", view::method(compared));
        text += &align(&rows, 1);
        for (mark, means) in marks {
            let _ = writeln!(text, "{mark}: {means}");
        }
        text.push('\n');
        paragraph(&mut text, &view::reading(compared));
        paragraph(&mut text, &view::surroundings(compared));
    }
    for warning in &comparison.warnings {
        text.push('\n');
        paragraph(&mut text, &format!("{} {}", warning.message, warning.hint));
    }
    printable(&text)
}

/// Cells of the table, and the marks in it with what they mean.
fn numbers(compared: &Compared) -> (Vec<Vec<String>>, Vec<(&'static str, &'static str)>) {
    let rows = view::rows(compared);
    let unit = view::unit(&rows);
    let heading = [unit.symbol(), "A", "B", "B/A, 95 %", "B-A, 95 %", "rounds"];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    for row in &rows {
        let of = row.estimate;
        cells.push(vec![
            row.name.clone(),
            unit.format(of.a_ns),
            unit.format(of.b_ns),
            view::ratio_with_interval(of),
            view::difference_with_interval(of, Some(unit)),
            view::rounds(of),
        ]);
    }
    let used = |mark: &str| rows.iter().any(|row| row.name.ends_with(mark));
    (cells, [view::QUIET, view::CONTROL].into_iter().filter(|(mark, _)| used(mark)).collect())
}

/// For a pull request or a step summary.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = "### Lateness of B against A\n".to_owned();
    if let Some(forced) = view::forced(comparison) {
        let _ = writeln!(text, "\n> **{}**", cell(&forced));
    }
    for compared in &comparison.subjects {
        let (a, b) = (&compared.a.id, &compared.b.id);
        let (of_a, of_b) = (&comparison.a, &comparison.b);
        let _ = writeln!(
            text,
            "\nA: {} in {}, {}  \nB: {} in {}, {}\n",
            cell(a),
            cell(&of_a.file),
            cell(&of_a.started_utc),
            cell(b),
            cell(&of_b.file),
            cell(&of_b.started_utc)
        );
        text += "| Percentile | A | B | B/A, 95 % | B-A, 95 % | Rounds | |\n|---|---:|---:|---:|---:|---:|---|\n";
        let rows = view::rows(compared);
        for row in &rows {
            let of = row.estimate;
            let (a, b) = (crate::text::time::time(of.a_ns), crate::text::time::time(of.b_ns));
            let (ratio, difference) = (view::ratio_with_interval(of), view::difference_with_interval(of, None));
            let (rounds, finding) = (view::rounds(of), view::finding(of.finding));
            let _ = writeln!(
                text,
                "| {} | {a} | {b} | {} | {} | {rounds} | {finding} |",
                cell(&row.name),
                cell(&ratio),
                cell(&difference)
            );
        }
        let marks = [view::QUIET, view::CONTROL].into_iter();
        let used: Vec<String> = marks
            .filter(|(mark, _)| rows.iter().any(|row| row.name.ends_with(mark)))
            .map(|(mark, means)| format!(" {mark}: {means}."))
            .collect();
        let _ = writeln!(text, "\nCompared {}.{}", view::method(compared), used.concat());
        let _ = writeln!(text, "{}", cell(&view::surroundings(compared)));
    }
    for warning in &comparison.warnings {
        let _ = writeln!(text, "\n> **{}** {} {}", cell(&warning.code), cell(&warning.message), cell(&warning.hint));
    }
    text
}

/// What is said aloud of a comparison that had to be forced; empty for any other.
pub fn forced(comparison: &Comparison) -> String {
    view::forced(comparison).unwrap_or_default()
}
