//! Where in a JSON text something is, as keys and indices.
//!
//! A reader that keeps track while it reads has to be compiled for every type that is read; the
//! text alone shows it, too.

use std::fmt::Write as _;

/// What is open at a place of the text.
enum Open {
    /// An object, and the key that was read last.
    Object(Option<String>),
    /// An array, and the index that is read.
    Array(usize),
}

/// The keys and indices that lead to a line and column, as `subjects[0].id`, of a text that is
/// well-formed until there; `None` at the top. Line and column are those of `serde_json`: from 1,
/// and the bytes of the line that were read.
pub(super) fn path(text: &str, line: usize, column: usize) -> Option<String> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let read = text.as_bytes().get(..before.saturating_add(column).min(text.len()))?;
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = read.get(at) {
        at += 1;
        match byte {
            b'{' => open.push(Open::Object(None)),
            b'[' => open.push(Open::Array(0)),
            b'}' | b']' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(Open::Array(index)) => *index += 1,
                Some(Open::Object(key)) => *key = None,
                None => {}
            },
            b'"' => {
                let string = string(&read[at..]);
                if let Some(Open::Object(key @ None)) = open.last_mut() {
                    *key = serde_json::from_slice(&read[at - 1..at + string]).ok();
                }
                at += string;
            }
            _ => {}
        }
    }
    let mut path = String::new();
    for open in open {
        match open {
            Open::Object(Some(key)) if path.is_empty() => path = key,
            Open::Object(Some(key)) => path = path + "." + &key,
            Open::Object(None) => {}
            Open::Array(index) => {
                let _ = write!(path, "[{index}]");
            }
        }
    }
    (!path.is_empty()).then_some(path)
}

/// How long a string is from behind its first quotation mark to behind its last.
fn string(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only read")]
    struct All {
        name: String,
        #[serde(default)]
        numbers: Vec<u32>,
        #[serde(default)]
        inner: Option<Box<All>>,
        #[serde(default)]
        named: BTreeMap<String, Vec<Option<i8>>>,
    }

    fn found(text: &str) -> Option<String> {
        let error = serde_json::from_str::<All>(text).expect_err("it is refused");
        path(text, error.line(), error.column())
    }

    /// As a reader that keeps track has it.
    fn tracked(text: &str) -> Option<String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let error =
            serde_path_to_error::deserialize::<_, All>(&mut reader).expect_err("it is refused");
        Some(error.path().to_string()).filter(|path| path != ".")
    }

    #[test]
    fn the_place_is_that_of_what_is_refused() {
        for (text, place) in [
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
            assert_eq!(found(text).as_deref(), place, "{text}");
        }
    }

    #[test]
    fn a_text_that_ends_too_early_has_the_place_where_it_ends() {
        let whole = r#"{"name": "a", "numbers": [1, 2], "named": {"x": [1, null]}}"#;
        for end in 1..whole.len() {
            let text = &whole[..end];
            let error = serde_json::from_str::<All>(text).expect_err("cut off");
            let place = path(text, error.line(), error.column()).unwrap_or_default();
            assert!(
                "name numbers named".split(' ').any(|key| place.starts_with(key))
                    || place.is_empty(),
                "{text}: {place}"
            );
        }
    }

    proptest! {
        #[test]
        fn it_is_what_a_reader_finds_that_keeps_track(depth in 0_usize..4, length in 0_usize..4, bad in 0_usize..4) {
            let value = ["\"x\"", "-1", "{}", "[[]]"][bad];
            let numbers: Vec<String> = (0..length).map(|n| n.to_string()).chain([value.to_owned()]).collect();
            let mut text = format!("{{\"name\": \"é\\\\\", \"numbers\": [{}]}}", numbers.join(", "));
            for level in 0..depth {
                text = format!("{{\"name\": \"{level}\",\n\"named\": {{\"a\": []}}, \"inner\": {text}}}");
            }
            prop_assert_eq!(found(&text), tracked(&text));
        }

        #[test]
        fn any_text_and_place_has_an_answer(text in "[{}\\[\\]\",:\\\\a1é\n]{0,40}", line in 0_usize..5, column in 0_usize..50) {
            let _ = path(&text, line, column);
        }
    }
}
