//! What the parity list claims is there: tests, as `file::function`, and what
//! `osjitter bench timeout` is asked for. In the repository, which has that bench, and on Linux,
//! where every test program runs beside its sources.
#![cfg(all(target_os = "linux", not(miri)))]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("../PARITY.md");

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The repository around the package; `None` where the package is by itself.
fn repository() -> Option<PathBuf> {
    let root = package().join("../..");
    std::fs::read_to_string(root.join("Cargo.toml"))
        .is_ok_and(|toml| toml.contains("[workspace]"))
        .then_some(root)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn in_backticks() -> impl Iterator<Item = &'static str> {
    LIST.split('`').skip(1).step_by(2)
}

fn sources(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut open = folders.to_vec();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

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

#[test]
fn every_test_that_the_parity_list_names_exists_and_runs() {
    let Some(root) = repository() else { return };
    let of_bench = ["src/bench/timeout", "lib/internal/benchloops/src/timeouts", "tests/it/bench"];
    let folders = ["tests", "src"].map(|folder| package().join(folder)).into_iter();
    let files =
        sources(&folders.chain(of_bench.map(|folder| root.join(folder))).collect::<Vec<_>>());
    let mut named = 0;
    for (file, function) in
        in_backticks().filter_map(|code| code.split_once("::")).filter(|(file, _)| *file != "tokio")
    {
        let of_that_name =
            files.iter().filter(|path| path.file_stem().is_some_and(|stem| stem == file));
        let found = of_that_name.map(|path| read(path)).any(|source| is_test(&source, function));
        assert!(
            found,
            "PARITY.md names {file}::{function}, which is not there, or not a test that runs"
        );
        named += 1;
    }
    assert!(named >= 10, "the list names its tests as file::function, in backticks: {named}");
}

/// The names that the values of an enumeration have on the command line.
fn names(source: &str, enumeration: &str) -> BTreeSet<String> {
    let body = source
        .split_once(&format!("pub enum {enumeration} {{"))
        .and_then(|(_, rest)| rest.split_once("\n}"));
    let (body, _) = body.unwrap_or_else(|| panic!("no enumeration {enumeration}"));
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(char::is_alphanumeric);
    let words = body.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(is_word);
    let kebab = |word: &str| {
        let letters = word
            .chars()
            .map(|c| if c.is_uppercase() { format!("-{}", c.to_lowercase()) } else { c.into() });
        letters.collect::<String>().trim_start_matches('-').to_owned()
    };
    words.map(kebab).collect()
}

/// What the list has a flag with in backticks: its values.
fn asked(flag: &str) -> BTreeSet<String> {
    let words = in_backticks().flat_map(|code| code.split(' ').zip(code.split(' ').skip(1)));
    words.filter(|(word, _)| *word == flag).map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn the_parity_list_names_every_workload_variant_and_clock_of_the_bench_and_no_other() {
    let Some(root) = repository() else { return };
    let bench = root.join("src/bench/timeout");
    let loops = root.join("lib/internal/benchloops/src/timeouts");
    let (cases, variants) = (read(&bench.join("cases.rs")), read(&loops.join("variant.rs")));
    for (flag, has) in [
        ("--workload", names(&cases, "Kind")),
        ("--variant", names(&variants, "Variant")),
        ("--clock", names(&variants, "Clock")),
    ] {
        assert!(has.len() >= 3, "{flag}: {has:?}");
        assert_eq!(
            asked(flag),
            has,
            "{flag}: on the left as PARITY.md has it, on the right the bench"
        );
    }
    // Flags are the fields of its arguments.
    let arguments = read(&bench.join("mod.rs"));
    let mut flags = 0;
    for flag in
        in_backticks().flat_map(|code| code.split(' ')).filter_map(|word| word.strip_prefix("--"))
    {
        let field = format!("\n    {}: ", flag.replace('-', "_"));
        assert!(arguments.contains(&field), "PARITY.md has --{flag}, the bench has not");
        flags += 1;
    }
    assert!(flags > 10, "{flags}");
}
