//! Checks the claims of `PARITY.md` and `README.md`. Runs on Linux only, where the sources are
//! available next to the test programs.
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

/// Returns the rows of Markdown tables as cells.
fn rows(markdown: &str) -> impl Iterator<Item = Vec<&str>> {
    markdown
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
}

fn in_backticks(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the modules that enclose a test function, from the innermost one. Returns `None` if
/// the function does not exist, if it lacks the attribute `#[test]`, or if it is ignored.
fn modules_of_test(source: &str, function: &str) -> Option<Vec<String>> {
    let lines: Vec<_> = source.lines().collect();
    let is_attribute =
        |line: &&&str| line.trim().starts_with("#[") || line.trim().starts_with("//");
    let at = lines.iter().position(|line| line.trim().starts_with(&format!("fn {function}()")))?;
    let attributes: Vec<_> =
        lines[..at].iter().rev().take_while(is_attribute).map(|line| line.trim()).collect();
    if !attributes.contains(&"#[test]")
        || attributes.iter().any(|line| line.starts_with("#[ignore"))
    {
        return None;
    }
    // Among the lines above, those with less indentation enclose the function.
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

/// Returns the repository that contains the package, or `None` if the package is outside of it.
fn repository() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("Cargo.toml"))
        .is_ok_and(|toml| toml.contains("[workspace]"))
        .then_some(root)
}

/// Returns the filters of the tests that `qemu.sh` skips.
fn skipped_under_qemu(root: &Path) -> Vec<String> {
    let script = read(root.join("scripts/ci/qemu.sh"));
    let words: Vec<_> =
        script.split_whitespace().map(|word| word.trim_end_matches(['"', '\''])).collect();
    words.windows(2).filter(|pair| pair[0] == "--skip").map(|pair| pair[1].to_owned()).collect()
}

#[test]
fn parity_rows_name_existing_tests() {
    let list = read("PARITY.md");
    let files: Vec<_> = sources("tests").into_iter().chain(sources("src")).collect();
    let skipped = repository().map(|root| skipped_under_qemu(&root));
    assert!(skipped.as_ref().is_none_or(|skipped| skipped.len() > 2), "{skipped:?}");
    let mut named = 0;
    for row in rows(&list) {
        let [_, here, tests] = row[..] else { panic!("three columns: {row:?}") };
        if here.is_empty() || here == "busypoll" || here.starts_with("---") {
            continue;
        }
        assert!(in_backticks(tests).next().is_some(), "no test: {row:?}");
        for entry in tests.split(", ") {
            let test = in_backticks(entry).next().unwrap_or_else(|| panic!("no test: {entry}"));
            let (file, function) =
                test.split_once("::").unwrap_or_else(|| panic!("not file::function: {test}"));
            let same_name =
                files.iter().filter(|path| path.file_stem().is_some_and(|stem| stem == file));
            let found = same_name.map(read).find_map(|source| modules_of_test(&source, function));
            let modules = found.unwrap_or_else(|| {
                panic!("PARITY.md names {test}, which does not exist or is not an active test")
            });
            let is_model = modules.iter().any(|module| module == "loom_tests");
            assert_eq!(
                entry.contains('²'),
                is_model,
                "{entry}: ² must mark exactly the loom models"
            );
            if let Some(skipped) = &skipped {
                let path: String =
                    modules.iter().rev().map(|module| format!("{module}::")).collect::<String>()
                        + function;
                let is_skipped = skipped.iter().any(|part| path.contains(part));
                assert_eq!(
                    entry.contains('¹'),
                    is_skipped,
                    "{entry}: ¹ must mark exactly the tests that qemu.sh skips"
                );
            }
            named += 1;
        }
    }
    assert!(named > 40, "only {named} tests are named");
}

#[test]
fn readme_quotes_measured_figures() {
    // The results are not part of the package.
    let Some(root) = repository() else { return };
    let readme = read("README.md");
    let link = readme.split_once("](../../results/").and_then(|(_, rest)| rest.split_once(')'));
    let results =
        link.map(|(path, _)| format!("results/{path}")).expect("the figures name their file");
    let measured = read(root.join(&results));
    let p50 = |operation: &str, runtime: &str| {
        let row = rows(&measured).find(|row| row[..2] == [operation, runtime]);
        row.unwrap_or_else(|| panic!("{results} has no {operation} of {runtime}"))[2].to_owned()
    };
    let mut quoted = 0;
    for row in rows(&readme) {
        let Some(operation) = in_backticks(row[0]).next().filter(|_| row[0].contains("`: ")) else {
            continue;
        };
        assert_eq!(row[1..], [p50(operation, "busypoll"), p50(operation, "tokio")], "{operation}");
        quoted += 1;
    }
    assert!(quoted > 5, "{quoted}");
}

mod own_process {
    use std::collections::BTreeSet;
    use std::process::Command;

    #[test]
    fn dependency_tree_stays_small() {
        let tree =
            ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--features", "default"];
        // Cargo names itself to the tests that it runs, but not to those that a script runs.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(tree)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let crates: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(crates.contains("mio"), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(crates.len() <= 14, "{} crates: {crates:?}", crates.len());
    }
}
