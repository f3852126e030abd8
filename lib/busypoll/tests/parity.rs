//! What `PARITY.md` and `README.md` claim is there. On Linux, where every test program runs beside its sources.
#![cfg(all(target_os = "linux", not(miri)))]

use std::path::{Path, PathBuf};

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(under: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(under)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The rows of Markdown tables, as cells.
fn rows(markdown: &str) -> impl Iterator<Item = Vec<&str>> {
    markdown
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
}

fn in_backticks(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether a line `fn function() …` has the attribute `#[test]` right above it, among others.
fn has_test(source: &str, function: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_attribute = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
    lines.iter().enumerate().any(|(at, line)| {
        line.starts_with(&format!("fn {function}()"))
            && lines[..at].iter().rev().take_while(is_attribute).any(|line| *line == "#[test]")
    })
}

#[test]
fn every_row_of_the_parity_list_names_tests_that_exist() {
    let list = read("PARITY.md");
    let files: Vec<_> = sources("tests").into_iter().chain(sources("src")).collect();
    let mut named = 0;
    for row in rows(&list) {
        let [_, here, tests] = row[..] else { panic!("three columns: {row:?}") };
        if here.is_empty() || here == "busypoll" || here.starts_with("---") {
            continue;
        }
        assert!(in_backticks(tests).next().is_some(), "no test: {row:?}");
        for test in in_backticks(tests) {
            let (file, function) = test.split_once("::").unwrap_or_else(|| panic!("not file::function: {test}"));
            let of_that_name = files.iter().filter(|path| path.file_stem().is_some_and(|stem| stem == file));
            let found = of_that_name.map(read).any(|source| has_test(&source, function));
            assert!(found, "PARITY.md names {test}, which is not there, or not a test");
            named += 1;
        }
    }
    assert!(named > 40, "only {named} tests are named");
}

#[test]
fn the_readme_quotes_the_measured_figures() {
    let results = "../../results/2026-11-21-epyc-kvm-4cpu-dispatch/dispatch.md";
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").exists() {
        // The package alone, outside the repository.
        return;
    }
    let (readme, measured) = (read("README.md"), read(results));
    let p50 = |operation: &str, runtime: &str| {
        let row = rows(&measured).find(|row| row[..2] == [operation, runtime]);
        row.unwrap_or_else(|| panic!("{results} has no {operation} of {runtime}"))[2].to_owned()
    };
    let mut quoted = 0;
    for row in rows(&readme) {
        let Some(operation) = in_backticks(row[0]).next().filter(|_| row[0].contains("`: ")) else { continue };
        assert_eq!(row[1..], [p50(operation, "busypoll"), p50(operation, "tokio")], "{operation}");
        quoted += 1;
    }
    assert!(quoted > 5, "{quoted}");
}

mod own_process {
    use std::collections::BTreeSet;
    use std::process::Command;

    #[test]
    fn the_tree_of_dependencies_stays_small() {
        let tree = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--features", "default"];
        let cargo = std::env::var_os("CARGO").expect("cargo names itself to the tests it runs");
        let output = Command::new(cargo).args(tree).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let crates: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(crates.contains("mio"), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(crates.len() <= 15, "{} crates: {crates:?}", crates.len());
    }
}
