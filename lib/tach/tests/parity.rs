//! The parity list names tests as `file::function`: each of them is there.

/// The files with tests, by the names that the list uses.
const SOURCES: &[(&str, &str)] = &[
    ("anchor", include_str!("../src/anchor.rs")),
    ("background", include_str!("../src/background.rs")),
    ("first_act", include_str!("first_act.rs")),
    ("info", include_str!("../src/info.rs")),
    ("instant", include_str!("instant.rs")),
    ("reading", include_str!("../src/reading.rs")),
    ("threads", include_str!("threads.rs")),
    ("timeline", include_str!("../src/timeline.rs")),
];

#[test]
fn every_test_that_the_parity_list_names_exists() {
    let mut named = 0;
    for (file, function) in include_str!("../PARITY.md").split('`').filter_map(|code| code.split_once("::")) {
        // Paths of other crates, methods of types, and code.
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_*".contains(c));
        if !plain(file) || !plain(function) || ["std", "tokio", "clippy"].contains(&file) {
            continue;
        }
        let source = SOURCES.iter().find(|(name, _)| *name == file).expect(file).1;
        let is_test = |at: usize| source[..at].rsplit("\n\n").next().is_some_and(|above| above.contains("test"));
        let found = function == "*" || source.find(&format!("fn {function}(")).is_some_and(is_test);
        assert!(found, "PARITY.md names {file}::{function}, which is not there, or not a test");
        named += 1;
    }
    assert!(named > 20, "the list names its tests as file::function, in backticks");
}
