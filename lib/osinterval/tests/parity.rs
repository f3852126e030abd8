//! What the parity list names is there: tests, as `file::function`, and files.
#![cfg(not(miri))]

/// The files with tests, by the names that the list uses.
const SOURCES: &[(&str, &str)] = &[
    ("descriptors", include_str!("descriptors.rs")),
    ("group", include_str!("group.rs")),
    ("interval", include_str!("interval.rs")),
    ("periodic", include_str!("periodic.rs")),
    ("schedule", include_str!("../src/schedule.rs")),
    ("semantics", include_str!("semantics.rs")),
    ("syscalls", include_str!("syscalls.rs")),
    ("windows", include_str!("../src/sys/windows.rs")),
];

const LIST: &str = include_str!("../PARITY.md");

/// Whether the function has `#[test]`, or tokio's, among the attributes right above it, and is not
/// ignored.
fn is_test(source: &str, function: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_attribute = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
    lines.iter().enumerate().any(|(at, line)| {
        let above: Vec<_> = lines[..at].iter().rev().take_while(is_attribute).collect();
        line.trim_start_matches("async ").starts_with(&format!("fn {function}("))
            && above.iter().any(|line| **line == "#[test]" || line.starts_with("#[tokio::test"))
            && !above.iter().any(|line| line.starts_with("#[ignore"))
    })
}

fn in_backticks() -> impl Iterator<Item = &'static str> {
    LIST.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_parity_list_names_exists_and_runs() {
    let mut named = 0;
    for (file, function) in in_backticks().filter_map(|code| code.split_once("::")) {
        // Paths of other crates, methods of types, and code.
        let plain = |name: &str| {
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_*".contains(c))
        };
        if !plain(file) || !plain(function) || ["std", "tokio", "clippy"].contains(&file) {
            continue;
        }
        let source = SOURCES.iter().find(|(name, _)| *name == file).expect(file).1;
        let found =
            if function == "*" { source.contains("test]") } else { is_test(source, function) };
        assert!(
            found,
            "PARITY.md names {file}::{function}, which is not there, or not a test that runs"
        );
        named += 1;
    }
    assert!(named > 20, "the list names its tests as file::function, in backticks");
}

/// Where a test program runs beside its sources, and not in an emulator.
#[test]
#[cfg(target_os = "linux")]
fn every_file_that_the_parity_list_names_exists() {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.join("../..");
    let is_repository = std::fs::read_to_string(root.join("Cargo.toml"))
        .is_ok_and(|toml| toml.contains("[workspace]"));
    let mut named = 0;
    for path in in_backticks().filter(|code| code.contains('/') && !code.contains(' ')) {
        let of_package =
            ["src/", "tests/", "examples/"].iter().any(|folder| path.starts_with(folder));
        // The package alone has nothing of the repository's.
        let place = match (of_package, is_repository) {
            (true, _) => package.join(path),
            (false, true) => root.join(path),
            (false, false) => continue,
        };
        assert!(place.exists(), "PARITY.md names {path}, which is not there");
        named += 1;
    }
    assert!(named > 5, "{named}");
}
