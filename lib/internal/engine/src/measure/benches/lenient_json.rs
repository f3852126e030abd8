//! JSON of writers that print `NaN`, `Infinity` and `-Infinity` for numbers.

use std::borrow::Cow;

/// Numbers that are not JSON, the longest first.
const NON_FINITE: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Replaces the numbers that are not JSON by `null`, except in strings.
pub fn replace_non_finite(json: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced = Vec::new();
    let (mut copied, mut position, mut is_string) = (0, 0, false);
    while let Some(&byte) = json.get(position) {
        let found = match byte {
            b'\\' if is_string => {
                position += 2;
                continue;
            }
            b'"' => {
                is_string = !is_string;
                None
            }
            _ if is_string => None,
            _ => NON_FINITE.into_iter().find(|number| json[position..].starts_with(number)),
        };
        if let Some(number) = found {
            replaced.extend_from_slice(&json[copied..position]);
            replaced.extend_from_slice(b"null");
            copied = position + number.len();
        }
        position += found.map_or(1, <[u8]>::len);
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    replaced.extend_from_slice(&json[copied..]);
    Cow::Owned(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_strings_are_replaced() {
        for (json, expected) in [
            ("{}", "{}"),
            ("[NaN, -Infinity,Infinity]", "[null, null,null]"),
            (
                r#"{"NaN \" NaN\\": NaN, "x": "-Infinity"}"#,
                r#"{"NaN \" NaN\\": null, "x": "-Infinity"}"#,
            ),
            (r#""NaN\"#, r#""NaN\"#),
        ] {
            assert_eq!(replace_non_finite(json.as_bytes()), expected.as_bytes(), "{json}");
        }
    }
}
