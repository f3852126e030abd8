//! Checks that the tests (as `file::function`) and files that PARITY.md names exist. It runs on
//! Linux, where every test program runs next to its sources.
#![cfg(all(target_os = "linux", not(miri)))]

use std::path::{Path, PathBuf};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = package().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the repository that contains the package; `None` if the package is outside of it.
fn repository() -> Option<PathBuf> {
    let root = package().join("../..");
    std::fs::read_to_string(root.join("Cargo.toml"))
        .is_ok_and(|toml| toml.contains("[workspace]"))
        .then_some(root)
}

/// Returns the sources that have this file stem, and the tests of such a module in their own file.
fn sources(stem: &str) -> impl Iterator<Item = PathBuf> {
    let files =
        [format!("tests/{stem}.rs"), format!("src/{stem}.rs"), format!("src/{stem}/tests.rs")];
    files.into_iter().map(|file| package().join(file)).filter(|path| path.exists())
}

/// Returns the path of a test within its source, with its modules; `None` if the function has no
/// `#[test]` among the attributes directly above it, or is ignored.
fn find_test(source: &str, function: &str) -> Option<String> {
    let lines: Vec<_> = source.lines().collect();
    let start = format!("fn {function}(");
    let index = lines.iter().position(|line| line.trim().starts_with(&start))?;
    let is_attribute = |line: &&str| line.starts_with("#[") || line.starts_with("//");
    let lines_above = lines[..index].iter().rev().map(|line| line.trim());
    let attributes: Vec<_> = lines_above.take_while(is_attribute).collect();
    let is_ignored = attributes.iter().any(|line| line.starts_with("#[ignore"));
    if !attributes.contains(&"#[test]") || is_ignored {
        return None;
    }
    Some(enclosing_modules(&lines, index) + function)
}

/// Returns the modules around a line, each followed by `::`. A line further up is around it if it
/// is indented less.
fn enclosing_modules(lines: &[&str], index: usize) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut min_indent = indent(lines[index]);
    let mut modules = String::new();
    for line in lines[..index].iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) >= min_indent {
            continue;
        }
        min_indent = indent(line);
        let module = line.trim().strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {"));
        if let Some(module) = module {
            modules = format!("{module}::{modules}");
        }
    }
    modules
}

/// Returns the parts of the paths of tests that `qemu.sh` skips.
fn parts_skipped_under_qemu(root: &Path) -> Vec<String> {
    let script = read(root.join("scripts/ci/qemu.sh"));
    let words = script.split_whitespace().map(|word| word.trim_end_matches(['"', '\'']));
    let words: Vec<_> = words.collect();
    let skips = words.windows(2).filter(|pair| pair[0] == "--skip");
    skips.map(|pair| pair[1].to_owned()).collect()
}

/// Text in backticks, with the text after it.
struct CodeSpan<'a> {
    code: &'a str,
    after: &'a str,
}

fn code_spans(cell: &str) -> Vec<CodeSpan<'_>> {
    let parts: Vec<_> = cell.split('`').collect();
    let indices = (1..parts.len().saturating_sub(1)).step_by(2);
    indices.map(|i| CodeSpan { code: parts[i], after: parts[i + 1] }).collect()
}

/// Panics unless the test exists, runs, and is marked if `qemu.sh` skips it.
fn check_test(span: &CodeSpan<'_>, skipped_parts: Option<&[String]>) {
    let test = span.code;
    let (stem, function) = test.split_once("::").expect("expected file::function");
    let found = sources(stem).map(read).find_map(|source| find_test(&source, function));
    let Some(path) = found else {
        panic!("PARITY.md names {test}, which does not exist, or is ignored")
    };
    if let Some(skipped_parts) = skipped_parts {
        let is_skipped = skipped_parts.iter().any(|part| path.contains(part));
        let is_marked = span.after.trim_start().starts_with('¹');
        assert_eq!(is_marked, is_skipped, "{test}: ¹ marks the tests that qemu.sh skips");
    }
}

#[test]
fn parity_list_names_existing_tests() {
    let list = read("PARITY.md");
    let skipped_parts = repository().map(|root| parts_skipped_under_qemu(&root));
    assert!(skipped_parts.as_ref().is_none_or(|parts| parts.len() > 2), "{skipped_parts:?}");
    let mut count = 0;
    for row in list.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let [_, _, evidence] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("expected three columns: {row}")
        };
        assert!(!evidence.is_empty(), "expected evidence: {row}");
        let mentions_test = evidence.starts_with("test") || evidence.contains("; test");
        assert_eq!(mentions_test, evidence.contains("::"), "expected \"test\" and names: {row}");
        for span in code_spans(evidence).iter().filter(|span| span.code.contains("::")) {
            check_test(span, skipped_parts.as_deref());
            count += 1;
        }
    }
    assert!(count > 30, "PARITY.md names only {count} tests");
}

#[test]
fn parity_list_names_existing_files() {
    let list = read("PARITY.md");
    let root = repository();
    let spans = code_spans(&list);
    let is_path = |code: &&str| code.contains('/') && !code.contains(' ');
    let mut count = 0;
    for path in spans.iter().map(|span| span.code).filter(is_path) {
        let exists = package().join(path).exists()
            || root.as_ref().is_none_or(|root| root.join(path).exists());
        assert!(exists, "PARITY.md names {path}, which does not exist");
        count += 1;
    }
    assert!(count > 4, "PARITY.md names only {count} files");
}
