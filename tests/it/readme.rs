//! The README: its programs compile.

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

#[test]
fn every_program_is_an_example_that_cargo_compiles() {
    let readme = readme();
    let programs: Vec<&str> = readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(programs.len() >= 2, "{} programs", programs.len());
    let examples: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for program in programs {
        assert!(examples.iter().any(|example| example.ends_with(program)), "no example ends with:\n{program}");
    }
}
