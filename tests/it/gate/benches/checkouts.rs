//! Tests of the base that a gate checks out and builds.

use std::path::Path;

#[cfg(target_os = "linux")]
use jitterstat::gate::decision::Outcome;

#[cfg(target_os = "linux")]
use super::outcomes;
use super::package::{Package, assert_slower};
use crate::gate::Gate;
use crate::gate::runs::runs;
use crate::osjitter::names_in;
use crate::test_programs::write_executable;

#[test]
fn revisions_are_built_and_compared() {
    let Some(package) = Package::new() else { return };
    let gate = package.gate(&["--base", "HEAD", "--cargo-flags", "--features fast"]);
    assert_slower(&gate, 400.0, 500.0);
    let found = runs(&gate);
    assert_eq!((found.a.as_str(), found.b.as_str()), ("HEAD", "working tree"));
    let log = package.log();
    let flags =
        "bench --no-run --message-format json-render-diagnostics --bench suite --features fast";
    assert!(log.lines().count() == 2 && log.lines().all(|line| line.contains(flags)), "{log}");
    let checkout = log.lines().nth(1).and_then(|line| line.split_once(" bench")).unwrap().0;
    assert_eq!(checkout.len(), package.path("repository/package").as_os_str().len());
    assert!(checkout.ends_with("/package") && !Path::new(checkout).exists(), "{checkout}");
    assert!(!names_in(package.home()).iter().any(|name| name.starts_with('.')));
    assert_eq!(package.trees(), 1);
    let target = package.path("repository/package/target");
    assert!(target.join("osjitter-base/suite").exists() && target.join("suite").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn same_programs_are_not_measured() {
    let Some(package) = Package::new() else { return };
    let write = |name: &str, text: &str| {
        std::fs::write(package.path("repository/package").join(name), text).unwrap();
    };
    package.write_suite("repository/package", "sum $(cat input)");
    write("input", "400");
    package.commit();
    write("README.md", "changed");
    let gate = package.gate(&["--base", "HEAD"]).exits(0);
    let found = runs(&gate);
    assert_eq!((found.pairs, found.metrics.len()), (0, 0));
    assert_eq!(found.same_program.as_ref().map(|same| same.opened_files), Some(1));
    let text = &gate.ran.stdout;
    assert!(text.contains("verdict: pass: both sides are the same program"), "{text}");
    let measured = package.gate(&["--base", "HEAD", "--measure-equal"]).exits(0);
    assert_eq!(outcomes(runs(&measured)), [("sum", 400.0, 400.0, Outcome::Pass)]);
    write("input", "500");
    let other_input = package.gate(&["--base", "HEAD"]);
    assert_slower(&other_input, 400.0, 500.0);
    let note = &other_input.ran.stderr;
    assert!(note.contains("input, which differs, so they are measured"), "{note}");
}

/// Git passes the index of the commit in progress to its hooks.
#[test]
fn commits_keep_their_tree_in_hooks() {
    let Some(package) = Package::new() else { return };
    // Neither cargo nor the benchmark has the variables of the hook.
    let checked = "[ -z \"$GIT_DIR$GIT_INDEX_FILE\" ] || exit 3\n";
    package.extend_cargo(checked);
    package.write_suite("repository/package", &format!("sum 400\n{checked}"));
    package.commit();
    package.git(&["worktree", "add", "--quiet", "--detach", "../linked"]);
    // The hook accepts a regression only, which is that of the commit.
    let hook = format!(
        "#!/bin/sh\ncd package\n\"{}\" gate --bench suite --max-pairs 24 --base HEAD --force --out \"{}\" \
         >&2\n[ $? = 1 ]\n",
        env!("CARGO_BIN_EXE_osjitter"),
        package.path("results").display()
    );
    std::fs::create_dir_all(package.path("repository/.git/hooks")).unwrap();
    write_executable(&package.path("repository/.git/hooks/pre-commit"), hook);
    let commit = ["commit", "--quiet", "--message", "x"];
    for (tree, adds_before) in [("repository", false), ("linked", true)] {
        package.write_suite(&format!("{tree}/package"), &format!("sum 500\n{checked}"));
        if adds_before {
            package.git_in(tree, &["add", "package/suite"]);
            package.git_in(tree, &commit);
        } else {
            package.git_in(tree, &[&commit[..], &["--all"]].concat());
        }
        let changed = package.git_in(tree, &["diff", "--name-only", "HEAD~1", "HEAD"]);
        assert_eq!(changed, "package/suite\n", "{tree}");
        assert_eq!(package.git_in(tree, &["status", "--porcelain", "--untracked-files=no"]), "");
    }
}

/// Git finds the repository by the current directory, as it does for the checkout of the base.
#[test]
fn git_directory_of_users_is_ignored() {
    let Some(package) = Package::new() else { return };
    let command = package.command(&["--base", "HEAD"]).env("GIT_DIR", "/no/such/directory");
    assert_slower(&Gate::from_ran(command.run()), 400.0, 500.0);
    let command = package.command(&["--base", "HEAD"]).directory(package.home());
    let ran = command.env("GIT_DIR", package.path("repository/.git")).run();
    Gate::from_ran(ran).refuses("GIT_DIR is ignored");
}

/// The directory of a killed gate is left, or git or a user has removed it without its entry.
#[test]
fn worktrees_of_killed_gates_are_removed() {
    let Some(package) = Package::new() else { return };
    package.gate(&["--base", "HEAD"]).exits(1);
    let log = package.log();
    let checkout = log.lines().nth(1).and_then(|line| line.split_once("/package bench")).unwrap().0;
    let abandoned = package.path(".abandoned");
    for (tree, reason, removed) in [
        (abandoned.to_str().unwrap(), "osjitter gate", None),
        (checkout, "osjitter gate", Some("")),
        (checkout, "osjitter gate", Some(".git")),
        (checkout, "initializing", Some("")),
    ] {
        package.git(&["worktree", "add", "--detach", "--quiet", tree]);
        package.git(&["worktree", "lock", "--reason", reason, tree]);
        match removed {
            None => {}
            Some("") => std::fs::remove_dir_all(tree).unwrap(),
            Some(file) => std::fs::remove_file(Path::new(tree).join(file)).unwrap(),
        }
        package.gate(&["--base", "HEAD"]).exits(1);
        assert_eq!(package.trees(), 1, "{reason}: {removed:?}");
        assert!(!Path::new(tree).exists(), "{reason}: {removed:?}");
    }
}
