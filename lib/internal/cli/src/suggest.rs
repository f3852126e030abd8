//! Suggestions for misspelled names.

/// Limit of the length of a name. Names have fewer bytes than this.
const MAX_NAME_BYTES: usize = 64;

/// Returns the names whose edit distance from `written` is at most a quarter of its characters, and
/// at most three.
pub fn find_similar<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let max_distance = (written.chars().count() / 4).clamp(1, 3);
    // The search takes the product of both lengths, and text this long resembles no name.
    let is_short = written.len() < MAX_NAME_BYTES;
    names
        .into_iter()
        .filter(|name| is_short && strsim::damerau_levenshtein(name, written) <= max_distance)
        .collect()
}

/// Formats `did you mean a or b? `, or an empty string if no name is similar.
pub fn did_you_mean<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match find_similar(written, names).as_slice() {
        [] => String::new(),
        similar => format!("did you mean {}? ", similar.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["ticks", "period", "round-ticks"];
        assert_eq!(did_you_mean("tick", names), "did you mean ticks? ");
        assert_eq!(did_you_mean("round_ticks", names), "did you mean round-ticks? ");
        assert_eq!(did_you_mean("colour", names), "");
        assert_eq!(did_you_mean(&"ticks".repeat(1000), names), "");
    }
}
