//! The parity list names tests: each of them is there.

use std::path::Path;

#[test]
fn every_test_that_the_parity_list_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(list) = std::fs::read_to_string(root.join("PARITY.md")) else {
        // A test program may run far from its sources, under Wine or qemu.
        return;
    };
    let mut named = 0;
    for (file, function) in list.split('`').filter_map(|word| word.split_once("::")) {
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !plain(file) || !plain(function) || ["tokio", "std", "clippy"].contains(&file) {
            continue;
        }
        let places = [root.join(format!("tests/{file}.rs")), root.join(format!("src/{file}.rs"))];
        let found = places
            .iter()
            .filter_map(|p| std::fs::read_to_string(p).ok())
            .any(|source| source.contains(&format!("fn {function}(")));
        assert!(found, "PARITY.md names {file}::{function}, which is not there");
        named += 1;
    }
    assert!(named > 20, "the list names its tests as file::function, in backticks");
}
