//! Checks the names in PARITY.md: tests (as `file::function`), and the flags and values of
//! `osjitter bench timeout`. It needs the repository, which contains that bench, and runs on Linux,
//! where every test program runs next to its sources.
#![cfg(all(target_os = "linux", not(miri)))]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("../PARITY.md");

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the repository that contains the package; `None` if the package is outside of it.
fn repository() -> Option<PathBuf> {
    let root = package().join("../..");
    std::fs::read_to_string(root.join("Cargo.toml"))
        .is_ok_and(|toml| toml.contains("[workspace]"))
        .then_some(root)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the texts in backticks.
fn code_spans() -> impl Iterator<Item = &'static str> {
    LIST.split('`').skip(1).step_by(2)
}

/// Returns the files below the folders.
fn find_sources(folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut pending = folders;
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files
}

/// Returns whether the function has `#[test]`, or that of tokio, among the attributes directly
/// above it, and is not ignored.
fn is_test(source: &str, function: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let start = format!("fn {function}(");
    let is_attribute = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
    lines.iter().enumerate().any(|(i, line)| {
        let attributes: Vec<_> = lines[..i].iter().rev().take_while(is_attribute).collect();
        line.trim_start_matches("async ").starts_with(&start) && is_active_test(&attributes)
    })
}

fn is_active_test(attributes: &[&&str]) -> bool {
    let is_test = |line: &&&str| **line == "#[test]" || line.starts_with("#[tokio::test");
    let is_ignore = |line: &&&str| line.starts_with("#[ignore");
    attributes.iter().any(is_test) && !attributes.iter().any(is_ignore)
}

#[test]
fn parity_list_names_existing_tests() {
    let Some(root) = repository() else { return };
    let package_folders = ["tests", "src"].map(|folder| package().join(folder));
    let bench_folders =
        ["src/bench/timeout", "lib/internal/benchloops/src/timeouts", "tests/it/bench"];
    let bench_folders = bench_folders.map(|folder| root.join(folder));
    let files = find_sources(package_folders.into_iter().chain(bench_folders).collect());
    let paths = code_spans().filter_map(|code| code.split_once("::"));
    let mut count = 0;
    for (stem, function) in paths.filter(|(stem, _)| *stem != "tokio") {
        let has_stem = |path: &&PathBuf| path.file_stem().is_some_and(|name| name == stem);
        let mut sources = files.iter().filter(has_stem).map(|path| read(path));
        assert!(
            sources.any(|source| is_test(&source, function)),
            "PARITY.md names {stem}::{function}, which does not exist, or is not a test that runs"
        );
        count += 1;
    }
    assert!(count >= 10, "PARITY.md names only {count} tests as file::function in backticks");
}

/// Returns the names that the values of an enum have on the command line.
fn value_names(source: &str, enum_name: &str) -> BTreeSet<String> {
    let body = source
        .split_once(&format!("pub enum {enum_name} {{"))
        .and_then(|(_, rest)| rest.split_once("\n}"));
    let (body, _) = body.unwrap_or_else(|| panic!("expected an enum {enum_name}"));
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(char::is_alphanumeric);
    let words = body.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(is_word);
    words.map(to_kebab_case).collect()
}

fn to_kebab_case(word: &str) -> String {
    let mut kebab = String::new();
    for letter in word.chars() {
        if letter.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(letter.to_lowercase());
    }
    kebab
}

/// Returns the values that follow a flag in the backticks of the list.
fn listed_values(flag: &str) -> BTreeSet<String> {
    let pairs = code_spans().flat_map(|code| code.split(' ').zip(code.split(' ').skip(1)));
    pairs.filter(|(word, _)| *word == flag).map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn parity_list_matches_bench_values() {
    let Some(root) = repository() else { return };
    let cases = read(&root.join("src/bench/timeout/cases.rs"));
    let variants = read(&root.join("lib/internal/benchloops/src/timeouts/variant.rs"));
    for (flag, values) in [
        ("--workload", value_names(&cases, "WorkloadKind")),
        ("--variant", value_names(&variants, "Variant")),
        ("--clock", value_names(&variants, "Clock")),
    ] {
        assert!(values.len() >= 3, "{flag}: {values:?}");
        assert_eq!(listed_values(flag), values, "{flag}: left in PARITY.md, right in the bench");
    }
}

#[test]
fn parity_list_names_existing_flags() {
    let Some(root) = repository() else { return };
    // The flags are the fields of the bench's arguments.
    let arguments = read(&root.join("src/bench/timeout/mod.rs"));
    let words = code_spans().flat_map(|code| code.split(' '));
    let mut count = 0;
    for flag in words.filter_map(|word| word.strip_prefix("--")) {
        let field = format!("\n    {}: ", flag.replace('-', "_"));
        assert!(arguments.contains(&field), "PARITY.md names --{flag}, which does not exist");
        count += 1;
    }
    assert!(count > 10, "PARITY.md names only {count} flags");
}
