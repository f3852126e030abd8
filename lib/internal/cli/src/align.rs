//! Tables of text with aligned columns.

/// Space between two columns, and the indentation of a value below its name.
const GAP: &str = "  ";

/// Aligns the first `left_columns` columns to the left and the others to the right.
pub fn align<R: AsRef<[String]>>(rows: &[R], left_columns: usize) -> String {
    align_by(rows, |column| column < left_columns)
}

/// Aligns the columns that `is_left` selects to the left and the others to the right.
pub fn align_by<R: AsRef<[String]>>(rows: &[R], is_left: impl Fn(usize) -> bool) -> String {
    let widths = column_widths(rows);
    let mut text = String::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).enumerate();
        let cells = cells.map(
            |(c, (cell, w))| if is_left(c) { pad_right(cell, *w) } else { pad_left(cell, *w) },
        );
        text += cells.collect::<Vec<_>>().join(GAP).trim_end();
        text.push('\n');
    }
    text
}

/// Formats a heading and rows, each a name and its values, for a terminal of `columns` columns.
///
/// The first of three layouts that fits is used: one line per row; the name above its values; the
/// name above one line per value. Every layout contains all values.
pub fn fit(rows: &[Vec<String>], columns: usize) -> String {
    let fits = |text: &str| text.lines().all(|line| line.chars().count() <= columns);
    let table = align(rows, 1);
    if fits(&table) {
        return table;
    }
    let unnamed: Vec<Vec<String>> =
        rows.iter().map(|row| [&[String::new()], &row[1..]].concat()).collect();
    let values = align(&unnamed, 1);
    if fits(&values) { names_above_values(rows, &values, columns) } else { stack(rows, columns) }
}

/// Puts the name of each row on a line of its own, above the line of its aligned values.
fn names_above_values(rows: &[Vec<String>], values: &str, columns: usize) -> String {
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
fn stack(rows: &[Vec<String>], columns: usize) -> String {
    let [heading, rows @ ..] = rows else { return String::new() };
    let label_width = heading.iter().skip(1).map(|h| h.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        text += &break_into_lines(&row[0], columns);
        for (label, value) in heading.iter().zip(row).skip(1) {
            text += &format!("{GAP}{}{GAP}{value}\n", pad_right(label, label_width));
        }
    }
    text
}

/// Returns the number of characters in the longest cell of each column.
fn column_widths<R: AsRef<[String]>>(rows: &[R]) -> Vec<usize> {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width = |c: usize| rows.iter().map(|r| r.as_ref()[c].chars().count()).max().unwrap_or(0);
    (0..columns).map(width).collect()
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
    " ".repeat(width.saturating_sub(cell.chars().count()))
}

/// Breaks a name into lines of at most `columns` characters.
fn break_into_lines(name: &str, columns: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    characters.chunks(columns.max(1)).map(|line| line.iter().collect::<String>() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
