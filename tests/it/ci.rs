//! Checks that the lists in `.ci` and the steps in `scripts/ci` agree.

use std::collections::BTreeSet;

use crate::workspace::{crates, root};

/// Scripts that are in no list: workflows or people run them.
const UNLISTED: [&str; 1] = ["sanitizer"];
/// Scripts that the other ones source.
const SHARED: [&str; 5] = ["cfg-wrapper", "common", "readme-commands", "steps", "targets"];

/// Returns the names of the steps in a list, which are in the column after the limit. Returns
/// `None` outside of the repository.
fn listed_steps(list: &str) -> Option<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(".ci").join(list)).ok()?;
    let step = |line: &str| {
        let call = line
            .strip_prefix("step ")
            .or_else(|| line.strip_prefix("nightly ")?.rsplit_once('"').map(|(_, r)| r))?;
        call.split_whitespace().nth(1).map(str::to_owned)
    };
    Some(text.lines().filter_map(step).collect())
}

#[test]
fn every_step_is_listed() {
    let (Some(run), Some(nightly)) = (listed_steps("run"), listed_steps("nightly")) else { return };
    assert!(run.len() >= 10 && nightly.len() >= 15, "{run:?} {nightly:?}");
    let listed = run.union(&nightly).map(String::as_str);
    let expected: BTreeSet<&str> = listed.chain(UNLISTED).chain(SHARED).collect();
    let directory = std::fs::read_dir(root().join("scripts/ci")).unwrap();
    let scripts: Vec<String> =
        directory.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let found: BTreeSet<&str> =
        scripts.iter().filter_map(|name| name.strip_suffix(".sh")).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_step_has_a_description() {
    let (Some(run), Some(nightly)) = (listed_steps("run"), listed_steps("nightly")) else { return };
    for step in run.union(&nightly) {
        let text =
            std::fs::read_to_string(root().join("scripts/ci").join(step).with_extension("sh"))
                .unwrap();
        let description = text.lines().nth(1).unwrap_or_default();
        let is_sentence = description.starts_with("# ") && description.ends_with('.');
        assert!(is_sentence, "{step}: {description:?}");
    }
}

/// A filter that matches no test has no effect, and no error reports it.
#[test]
fn skipped_tests_exist() {
    let Ok(scripts) = std::fs::read_dir(root().join("scripts/ci")) else { return };
    let names = test_names();
    let mut skipped = 0;
    for script in scripts.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&script).unwrap();
        let words = text.split("--skip ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        for word in words {
            let word = word.trim_end_matches("::");
            let exists = names.iter().any(|name| name.contains(word));
            assert!(exists, "{} skips {word:?}, which matches no test", script.display());
            skipped += 1;
        }
    }
    assert!(skipped >= 10, "only {skipped} skipped tests were found");
}

/// Returns the names of all functions and modules of the libraries, including tests.
fn test_names() -> Vec<String> {
    let mut names = Vec::new();
    let mut directories: Vec<_> =
        crates().iter().flat_map(|path| [path.join("src"), path.join("tests")]).collect();
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let words = text.split_whitespace().zip(text.split_whitespace().skip(1));
            let defined = words.filter(|(keyword, _)| matches!(*keyword, "fn" | "mod"));
            names.extend(defined.map(|(_, name)| name.to_owned()));
        }
    }
    names
}

/// The owner of an action can move a tag, so actions are pinned by commit.
#[test]
fn workflows_pin_actions_and_only_read() {
    let workflows =
        std::fs::read_dir(root().join(".github/workflows")).unwrap().map(|e| e.unwrap().path());
    let mut used = 0;
    let actions = ["gate", "gate/comment", "gate/request"];
    let actions = actions.map(|name| root().join(format!(".github/actions/{name}/action.yml")));
    for file in workflows.chain(actions) {
        let text = std::fs::read_to_string(&file).unwrap();
        for action in text
            .lines()
            .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("uses: "))
        {
            let commit = action
                .split_once('@')
                .map(|(_, at)| at.split_once(" # v").map_or("", |(commit, _)| commit));
            let is_pinned =
                commit.is_some_and(|c| c.len() == 40 && c.chars().all(|c| c.is_ascii_hexdigit()));
            assert!(is_pinned || action.starts_with("./"), "{}: {action}", file.display());
            used += 1;
        }
        let is_action = file.ends_with("action.yml");
        assert!(
            is_action || text.contains("\npermissions:\n  contents: read\n"),
            "{}",
            file.display()
        );
    }
    assert!(used > 10, "{used} uses were found");
}

/// A tool without a version can change between two runs of a workflow.
#[test]
fn workflows_install_pinned_tools() {
    let workflows = std::fs::read_dir(root().join(".github/workflows")).unwrap();
    let mut installed = 0;
    for file in workflows.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| line.contains("cargo install ")) {
            let is_pinned = line.contains("--version ") && line.contains("--locked");
            assert!(is_pinned, "{}: {line}", file.display());
            installed += 1;
        }
    }
    assert!(installed >= 1, "{installed} installed tools were found");
}
