//! Words that depend on a count or on their place in a sentence.

use std::fmt;

/// Formats a count and its noun: `1 round`, `2 rounds`.
pub fn pluralize<N: fmt::Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Replaces the first letter by its capital.
pub fn capitalize(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// Returns the text of a cell of a table, which is a dash if the value is not known.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or("-".to_owned())
}

/// Puts a prefix in front of a text. Without a text, the result is empty.
pub fn prefix_or_empty(prefix: &str, text: Option<impl fmt::Display>) -> String {
    match text {
        Some(text) => format!("{prefix}{text}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let counts = [0_usize, 1, 2].map(|count| pluralize(count, "round"));
        assert_eq!(counts, ["0 rounds", "1 round", "2 rounds"]);
    }

    #[test]
    fn only_first_letter_is_capitalized() {
        assert_eq!(["", "a b", "éa"].map(capitalize), ["", "A b", "Éa"]);
    }

    #[test]
    fn missing_text_is_dash_or_empty() {
        assert_eq!([or_dash(Some("1 us".to_owned())), or_dash(None)], ["1 us", "-"]);
        assert_eq!(prefix_or_empty("; ", Some("one")), "; one");
        assert_eq!(prefix_or_empty("; ", None::<&str>), "");
    }
}
