//! Text in columns.

/// Between two columns, and before a figure below its name.
const GAP: &str = "  ";

/// The first `left` columns to the left, the others to the right.
pub fn align<R: AsRef<[String]>>(rows: &[R], left: usize) -> String {
    align_by(rows, |column| column < left)
}

/// The columns that `is_left` names to the left, the others to the right.
pub fn align_by<R: AsRef<[String]>>(rows: &[R], is_left: impl Fn(usize) -> bool) -> String {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width = |c: usize| rows.iter().map(|r| r.as_ref()[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
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

/// Rows under a heading, each a name and its figures, in the first of three shapes that fits: a
/// line a row; the name above its figures; the name above a line for each figure. No figure is ever
/// left out for want of room.
pub fn fit(rows: &[Vec<String>], columns: usize) -> String {
    let fits = |text: &str| text.lines().all(|line| line.chars().count() <= columns);
    let wide = align(rows, 1);
    if fits(&wide) {
        return wide;
    }
    let figures: Vec<Vec<String>> =
        rows.iter().map(|row| [&[String::new()], &row[1..]].concat()).collect();
    let below = align(&figures, 1);
    if fits(&below) {
        let names = rows.iter().map(|row| chunks(&row[0], columns));
        let line = |line: &str| if line.is_empty() { String::new() } else { format!("{line}\n") };
        return names.zip(below.lines()).map(|(name, figures)| name + &line(figures)).collect();
    }
    let [heading, rows @ ..] = rows else { return String::new() };
    let label = heading.iter().skip(1).map(|h| h.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        text += &chunks(&row[0], columns);
        for (name, figure) in heading.iter().zip(row).skip(1) {
            text += &format!("{GAP}{}{GAP}{figure}\n", pad_right(name, label));
        }
    }
    text
}

/// A cell with room behind it. Format widths end at 65,535, and a name in a file may be longer.
pub fn pad_right(cell: &str, width: usize) -> String {
    format!("{cell}{}", padding(cell, width))
}

/// A cell with room before it.
fn pad_left(cell: &str, width: usize) -> String {
    format!("{}{cell}", padding(cell, width))
}

fn padding(cell: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(cell.chars().count()))
}

/// A name in lines of at most `columns` characters.
fn chunks(name: &str, columns: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    characters.chunks(columns.max(1)).map(|line| line.iter().collect::<String>() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_is_stacked_and_loses_nothing() {
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
    fn a_name_may_be_longer_than_a_format_is_wide() {
        let rows = ["x".repeat(70_000), "y".to_owned()]
            .map(|name| vec![name, "1".to_owned(), "2".to_owned()]);
        for columns in [80, 200_000] {
            assert!(fit(&rows, columns).matches('1').count() >= 1);
        }
        assert_eq!(align(&rows, 1).lines().nth(1).map(str::len), Some(70_000 + 6));
    }
}
