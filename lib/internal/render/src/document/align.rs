//! Tables of text with aligned columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Space between two columns, and the indentation of a value below its name.
pub const GAP: &str = "  ";

/// Aligns the first `left_columns` columns to the left and the others to the right.
pub fn align<R: AsRef<[String]>>(rows: &[R], left_columns: usize) -> String {
    align_by(rows, |column| column < left_columns)
}

/// Aligns the columns that `is_left` selects to the left and the others to the right.
pub fn align_by<R: AsRef<[String]>>(rows: &[R], is_left: impl Fn(usize) -> bool) -> String {
    let widths = column_widths(rows);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.as_ref().iter().zip(&widths).enumerate() {
            if column > 0 {
                line += GAP;
            }
            line += &if is_left(column) { pad_right(cell, *width) } else { pad_left(cell, *width) };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Returns whether no line is wider than `columns`.
pub fn fits(text: &str, columns: usize) -> bool {
    text.lines().all(|line| line.width() <= columns)
}

/// Formats a heading and rows, each a name and its values, for a terminal of `columns` columns: the
/// name above its aligned values if these fit, otherwise the name above one line per value.
pub fn stack(rows: &[&[String]], is_left: impl Fn(usize) -> bool, columns: usize) -> String {
    let mut values = Vec::new();
    for row in rows {
        values.push([&[String::new()], &row[1..]].concat());
    }
    let values = align_by(&values, is_left);
    if fits(&values, columns) {
        names_above_values(rows, &values, columns)
    } else {
        one_value_per_line(rows, columns)
    }
}

/// Puts the name of each row on a line of its own, above the line of its aligned values.
fn names_above_values(rows: &[&[String]], values: &str, columns: usize) -> String {
    let mut text = String::new();
    for (row, values) in rows.iter().zip(values.lines()) {
        text += &break_into_lines(&row[0], columns);
        if !values.is_empty() {
            text += values;
            text.push('\n');
        }
    }
    text
}

/// Puts each value on a line of its own, labelled with the heading of its column.
fn one_value_per_line(rows: &[&[String]], columns: usize) -> String {
    let [heading, rows @ ..] = rows else { return String::new() };
    let label_width = heading.iter().skip(1).map(|label| label.width()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        text += &break_into_lines(&row[0], columns);
        for (label, value) in heading.iter().zip(*row).skip(1) {
            text += &format!("{GAP}{}{GAP}{value}\n", pad_right(label, label_width));
        }
    }
    text
}

/// Returns the width of the widest cell of each column.
fn column_widths<R: AsRef<[String]>>(rows: &[R]) -> Vec<usize> {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row.as_ref()) {
            *width = cell.width().max(*width);
        }
    }
    widths
}

/// Appends spaces to a cell.
///
/// Format widths are limited to 65,535, and a name in a file may be longer.
pub fn pad_right(cell: &str, width: usize) -> String {
    format!("{cell}{}", padding(cell, width))
}

/// Puts spaces in front of a cell.
fn pad_left(cell: &str, width: usize) -> String {
    format!("{}{cell}", padding(cell, width))
}

fn padding(cell: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(cell.width()))
}

/// Breaks a name into lines that are at most `columns` wide. A wide character in a single column
/// has a line of its own.
fn break_into_lines(name: &str, columns: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for c in name.chars() {
        let width = c.width().unwrap_or(0);
        if used > 0 && used + width > columns {
            text.push('\n');
            used = 0;
        }
        text.push(c);
        used += width;
    }
    if used > 0 {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aligns rows if they fit, and stacks them otherwise.
    fn fit(rows: &[Vec<String>], columns: usize) -> String {
        let table = align(rows, 1);
        let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
        if fits(&table, columns) { table } else { stack(&rows, |column| column == 0, columns) }
    }

    #[test]
    fn wide_tables_are_stacked() {
        let rows = [["subject", "p50", "max"], ["os-interval", "14.2", "1254"]]
            .map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(fit(&rows, 80), "subject       p50   max\nos-interval  14.2  1254\n");
        assert_eq!(fit(&rows, 12), "subject\n   p50   max\nos-interval\n  14.2  1254\n");
        assert_eq!(fit(&rows, 11), "os-interval\n  p50  14.2\n  max  1254\n");
        assert_eq!(fit(&rows, 6), "os-int\nerval\n  p50  14.2\n  max  1254\n");
        assert_eq!(
            align_by(&rows, |c| c != 1),
            "subject       p50  max\nos-interval  14.2  1254\n"
        );
    }

    #[test]
    fn very_long_names_are_aligned() {
        let rows = ["x".repeat(70_000), "y".to_owned()]
            .map(|name| vec![name, "1".to_owned(), "2".to_owned()]);
        for columns in [80, 200_000] {
            assert!(fit(&rows, columns).matches('1').count() >= 1);
        }
        assert_eq!(align(&rows, 1).lines().nth(1).map(str::len), Some(70_000 + 6));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let rows = [["名前", "1"], ["cafe\u{301}", "22"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(align(&rows, 1), "名前   1\ncafe\u{301}  22\n");
        assert_eq!(fit(&rows, 3), "caf\ne\u{301}\n  1  22\n");
    }
}
