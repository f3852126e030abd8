//! Checks that the tests and files that PARITY.md names exist. Tests are named `file::function`.
#![cfg(not(miri))]

/// The files with tests, by their names in the list.
const SOURCES: &[(&str, &str)] = &[
    ("blocking", include_str!("blocking.rs")),
    ("descriptors", include_str!("descriptors.rs")),
    ("expirations", include_str!("expirations.rs")),
    ("group", include_str!("group.rs")),
    ("in_step", include_str!("in_step.rs")),
    ("interval", include_str!("interval.rs")),
    ("paused", include_str!("paused.rs")),
    ("periodic", include_str!("periodic.rs")),
    ("schedule", include_str!("../src/schedule.rs")),
    ("semantics", include_str!("semantics.rs")),
    ("sleep", include_str!("sleep.rs")),
    ("syscalls", include_str!("syscalls.rs")),
    ("windows_timer", include_str!("../src/sys/windows_timer.rs")),
];

const LIST: &str = include_str!("../PARITY.md");

/// Whether the function has `#[test]` or `#[tokio::test]` among the attributes above it, and is not
/// ignored.
fn is_enabled_test(source: &str, function: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_attribute = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
    lines.iter().enumerate().any(|(index, line)| {
        let above: Vec<_> = lines[..index].iter().rev().take_while(is_attribute).collect();
        line.trim_start_matches("async ").starts_with(&format!("fn {function}("))
            && above.iter().any(|line| **line == "#[test]" || line.starts_with("#[tokio::test"))
            && !above.iter().any(|line| line.starts_with("#[ignore"))
    })
}

/// The texts in backticks.
fn quoted_code() -> impl Iterator<Item = &'static str> {
    LIST.split('`').skip(1).step_by(2)
}

#[test]
fn parity_tests_exist_and_run() {
    let mut named = 0;
    for (file, function) in quoted_code().filter_map(|code| code.split_once("::")) {
        // Paths of other crates, methods of types, and other code are not tests.
        if !is_plain_name(file)
            || !is_plain_name(function)
            || ["std", "tokio", "clippy"].contains(&file)
        {
            continue;
        }
        let source = SOURCES.iter().find(|(name, _)| *name == file).expect(file).1;
        let found = match function {
            "*" => source.contains("test]"),
            _ => is_enabled_test(source, function),
        };
        assert!(found, "PARITY.md names {file}::{function}, which is not an enabled test");
        named += 1;
    }
    assert!(named > 20, "only {named} tests in PARITY.md are named as `file::function`");
}

fn is_plain_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_*".contains(c))
}

/// Only on Linux, since test programs for other systems may run without the sources.
#[test]
#[cfg(target_os = "linux")]
fn parity_files_exist() {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.join("../..");
    let is_repository = std::fs::read_to_string(root.join("Cargo.toml"))
        .is_ok_and(|toml| toml.contains("[workspace]"));
    let mut named = 0;
    for path in quoted_code().filter(|code| code.contains('/') && !code.contains(' ')) {
        let is_in_package =
            ["src/", "tests/", "examples/"].iter().any(|folder| path.starts_with(folder));
        // A published package contains no other files of the repository.
        let file = match (is_in_package, is_repository) {
            (true, _) => package.join(path),
            (false, true) => root.join(path),
            (false, false) => continue,
        };
        assert!(file.exists(), "PARITY.md names {path}, which does not exist");
        named += 1;
    }
    assert!(named > 5, "only {named} files are named in PARITY.md");
}
