//! Markdown from untrusted text.

use crate::printable::to_printable;

/// Formats a table. The first row is the heading; the first `left_columns` columns are aligned to
/// the left.
pub fn format_table(rows: &[Vec<String>], left_columns: usize) -> String {
    let line = |row: &Vec<String>| {
        format!("| {} |\n", row.iter().map(|c| escape_cell(c)).collect::<Vec<_>>().join(" | "))
    };
    let Some((heading, body)) = rows.split_first() else { return String::new() };
    let rule: String =
        (0..heading.len()).map(|c| if c < left_columns { "---|" } else { "---:|" }).collect();
    format!("{}|{rule}\n{}", line(heading), body.iter().map(line).collect::<String>())
}

/// Escapes text so that it cannot end its table cell or become an HTML tag.
pub fn escape_cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Puts text into a code block whose fence is longer than any run of backticks in the text.
pub fn format_block(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", to_printable(text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_cannot_end_its_block() {
        assert_eq!(
            super::format_block("a\n```\n<b>\u{1b}"),
            "````text\na\n```\n<b>\u{fffd}\n````\n"
        );
    }

    #[test]
    fn text_cannot_end_its_cell() {
        assert_eq!(super::escape_cell("a|b<img>\nc_d"), "a\\|b&lt;img> c\\_d");
    }
}
