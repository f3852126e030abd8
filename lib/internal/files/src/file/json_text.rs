//! JSON text that can be shown on a terminal.

use std::fmt::Write as _;

use serde::Serialize;

const INDENT: &str = "  ";

/// Converts a value to JSON in one line, with a line break at its end.
///
/// # Panics
/// Panics if JSON cannot represent the value.
pub fn to_json_line(value: &impl Serialize) -> String {
    escape_controls(serde_json::to_string(value).expect("plain data")) + "\n"
}

/// Converts a value to indented JSON, with a line break at its end.
///
/// The lines are those of `serde_json::to_string_pretty`, which would compile a second serializer
/// for each type.
///
/// # Panics
/// Panics if JSON cannot represent the value.
pub fn to_indented_json(value: &impl Serialize) -> String {
    indent(&to_json_line(value))
}

/// Breaks JSON without blanks into indented lines.
fn indent(json: &str) -> String {
    let mut indented = String::with_capacity(2 * json.len());
    let mut depth = 0;
    let mut rest = json;
    while let Some(at) = rest.find(['"', '{', '[', '}', ']', ',', ':']) {
        let (before, from) = rest.split_at(at);
        let token = &from[..token_length(from)];
        rest = &from[token.len()..];
        indented.push_str(before);
        if matches!(token, "}" | "]") {
            depth -= 1;
            break_line(&mut indented, depth);
        }
        indented.push_str(token);
        match token {
            "{" | "[" => {
                depth += 1;
                break_line(&mut indented, depth);
            }
            "," => break_line(&mut indented, depth),
            ":" => indented.push(' '),
            _ => {}
        }
    }
    indented + rest
}

/// Returns the length of the string, empty container or punctuation mark at the start of JSON.
fn token_length(json: &str) -> usize {
    match json.as_bytes() {
        [b'"', text @ ..] => {
            let mut is_escaped = false;
            let end = text.iter().position(|&byte| {
                let is_end = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                is_end
            });
            end.map_or(json.len(), |end| end + 2)
        }
        [b'{', b'}', ..] | [b'[', b']', ..] => 2,
        _ => 1,
    }
}

fn break_line(indented: &mut String, depth: usize) {
    indented.push('\n');
    indented.push_str(&INDENT.repeat(depth));
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

    #[test]
    fn indented_lines_match_serde_json() {
        for json in [
            "1",
            "[]",
            "{}",
            r#""a,b:[{\"\\""#,
            r#"{"a":[1,2.5e9,[],{}],"b":{"c":null,"d":[[true],[{"e":""}]]},"f\\":"\\\"]"}"#,
        ] {
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            let expected = serde_json::to_string_pretty(&value).unwrap() + "\n";
            assert_eq!(to_indented_json(&value), expected);
        }
    }
}
