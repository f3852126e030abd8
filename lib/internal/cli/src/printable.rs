//! Text from files and programs, on its way to people: it cannot command a terminal, nor fill it.

/// More characters than this of one message are nobody's reading.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Control characters, and those that turn the direction of writing, become replacement characters;
/// line breaks stay.
pub fn to_printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_terminal_control(c) && c != '\n' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// What stands in a line with other things: a line break becomes a replacement character, too.
pub fn to_printable_line(text: &str) -> String {
    to_printable(text).replace('\n', "\u{fffd}")
}

/// A message that is one line, of bounded length: its middle is left out where it quotes a file
/// without end.
pub fn to_printable_message(text: &str) -> String {
    let line: Vec<char> =
        to_printable(text.trim_end()).chars().map(|c| if c == '\n' { ' ' } else { c }).collect();
    let (head, tail) = (MAX_MESSAGE_CHARS / 4 * 3, MAX_MESSAGE_CHARS / 4);
    match line.len().checked_sub(MAX_MESSAGE_CHARS) {
        None | Some(0) => line.into_iter().collect(),
        Some(more) => {
            let part = |part: &[char]| part.iter().collect::<String>();
            format!(
                "{} ... ({more} characters) ... {}",
                part(&line[..head]),
                part(&line[line.len() - tail..])
            )
        }
    }
}

fn is_terminal_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_a_terminal() {
        assert_eq!(to_printable("a\u{1b}[2J\nb\u{9b}\u{202e}"), "a\u{fffd}[2J\nb\u{fffd}\u{fffd}");
        assert_eq!(to_printable_message("a\n::error::b\r\n"), "a ::error::b");
        assert_eq!(to_printable_line("a\nb\r"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_message_ends() {
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
