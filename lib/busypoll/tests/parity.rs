//! The parity list names tests and measurements: each of them is there. Not under Miri, Wine or qemu, far from the sources.
#![cfg(not(miri))]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(under: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(under)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn every_test_that_the_parity_list_names_exists() {
    let Ok(list) = std::fs::read_to_string(root().join("PARITY.md")) else { return };
    let files: Vec<_> = sources("tests").into_iter().chain(sources("src")).collect();
    let mut named = 0;
    for (file, function) in list.split('`').filter_map(|word| word.split_once("::")) {
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !plain(file) || !plain(function) {
            continue;
        }
        let found = files
            .iter()
            .filter(|path| path.file_stem().is_some_and(|stem| stem == file))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .any(|source| {
                let at = source.find(&format!("fn {function}()"));
                at.is_some_and(|at| source[..at].trim_end().ends_with(']') && source[..at].contains("#[test]"))
            });
        assert!(found, "PARITY.md names {file}::{function}, which is not there, or not a test");
        named += 1;
    }
    assert!(named > 60, "only {named} tests are named as file::function, in backticks");
}

#[test]
fn every_operation_that_the_parity_list_names_is_measured() {
    let Ok(list) = std::fs::read_to_string(root().join("PARITY.md")) else { return };
    // Of the workspace; not there where this crate is alone.
    let Ok(plan) = std::fs::read_to_string(root().join("../../src/bench/dispatch/plan.rs")) else { return };
    let mut named = 0;
    for operation in list.split('`').filter_map(|word| word.strip_prefix("dispatch/")) {
        assert!(plan.contains(&format!("=> \"{operation}\"")), "bench dispatch has no operation {operation}");
        named += 1;
    }
    assert!(named > 10);
}

#[test]
fn the_tree_of_dependencies_stays_small() {
    // Cargo says where it is to the tests it runs.
    let Some(cargo) = std::env::var_os("CARGO") else { return };
    if cfg!(not(target_os = "linux")) || !root().join("Cargo.toml").exists() {
        return;
    }
    let tree = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--features", "default"];
    let output = Command::new(cargo).args(tree).current_dir(root()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: std::collections::BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("mio"), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(crates.len() <= 15, "{} crates: {crates:?}", crates.len());
}
