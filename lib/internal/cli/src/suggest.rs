//! What somebody may have meant who wrote something else.

/// No name has as many bytes.
const MAX_NAME_BYTES: usize = 64;

/// The names that differ from what was written in at most a quarter of its characters, and in no
/// more than three.
pub fn find_similar<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let most = (written.chars().count() / 4).clamp(1, 3);
    // What is longer by more than a name resembles none, and looking for that takes the product of
    // both lengths.
    let typed = written.len() < MAX_NAME_BYTES;
    names
        .into_iter()
        .filter(|name| typed && strsim::damerau_levenshtein(name, written) <= most)
        .collect()
}

/// `did you mean a or b? `, or nothing where nothing is near.
pub fn did_you_mean<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match find_similar(written, names).as_slice() {
        [] => String::new(),
        near => format!("did you mean {}? ", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["ticks", "period", "round-ticks"];
        assert_eq!(did_you_mean("tick", names), "did you mean ticks? ");
        assert_eq!(did_you_mean("round_ticks", names), "did you mean round-ticks? ");
        assert_eq!(did_you_mean("colour", names), "");
        assert_eq!(did_you_mean(&"ticks".repeat(1000), names), "");
    }
}
