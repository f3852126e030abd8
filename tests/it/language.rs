//! Keeps names and phrases out of the code and the documentation that hide what is meant.

use std::process::Command;

use engine::measure::child::remove_repository;

use crate::test_programs::has_program;
use crate::workspace::root;

/// The patterns with the number of hits that are still tolerated: lower it, but never raise it.
#[rustfmt::skip]
const ALLOWED: [(&str, usize); 15] = [
    ("`of` as a name", 0), ("bound not called MAX_ or MIN_", 0), ("opening of documentation", 0),
    ("test name above six words", 0), ("beside", 2), ("whoever", 0), ("nobody", 0),
    ("somebody", 0), ("anew", 0), ("for ever", 0), ("by turns", 0),
    ("stands", 0), ("stand", 0), ("lies", 0), ("lie", 0),
];
const EXCLUDED: [&str; 5] = ["CHANGELOG", "results/", "snapshots/", "fixtures/", "language.rs"];
const OF_NAMES: [&str; 10] =
    ["fn of(", "fn of<", "fn of_", "let of ", "|of|", "|of,", "|of:", " of|", "(of: ", " of: "];
const BOUNDS: [&str; 5] = ["MOST_", "LEAST_", "LONGEST_", "LARGEST_", "SHORTEST_"];
const OPENINGS: [&str; 7] =
    ["What ", "Who ", "Whoever ", "Of ", "Those of ", "The same ", "So many "];

/// Returns whether a line has a pattern; `is_test` tells whether it follows a test attribute.
fn has_pattern(line: &str, pattern: &str, is_test: bool) -> bool {
    let (code, comment) = line.split_once("//").unwrap_or((line, ""));
    let code: String = code.split('"').step_by(2).collect();
    let documentation = comment.strip_prefix(['/', '!']).unwrap_or_default().trim_start();
    let words = line.to_lowercase().replace(|c: char| !c.is_alphanumeric() && c != '_', " ");
    let function = code.split_once("fn ").map_or("", |(_, rest)| rest.split('(').next().unwrap());
    match pattern {
        "`of` as a name" => OF_NAMES.iter().any(|name| code.contains(name)),
        "bound not called MAX_ or MIN_" => BOUNDS.iter().any(|bound| code.contains(bound)),
        "opening of documentation" => OPENINGS.iter().any(|text| documentation.starts_with(text)),
        "test name above six words" => is_test && function.matches('_').count() > 5,
        phrase => format!(" {words} ").contains(&format!(" {phrase} ")),
    }
}

#[test]
fn undesired_phrases_do_not_spread() {
    if !has_program("git", "--version") {
        return;
    }
    let mut git = Command::new("git");
    git.args(["ls-files", "*.rs", "*.md"]).current_dir(root());
    remove_repository(&mut git);
    let list = String::from_utf8(git.output().unwrap().stdout).unwrap();
    let is_checked = |file: &&str| !EXCLUDED.iter().any(|part| file.contains(part));
    let mut hits = ALLOWED.map(|_| Vec::new());
    for file in list.lines().filter(is_checked) {
        let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
        let mut is_test = false;
        for (index, line) in text.lines().enumerate() {
            for ((pattern, _), hits) in ALLOWED.iter().zip(&mut hits) {
                if has_pattern(line, pattern, is_test) {
                    hits.push(format!("{file}:{}", index + 1));
                }
            }
            let starts_test = line.contains("#[test]") || line.contains("#[tokio::test");
            is_test = starts_test || is_test && line.contains("#[");
        }
    }
    let mut violations = ALLOWED.into_iter().zip(hits).collect::<Vec<_>>();
    violations.retain(|((_, allowed), hits)| hits.len() > *allowed);
    assert!(violations.is_empty(), "more hits than allowed: {violations:#?}");
}
