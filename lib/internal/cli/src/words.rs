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
}
