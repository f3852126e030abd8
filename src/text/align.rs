//! Text in columns.

/// The first `left` columns to the left, the others to the right.
pub fn align(rows: &[Vec<String>], left: usize) -> String {
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|c| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(c, (cell, w))| if c < left { format!("{cell:<w$}") } else { format!("{cell:>w$}") })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
