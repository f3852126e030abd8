//! Text from files that cannot command a terminal.

/// Control characters become replacement characters; line breaks stay.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
