//! The path of keys and indices to a position in a JSON text.
//!
//! The path is found from the text alone. A deserializer that tracks the path would have to be
//! compiled for every deserialized type.

use std::fmt::Write as _;

/// An object or array that is open at a position of the text.
enum OpenContainer {
    /// An object with its current key.
    Object(Option<String>),
    /// An array with its current index.
    Array(usize),
}

/// Returns the path to a line and column, such as `subjects[0].id`, of a text that is well-formed
/// up to there; `None` at the top level. As in `serde_json`, lines start at 1, and the column is
/// the number of bytes of the line that were read.
pub(super) fn path(text: &str, line: usize, column: usize) -> Option<String> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let read = text.as_bytes().get(..before.saturating_add(column).min(text.len()))?;
    format_path(open_containers(read))
}

/// Returns the containers that are open at the end of a text.
fn open_containers(text: &[u8]) -> Vec<OpenContainer> {
    let mut open: Vec<OpenContainer> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' => open.push(OpenContainer::Object(None)),
            b'[' => open.push(OpenContainer::Array(0)),
            b'}' | b']' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(OpenContainer::Array(index)) => *index += 1,
                Some(OpenContainer::Object(key)) => *key = None,
                None => {}
            },
            b'"' => {
                let length = string_length(&text[at..]);
                if let Some(OpenContainer::Object(key @ None)) = open.last_mut() {
                    *key = serde_json::from_slice(&text[at - 1..at + length]).ok();
                }
                at += length;
            }
            _ => {}
        }
    }
    open
}

fn format_path(containers: Vec<OpenContainer>) -> Option<String> {
    let mut path = String::new();
    for container in containers {
        match container {
            OpenContainer::Object(Some(key)) if path.is_empty() => path = key,
            OpenContainer::Object(Some(key)) => path = path + "." + &key,
            OpenContainer::Object(None) => {}
            OpenContainer::Array(index) => {
                let _ = write!(path, "[{index}]");
            }
        }
    }
    (!path.is_empty()).then_some(path)
}

/// Returns the number of bytes of a string after its opening quotation mark, including the closing
/// one.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (i, &byte) in text.iter().enumerate() {
        if byte == b'"' && !is_escaped {
            return i + 1;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only deserialized")]
    struct Document {
        name: String,
        #[serde(default)]
        numbers: Vec<u32>,
        #[serde(default)]
        inner: Option<Box<Document>>,
        #[serde(default)]
        named: BTreeMap<String, Vec<Option<i8>>>,
    }

    fn error_path(text: &str) -> Option<String> {
        let error = serde_json::from_str::<Document>(text).expect_err("it is invalid");
        path(text, error.line(), error.column())
    }

    /// The path that a tracking deserializer reports.
    fn tracked_path(text: &str) -> Option<String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let error = serde_path_to_error::deserialize::<_, Document>(&mut reader)
            .expect_err("it is invalid");
        Some(error.path().to_string()).filter(|path| path != ".")
    }

    #[test]
    fn path_leads_to_the_error() {
        for (text, expected) in [
            (r#"{"name": 1}"#, Some("name")),
            (r#"{"name": {"x": 1}}"#, Some("name")),
            (r#"{"name": "a", "numbers": [1, 2, "x"]}"#, Some("numbers[2]")),
            (r#"{"name": "a", "numbers": [1, 2, [3]]}"#, Some("numbers[2]")),
            (r#"{"name": "a", "inner": {"numbers": [7]}}"#, Some("inner")),
            (
                "{\"name\": \"a\",\n \"inner\": {\n \"name\": \"\\\"b\", \"inner\": {\"name\": []}}}",
                Some("inner.inner.name"),
            ),
            (
                r#"{"name": "a", "named": {"p \"q\" [,": [null, 1, 300]}}"#,
                Some("named.p \"q\" [,[2]"),
            ),
            (r#"[1, 2]"#, Some("[0]")),
            (r#"{}"#, None),
            ("7", None),
        ] {
            assert_eq!(error_path(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn truncated_text_has_a_path() {
        let whole = r#"{"name": "a", "numbers": [1, 2], "named": {"x": [1, null]}}"#;
        for end in 1..whole.len() {
            let text = &whole[..end];
            let error = serde_json::from_str::<Document>(text).expect_err("cut off");
            let found = path(text, error.line(), error.column()).unwrap_or_default();
            assert!(
                "name numbers named".split(' ').any(|key| found.starts_with(key))
                    || found.is_empty(),
                "{text}: {found}"
            );
        }
    }

    proptest! {
        #[test]
        fn path_matches_tracking_deserializer(depth in 0_usize..4, length in 0_usize..4, bad in 0_usize..4) {
            let value = ["\"x\"", "-1", "{}", "[[]]"][bad];
            let numbers: Vec<String> = (0..length).map(|n| n.to_string()).chain([value.to_owned()]).collect();
            let mut text = format!("{{\"name\": \"é\\\\\", \"numbers\": [{}]}}", numbers.join(", "));
            for level in 0..depth {
                text = format!("{{\"name\": \"{level}\",\n\"named\": {{\"a\": []}}, \"inner\": {text}}}");
            }
            prop_assert_eq!(error_path(&text), tracked_path(&text));
        }

        #[test]
        fn any_position_is_accepted(text in "[{}\\[\\]\",:\\\\a1é\n]{0,40}", line in 0_usize..5, column in 0_usize..50) {
            let _ = path(&text, line, column);
        }
    }
}
