//! Tests of the bases that a gate accepts and refuses.

use jitterstat::gate::decision::Outcome;

use super::outcomes;
use super::package::{Package, assert_slower};
use crate::fixtures::fixture;
use crate::gate::Gate;
use crate::gate::runs::runs;

#[test]
fn other_trees_are_built_and_compared() {
    let Some(package) = Package::new() else { return };
    let other = package.path("other");
    package.write_suite("other", "sum 500");
    let args = ["--base", other.to_str().unwrap(), "--candidate-name", "mine", "--metric", "wall"];
    let metric = ["--metric", "criterion", "--min-run-time", "0us", "--tolerance", "wall=9000%"];
    let gate = package.gate(&[&args[..], &metric].concat()).exits(0);
    let found = runs(&gate);
    assert_eq!((found.b.as_str(), found.metrics.len()), ("mine", 2));
    assert!(other.join("target/suite").exists());
}

#[test]
fn unusable_bases_are_refused() {
    let Some(package) = Package::new() else { return };
    package.git(&["branch", "old"]);
    for directory in ["old", "src"] {
        std::fs::create_dir(package.path("repository/package").join(directory)).unwrap();
    }
    assert_slower(&package.gate(&["--base", "refs/heads/old"]), 400.0, 500.0);
    let gate = package.gate(&["--base", ".", "--measure-equal"]).exits(0);
    assert_eq!(outcomes(runs(&gate)), [("sum", 500.0, 500.0, Outcome::Pass)]);

    // The build of the second side would replace that of the first one.
    package.write_suite("other", "sum 400");
    let target = package.path("repository/package/target");
    std::os::unix::fs::symlink(target, package.path("other/target")).unwrap();
    let is_candidate = "is built from the package that is judged";
    for (args, says) in [
        ("", "--base"),
        ("--base HEAD --candidate-cmd x --base-cmd x", "cannot be used with"),
        ("--base no-such-revision", "git cannot check it out"),
        ("--base old", "ambiguous --base \"old\": it is a directory and a git"),
        ("--base ./old", is_candidate),
        ("--base src", is_candidate),
        ("--base .", is_candidate),
        ("--base ../../other", "cargo builds both sides to the file"),
        ("--base /", "cargo cannot build suite of /"),
    ] {
        let args: Vec<&str> = args.split_terminator(' ').collect();
        package.gate(&args).refuses(says);
    }
    // The gate has created the directory, so cargo has written no tag.
    let tag = std::fs::read_to_string(package.path("repository/package/target/CACHEDIR.TAG"));
    assert!(tag.unwrap().starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"));
    // The period is that of the runs, and not of the report.
    let file = fixture("report.json");
    let base = ["--base", "no-such-revision", "--period", "2ms"];
    let report = ["--report", file.to_str().unwrap(), "--subject", "os-interval"];
    let args = [&base[..], &report, &["--limit", "p50=1s"]].concat();
    package.gate(&args).refuses("git cannot check it out");
    assert_eq!(package.trees(), 1);
}

#[test]
fn flags_of_other_places_are_refused() {
    let Some(package) = Package::new() else { return };
    let features = ["--cargo-flags", "--config x.toml --features target-dir"];
    package.gate(&[&["--base", "HEAD"][..], &features].concat()).exits(1);
    for (flags, named) in [
        ("--target-dir /x", "--target-dir"),
        ("--target-dir=x", "--target-dir"),
        ("--manifest-path x/Cargo.toml", "--manifest-path"),
        ("--config 'build.target-dir=\"/x\"'", "target-dir"),
        ("--config=build.build-dir='\"/x\"'", "build-dir"),
    ] {
        let says = format!("cannot use {named}: the gate builds the package in the current");
        package.gate(&["--base", "HEAD", "--cargo-flags", flags]).refuses(&says);
    }
}

/// Cargo finds a package above a directory that has none.
#[test]
fn packages_without_base_are_refused() {
    let Some(package) = Package::new() else { return };
    let repository = package.path("repository");
    let write = |file: &str, text: &str| std::fs::write(repository.join(file), text).unwrap();
    let remove = |file: &str| std::fs::remove_file(repository.join(file)).unwrap();
    // Each directory with a benchmark is a package of the workspace, named by the file `name`.
    package.extend_cargo(
        r#"if [ "$1" = metadata ]; then
    root=$PWD
    until [ -f "$root/root" ]; do root=${root%/*}; done
    for suite in "$root/suite" "$root"/*/suite; do
        directory=${suite%/suite}
        [ -f "$suite" ] || continue
        name=$(cat "$directory/name" 2>/dev/null || echo "${directory##*/}")
        packages="$packages${packages:+,}{\"name\":\"$name\",\"manifest_path\":\"$directory/Cargo.toml\"}"
    done
    echo "{\"target_directory\":\"$root/target\",\"workspace_root\":\"$root\",\"packages\":[$packages]}"
    exit
fi
"#,
    );
    write("root", "");
    write("name", "tiny");
    package.write_suite("repository", "sum 400");
    std::fs::create_dir(repository.join("member")).unwrap();
    write("member/README.md", "planned");
    package.commit();
    package.write_suite("repository/member", "sum 4000");
    package.write_suite("repository/new", "sum 4000");
    let in_directory = |directory: &str, base: &str| {
        let command = package.command(&["--base", base]).directory(&repository.join(directory));
        Gate::from_ran(command.run())
    };
    in_directory("new", "HEAD").refuses("--base \"HEAD\" has no directory new: the package is new");
    let other = "cargo builds other packages: tiny in the top directory of --base";
    in_directory("member", "HEAD").refuses(other);
    let clone = package.path("clone");
    package.git(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    in_directory("member", clone.to_str().unwrap()).refuses(other);
    // A package that was renamed or moved is compared.
    package.write_suite("repository/package", "sum 600");
    write("package/name", "renamed");
    assert_slower(&in_directory("package", "HEAD"), 500.0, 600.0);
    remove("package/name");
    write("member/name", "package");
    let old = clone.join("package");
    assert_slower(&in_directory("member", old.to_str().unwrap()), 500.0, 4000.0);
    // The user names another member.
    remove("member/name");
    assert_slower(&in_directory("member", "../package"), 600.0, 4000.0);
}
