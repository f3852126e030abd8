//! Markdown that text from a file cannot break.

use crate::printable::to_printable;

/// A table: the first row is the heading, the first `left` columns stand to the left.
pub fn format_table(rows: &[Vec<String>], left: usize) -> String {
    let line = |row: &Vec<String>| {
        format!("| {} |\n", row.iter().map(|c| escape_cell(c)).collect::<Vec<_>>().join(" | "))
    };
    let Some((heading, body)) = rows.split_first() else { return String::new() };
    let rule: String =
        (0..heading.len()).map(|c| if c < left { "---|" } else { "---:|" }).collect();
    format!("{}|{rule}\n{}", line(heading), body.iter().map(line).collect::<String>())
}

/// Text that cannot break out of its cell, nor become a tag.
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

/// Text as it is, in a block that nothing in it can end.
pub fn format_block(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", to_printable(text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_block_stays_a_block() {
        assert_eq!(
            super::format_block("a\n```\n<b>\u{1b}"),
            "````text\na\n```\n<b>\u{fffd}\n````\n"
        );
    }

    #[test]
    fn a_cell_stays_a_cell() {
        assert_eq!(super::escape_cell("a|b<img>\nc_d"), "a\\|b&lt;img> c\\_d");
    }
}
