//! Wrapping of text.

/// Maximum width of a paragraph without a table next to it. Longer lines are hard to follow.
pub const MAX_PARAGRAPH_WIDTH: usize = 80;

/// Units, which stay on the line of the number before them.
const UNITS: [&str; 5] = ["%", "ns", "us", "ms", "s"];

/// Breaks text at spaces into lines of at most `width` characters.
///
/// Text is never broken between a number and its unit.
pub fn wrap(text: &str, width: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(number) if UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':'])) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines = String::new();
    let mut used = 0;
    for word in words {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push('\n');
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(&word);
        used += length;
    }
    if used > 0 {
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrap("one two three four", 9), "one two\nthree\nfour\n");
        assert_eq!(wrap("", 9), "");
        assert_eq!(wrap("late by 5 us.", 9), "late by\n5 us.\n", "a number keeps its unit");
    }
}
