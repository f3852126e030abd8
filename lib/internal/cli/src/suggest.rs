//! Suggestions for misspelled names.

use strsim::damerau_levenshtein;

/// Limit of the length of a name. Names have fewer bytes than this.
const MAX_NAME_BYTES: usize = 64;

/// Number of names of which `written` is a part that are suggested.
const MAX_LONGER_NAMES: usize = 3;

/// Length of a beginning of a name that is not taken for a coincidence.
const MIN_BEGINNING: usize = 3;

/// Returns the names whose edit distance from `written` is at most a quarter of its characters, and
/// at most three. Without such a name, returns the first ones of which it is a word, or else the
/// beginning of one, or else a misspelled one. Upper and lower case are alike.
pub fn find_similar<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let names: Vec<&str> = names.into_iter().collect();
    // The search takes the product of both lengths, and text this long resembles no name.
    let is_short = written.len() < MAX_NAME_BYTES;
    let written = &written.to_ascii_lowercase();
    let max_distance = (written.chars().count() / 4).clamp(1, 3);
    let is_near = |name: &str| is_short && damerau_levenshtein(name, written) <= max_distance;
    let near: Vec<&str> = names.iter().copied().filter(|name| is_near(name)).collect();
    if !near.is_empty() {
        return near;
    }
    let with_word = |is_alike: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let with_word = names.iter().copied().filter(|name| name.split('-').any(is_alike));
        with_word.take(MAX_LONGER_NAMES).collect()
    };
    let equal = with_word(&|word| word == written);
    if !equal.is_empty() || written.len() < MIN_BEGINNING {
        return equal;
    }
    let longer = with_word(&|word| word.starts_with(written));
    if longer.is_empty() && written.len() > MIN_BEGINNING { with_word(&is_near) } else { longer }
}

/// Formats `did you mean a or b? `, or an empty string if no name is similar.
pub fn did_you_mean<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match find_similar(written, names).as_slice() {
        [] => String::new(),
        [one] => format!("did you mean {one}? "),
        [first @ .., last] => format!("did you mean {} or {last}? ", first.join(", ")),
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
        assert_eq!(did_you_mean("round", names), "did you mean round-ticks? ");
        assert_eq!(
            did_you_mean("end", ["end-1", "the-end", "ended-x", "end-2", "end-3"]),
            "did you mean end-1, the-end or end-2? "
        );
        assert_eq!(did_you_mean("per", names), "did you mean period? ");
        assert_eq!(did_you_mean("pe", names), "");
        assert_eq!(did_you_mean("Rounds", names), "did you mean round-ticks? ");
        assert_eq!(did_you_mean("TICKS", names), "did you mean ticks? ");
        assert_eq!(did_you_mean("colour", names), "");
        assert_eq!(did_you_mean("", names), "");
        assert_eq!(did_you_mean(&"ticks".repeat(1000), names), "");
    }
}
