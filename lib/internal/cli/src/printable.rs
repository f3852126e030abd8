//! Text from files and programs, made safe for a terminal.

/// Maximum number of characters of a message that are shown.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Replaces control characters, Unicode's own separators of lines, and characters that change the
/// writing direction. Line breaks stay.
pub fn to_printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_terminal_control(c) && c != '\n' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Like [`to_printable`] for text within a line: line breaks are replaced as well.
pub fn to_printable_line(text: &str) -> String {
    to_printable(text).replace('\n', "\u{fffd}")
}

/// Converts a message to one line of bounded length. The middle of a longer message is left out.
pub fn to_printable_message(text: &str) -> String {
    let line: Vec<char> =
        to_printable(text.trim_end()).chars().map(|c| if c == '\n' { ' ' } else { c }).collect();
    let (head, tail) = (MAX_MESSAGE_CHARS / 4 * 3, MAX_MESSAGE_CHARS / 4);
    match line.len().checked_sub(MAX_MESSAGE_CHARS) {
        None | Some(0) => line.into_iter().collect(),
        Some(omitted) => {
            let head: String = line[..head].iter().collect();
            let tail: String = line[line.len() - tail..].iter().collect();
            format!("{head} ... ({omitted} characters) ... {tail}")
        }
    }
}

fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_replaced() {
        assert_eq!(to_printable("a\u{1b}[2J\nb\u{9b}\u{202e}"), "a\u{fffd}[2J\nb\u{fffd}\u{fffd}");
        assert_eq!(to_printable_message("a\n::error::b\r\n"), "a ::error::b");
        assert_eq!(to_printable_line("a\nb\r"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn long_messages_are_shortened() {
        let long = to_printable_message(&format!("begin {} end", "x".repeat(1 << 20)));
        assert!(
            long.starts_with("begin x")
                && long.ends_with("x end")
                && long.chars().count() < MAX_MESSAGE_CHARS + 40
        );
        let whole = "y".repeat(MAX_MESSAGE_CHARS);
        assert_eq!(to_printable_message(&whole), whole);
    }
}
