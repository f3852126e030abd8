//! The lists of checks in `.ci` and the steps in `scripts/ci`.

use std::collections::BTreeSet;
use std::path::Path;

/// Scripts that workflows and people run, and that no list has.
const UNLISTED: [&str; 2] = ["node", "sanitizer"];
/// Parts of the other scripts.
const SHARED: [&str; 4] = ["cfg-wrapper", "common", "steps", "targets"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names of the steps in a list, which are in the column after the limit. Returns `None` outside of
/// the repository.
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
fn every_step_says_why() {
    let (Some(run), Some(nightly)) = (listed_steps("run"), listed_steps("nightly")) else { return };
    for step in run.union(&nightly) {
        let text =
            std::fs::read_to_string(root().join("scripts/ci").join(step).with_extension("sh"))
                .unwrap();
        let why = text.lines().nth(1).unwrap_or_default();
        assert!(why.starts_with("# ") && why.ends_with('.'), "{step}: {why:?}");
    }
}

/// The owner of an action can move a tag, so actions are pinned by commit.
#[test]
fn workflows_pin_actions_and_only_read() {
    let workflows =
        std::fs::read_dir(root().join(".github/workflows")).unwrap().map(|e| e.unwrap().path());
    let mut used = 0;
    for file in workflows.chain([root().join(".github/actions/gate/action.yml")]) {
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
