//! Colours in the tables of reports: the rating of the machine, the best cells, and the columns
//! that are not trusted.

use std::ops::Range;

use cli::terminal;
use cli::terminal::Style;

/// Ratings of the machine, which precede the table of a report.
const RATINGS: [(&str, Style); 3] = [
    ("Quiet machine", Style::Good),
    ("Noisy machine", Style::Doubtful),
    ("Unfit machine", Style::Bad),
];
/// Space between two columns.
const GAP: &str = "  ";
/// Mark of the best cells.
const BEST: char = '*';
/// Mark of the headings of columns, and of the cells, that are not trusted.
const DISTRUSTED: char = '?';

/// Returns the text of reports in colours if standard output has them.
pub fn paint_for_stdout(text: String) -> String {
    if terminal::stdout_has_color() { paint(&text) } else { text }
}

/// Paints the text of reports. A text without a table does not change.
fn paint(text: &str) -> String {
    let mut painted = String::new();
    let mut distrusted: Option<Vec<usize>> = None;
    for line in text.lines() {
        if distrusted.is_none() || !is_row(line) {
            distrusted = find_distrusted(line);
        }
        painted += &match &distrusted {
            Some(ends) => paint_row(line, ends),
            None => paint_rating(line),
        };
        painted.push('\n');
    }
    painted
}

fn paint_rating(line: &str) -> String {
    for (rating, style) in RATINGS {
        if let Some(rest) = line.strip_prefix(rating) {
            return style.paint(rating) + rest;
        }
    }
    line.to_owned()
}

/// Returns the positions at which the columns end that are not trusted; `None` if the line is not
/// the heading of a report's table, which begins with `subject`, or with blanks on a narrow
/// terminal.
fn find_distrusted(line: &str) -> Option<Vec<usize>> {
    let values = find_values(line);
    let is_heading = line.strip_prefix("subject").unwrap_or(line).starts_with(GAP);
    if !is_heading || values.is_empty() {
        return None;
    }
    let distrusted = values.into_iter().filter(|value| line[value.clone()].contains(DISTRUSTED));
    Some(distrusted.map(|value| column_end(line, &value)).collect())
}

/// Finds the values of a row, or the names of a heading, without the name of the subject.
fn find_values(line: &str) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let mut start = 0;
    while start < line.len() {
        let end = line[start..].find(GAP).map_or(line.len(), |at| start + at);
        if start > 0 {
            values.push(start..end);
        }
        start = line.len() - line[end..].trim_start().len();
    }
    values
}

/// Returns the number of characters to the end of a value. Values and headings of a column end at
/// the same one.
fn column_end(line: &str, value: &Range<usize>) -> usize {
    line[..value.end].chars().count()
}

/// Whether a line below a heading can be a row: notes begin with a mark, and an empty line ends the
/// table.
fn is_row(line: &str) -> bool {
    !line.is_empty() && !line.starts_with([BEST, DISTRUSTED]) && line.contains(GAP)
}

fn paint_row(line: &str, distrusted: &[usize]) -> String {
    let mut painted = String::new();
    let mut end = 0;
    for value in find_values(line) {
        let text = &line[value.clone()];
        painted += &line[end..value.start];
        let is_distrusted =
            text.ends_with(DISTRUSTED) || distrusted.contains(&column_end(line, &value));
        painted += &match text.starts_with(BEST) {
            true => Style::Good.paint(text),
            false if is_distrusted => Style::Faint.paint(text),
            false => text.to_owned(),
        };
        end = value.end;
    }
    painted + &line[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Noisy machine: other programs ran. Trust p50.
Lateness and CPU time per tick; period 500us
subject         p50  p99.9?   missed     CPU
os-interval  *52 us  661 us  0.15 %?   35 us
spin          88 ns  320 us   60.0 %  500 us
* lowest p90
? unreliable

Words with  two blanks.
";

    #[test]
    fn marked_cells_have_colors() {
        let painted = paint(TABLE);
        for part in [
            "\x1b[33mNoisy machine\x1b[0m: other",
            "\x1b[2mp99.9?\x1b[0m   missed     CPU",
            "\x1b[32m*52 us\x1b[0m  \x1b[2m661 us\x1b[0m  \x1b[2m0.15 %?\x1b[0m   35 us",
            "88 ns  \x1b[2m320 us\x1b[0m   60.0 %  500 us",
            "\n* lowest p90\n? unreliable\n\nWords with  two blanks.\n",
        ] {
            assert!(painted.contains(part), "{part:?} in {painted}");
        }
    }

    #[test]
    fn colors_change_no_character() {
        let mut plain = paint(TABLE);
        for code in ["\x1b[0m", "\x1b[1;31m", "\x1b[2m", "\x1b[32m", "\x1b[33m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, TABLE);
    }

    #[test]
    fn prose_has_no_columns() {
        for line in ["", "subject", "a line of words", "subjects  of a list"] {
            assert_eq!(find_distrusted(line), None, "{line:?}");
        }
        assert_eq!(find_distrusted("             p50  max?"), Some(vec![22]));
    }
}
