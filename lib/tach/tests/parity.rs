//! What the parity list claims is there: tests, as `file::function`, and files. On Linux, where
//! every test program runs beside its sources.
#![cfg(all(target_os = "linux", not(miri)))]

use std::path::{Path, PathBuf};

fn read(path: impl AsRef<Path>) -> String {
    let path = package().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

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

/// The files that may hold a test of that file's name.
fn sources(stem: &str) -> impl Iterator<Item = PathBuf> {
    ["tests", "src"]
        .map(|folder| package().join(folder).join(format!("{stem}.rs")))
        .into_iter()
        .filter(|f| f.exists())
}

/// The modules around a function that has the attribute `#[test]` right above it, among others, and
/// is not ignored; `None` if there is none.
fn modules_of_test(source: &str, function: &str) -> Option<Vec<String>> {
    let lines: Vec<_> = source.lines().collect();
    let is_attribute =
        |line: &&&str| line.trim().starts_with("#[") || line.trim().starts_with("//");
    let at = lines.iter().position(|line| line.trim().starts_with(&format!("fn {function}(")))?;
    let attributes: Vec<_> =
        lines[..at].iter().rev().take_while(is_attribute).map(|line| line.trim()).collect();
    if !attributes.contains(&"#[test]")
        || attributes.iter().any(|line| line.starts_with("#[ignore"))
    {
        return None;
    }
    // Of lines further up, those that are indented less are around it.
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut inner = indent(lines[at]);
    let mut modules = Vec::new();
    for line in lines[..at].iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) < inner {
            inner = indent(line);
            if let Some(module) =
                line.trim().strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {"))
            {
                modules.push(module.to_owned());
            }
        }
    }
    Some(modules)
}

/// Parts of the paths of tests that `qemu.sh` skips.
fn skipped_under_qemu(root: &Path) -> Vec<String> {
    let script = read(root.join("scripts/ci/qemu.sh"));
    let words: Vec<_> =
        script.split_whitespace().map(|word| word.trim_end_matches(['"', '\''])).collect();
    words.windows(2).filter(|pair| pair[0] == "--skip").map(|pair| pair[1].to_owned()).collect()
}

/// What stands in backticks, each with the text before it and after it.
fn in_backticks(cell: &str) -> impl Iterator<Item = [&str; 3]> {
    let parts: Vec<_> = cell.split('`').collect();
    (1..parts.len().saturating_sub(1))
        .step_by(2)
        .map(|at| [parts[at - 1], parts[at], parts[at + 1]])
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn every_row_of_the_parity_list_names_tests_that_exist_and_run_where_it_says() {
    let list = read("PARITY.md");
    let skipped = repository().map(|root| skipped_under_qemu(&root));
    assert!(skipped.as_ref().is_none_or(|skipped| skipped.len() > 2), "{skipped:?}");
    let mut named = 0;
    for row in list.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let [_, _, behind] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("three columns: {row}")
        };
        assert!(!behind.is_empty(), "nothing behind it: {row}");
        let says_test = behind.starts_with("test") || behind.contains("; test");
        assert_eq!(
            says_test,
            behind.contains("::"),
            "a test has a name, and is called one: {behind}"
        );
        for [_, test, after] in in_backticks(behind).filter(|code| code[1].contains("::")) {
            let (file, function) = test.split_once("::").expect("filtered");
            let found =
                sources(file).map(read).find_map(|source| modules_of_test(&source, function));
            let modules = found.unwrap_or_else(|| {
                panic!("PARITY.md names {test}, which is not there, or not a test that runs")
            });
            if let Some(skipped) = &skipped {
                let around: String =
                    modules.iter().rev().map(|module| format!("{module}::")).collect();
                let is_skipped =
                    skipped.iter().any(|part| (around.clone() + function).contains(part));
                assert_eq!(
                    after.trim_start().starts_with('¹'),
                    is_skipped,
                    "{test}: ¹ marks what qemu.sh leaves out"
                );
            }
            named += 1;
        }
    }
    assert!(named > 30, "only {named} tests are named");
}

#[test]
fn every_file_that_the_parity_list_names_exists() {
    let list = read("PARITY.md");
    let root = repository();
    let mut named = 0;
    for path in in_backticks(&list)
        .map(|code| code[1])
        .filter(|code| code.contains('/') && !code.contains(' '))
    {
        let is_there = package().join(path).exists()
            || root.as_ref().is_none_or(|root| root.join(path).exists());
        assert!(is_there, "PARITY.md names {path}, which is not there");
        named += 1;
    }
    assert!(named > 4, "{named}");
}
