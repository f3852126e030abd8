//! The selection of benchmarks by their names.

/// How a harness is made to run a part of its benchmarks.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// Arguments that replace the filters of the request.
    Filter(Vec<String>),
    /// A command that replaces the one of the user.
    Command(Vec<String>),
}

/// Returns the name of a benchmark without the ordinal that it may have got ([`super::summarize`]).
pub fn strip_ordinal(name: &str) -> &str {
    let is_ordinal = |text: &str| text.parse::<u64>().is_ok();
    match name.rsplit_once('#') {
        Some((plain, ordinal)) if is_ordinal(ordinal) => plain,
        _ => name,
    }
}

/// Returns the names by which a harness may know benchmarks: with and without their ordinals.
pub fn possible_names<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.iter().flat_map(|name| [*name, strip_ordinal(name)]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Escapes a text so that a regular expression of Rust, Go or POSIX matches it literally.
pub fn escape_regex(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
