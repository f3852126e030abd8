//! Words that depend on a count or on their place in a sentence.

use std::fmt;

/// Formats a count and its noun: `1 round`, `2 rounds`.
pub fn pluralize<N: fmt::Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Like [`pluralize`], with the digits of a large count in groups of three: `10,000 ticks`.
pub fn pluralize_grouped(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", group_digits(count))
}

/// Formats a count with its digits in groups of three.
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Replaces the first letter by its capital.
pub fn capitalize(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// Ends a text with a full stop, unless it ends a sentence.
pub fn end_sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
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
        assert_eq!([pluralize(1.0, "CPU"), pluralize(1.5, "CPU")], ["1 CPU", "1.5 CPUs"]);
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([7, 1_000, 12_345_678].map(group_digits), ["7", "1,000", "12,345,678"]);
        let counts = [1, 10_000].map(|count| pluralize_grouped(count, "tick"));
        assert_eq!(counts, ["1 tick", "10,000 ticks"]);
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
