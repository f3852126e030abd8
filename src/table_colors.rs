//! Colours in the tables of reports: the rating of the machine, the best cells, and the columns that
//! are not trusted.

use std::ops::Range;

use crate::terminal::{self, Style};

/// Ratings of the machine, with which the text of a report begins.
const RATINGS: [(&str, Style); 3] = [
    ("Quiet machine", Style::Good),
    ("Noisy machine", Style::Doubtful),
    ("Unfit machine", Style::Bad),
];
/// Space between two columns.
const GAP: &str = "  ";
/// Mark of the best cells.
const BEST: char = '*';
/// Mark of the headings of columns that are not trusted.
const DISTRUSTED: char = '?';

/// Returns the text of reports in colours if standard output has them.
pub fn paint_for_stdout(text: String) -> String {
    if terminal::stdout_has_color() { paint(&text) } else { text }
}

/// Paints the text of reports. A text without a table does not change.
fn paint(text: &str) -> String {
    let mut painted = String::new();
    let mut columns: Option<Vec<Column>> = None;
    for line in text.lines() {
        match &columns {
            Some(table) if is_row(line) => painted += &paint_row(line, table),
            _ => {
                columns = find_columns(line);
                painted += &columns
                    .as_ref()
                    .map_or_else(|| paint_rating(line), |table| paint_row(line, table));
            }
        }
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

/// A column of values in a table of aligned columns.
#[derive(Debug, PartialEq)]
struct Column {
    /// Characters from the end of the previous column to the end of this one.
    range: Range<usize>,
    is_distrusted: bool,
}

/// Finds the columns below a heading; `None` if the line is not the heading of a report's table,
/// which begins with `subject`, or with blanks on a narrow terminal.
fn find_columns(line: &str) -> Option<Vec<Column>> {
    let names = line.strip_prefix("subject").unwrap_or(line);
    if !names.starts_with(GAP) {
        return None;
    }
    let chars: Vec<char> = line.chars().collect();
    let mut columns = Vec::new();
    let mut start = chars.len() - names.chars().count();
    let is_end =
        |at: usize| chars.len() == at || (chars[at] == ' ' && chars.get(at + 1) == Some(&' '));
    for end in start + 1..=chars.len() {
        if chars[end - 1] != ' ' && is_end(end) {
            let is_distrusted = chars[start..end].contains(&DISTRUSTED);
            columns.push(Column { range: start..end, is_distrusted });
            start = end;
        }
    }
    (!columns.is_empty()).then_some(columns)
}

/// Whether a line below a heading can be a row: notes begin with a mark, and an empty line ends the
/// table.
fn is_row(line: &str) -> bool {
    !line.is_empty() && !line.starts_with([BEST, DISTRUSTED]) && line.contains(GAP)
}

fn paint_row(line: &str, columns: &[Column]) -> String {
    let chars: Vec<char> = line.chars().collect();
    let text = |range: Range<usize>| -> String {
        chars.iter().take(range.end).skip(range.start).collect()
    };
    let first = columns.first().map_or(0, |column| column.range.start);
    let last = columns.last().map_or(0, |column| column.range.end);
    let mut painted = text(0..first);
    for column in columns {
        painted += &paint_cell(&text(column.range.clone()), column.is_distrusted);
    }
    painted + &text(last..chars.len())
}

fn paint_cell(cell: &str, is_distrusted: bool) -> String {
    // The first column begins below its heading, so a name may reach into it.
    let (margin, value) = cell.split_at(cell.rfind(GAP).map_or(0, |at| at + GAP.len()));
    let style = match value.starts_with(BEST) {
        _ if value.is_empty() => return cell.to_owned(),
        true => Style::Good,
        false if is_distrusted => Style::Faint,
        false => return cell.to_owned(),
    };
    format!("{margin}{}", style.paint(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Noisy machine: other programs ran. Trust p50.
Lateness and CPU time per tick; period 500us
subject         p50  p99.9?     CPU
os-interval  *52 us  661 us   35 us
spin          88 ns  320 us  500 us
* least late
? not trusted

Words with  two blanks.
";

    #[test]
    fn marked_cells_have_colors() {
        let painted = paint(TABLE);
        for part in [
            "\x1b[33mNoisy machine\x1b[0m: other",
            "\x1b[2mp99.9?\x1b[0m     CPU",
            "\x1b[32m*52 us\x1b[0m  \x1b[2m661 us\x1b[0m   35 us",
            "88 ns  \x1b[2m320 us\x1b[0m  500 us",
            "\n* least late\n? not trusted\n\nWords with  two blanks.\n",
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
            assert_eq!(find_columns(line), None, "{line:?}");
        }
        let narrow = find_columns("             p50  max?").unwrap();
        assert_eq!(narrow.len(), 2);
        assert!(!narrow[0].is_distrusted && narrow[1].is_distrusted);
    }
}
