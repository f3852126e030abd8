//! JSON text that can be shown on a terminal.

use std::fmt::Write as _;

use serde::Serialize;

/// Converts a value to JSON in one line, with a line break at its end.
///
/// # Panics
/// Panics if JSON cannot represent the value.
pub fn to_json_line(value: &impl Serialize) -> String {
    escape_controls(serde_json::to_string(value).expect("plain data")) + "\n"
}

/// Converts a value to indented JSON, with a line break at its end.
///
/// # Panics
/// Panics if JSON cannot represent the value.
pub fn to_indented_json(value: &impl Serialize) -> String {
    escape_controls(serde_json::to_string_pretty(value).expect("plain data")) + "\n"
}

/// Escapes the characters that control a terminal and that JSON permits in a string. Outside of
/// strings, JSON has no such character.
fn escape_controls(json: String) -> String {
    if !json.contains(is_permitted_control) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_permitted_control(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns whether a character controls a terminal or changes the writing direction, and needs no
/// escape in JSON.
fn is_permitted_control(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_controls_are_escaped() {
        let text = "a\u{1b}\u{7f}\u{9b}2J\u{202e}é\u{2069}";
        let json = to_json_line(&text);
        assert_eq!(json, "\"a\\u001b\\u007f\\u009b2J\\u202eé\\u2069\"\n");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        assert_eq!(to_indented_json(&[1]), "[\n  1\n]\n");
    }
}
