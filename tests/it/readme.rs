//! Checks the README and the book: their programs compile, and their figures come from reports.
//! Checks the READMEs of the libraries: the dependencies that they show match the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::{Table, Value};

use crate::docs::markdown_in;
use crate::osjitter::Osjitter;
use crate::workspace::{crates, is_internal, root};

/// Returns the README, followed by the pages of the book.
fn pages() -> Vec<String> {
    let pages = [root().join("README.md")].into_iter().chain(markdown_in(&root().join("docs/src")));
    pages.map(|page| std::fs::read_to_string(page).unwrap()).collect()
}

/// Returns the lines of the README's shell blocks before its second heading.
fn first_commands() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let first_section = page.split("\n## ").next().unwrap();
    let blocks = first_section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// CI runs the commands literally; see `scripts/ci/readme-commands.sh`.
#[test]
fn readme_starts_with_two_commands() {
    let commands = first_commands();
    let run = "cargo run --release -- run ";
    let beginnings = ["apt-get ", "curl ", run, "cargo test "];
    assert_eq!(commands.len(), beginnings.len(), "{commands:?}");
    for (command, beginning) in commands.iter().zip(beginnings) {
        assert!(command.starts_with(beginning), "{command}: expected {beginning}");
    }

    let args = shlex::split(commands[2].strip_prefix(run).unwrap()).expect("closed quotes");
    let printed = Osjitter::new(["run", "--print-plan"]).args(args).run().exits(0).stdout;
    let plan: Table = printed.parse().unwrap();
    let scenarios = plan["scenario"].as_array().expect("scenarios");
    assert!(scenarios.len() > 1, "{printed}");

    let tests = commands[3].split(' ').collect::<Vec<_>>();
    assert!(tests.contains(&"--workspace") && tests.contains(&"--locked"), "{tests:?}");
}

#[test]
fn programs_in_pages_are_examples() {
    if !root().join("lib").is_dir() {
        return; // Some are tests of libraries, which a published package does not contain.
    }
    let pages = pages();
    let programs_in = |page: &str| -> Vec<String> {
        let programs = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
        programs.map(str::to_owned).collect()
    };
    let programs: Vec<String> = pages.iter().flat_map(|page| programs_in(page)).collect();
    assert!(programs.len() >= 2, "{} programs", programs.len());
    let tests = crates().into_iter().map(|directory| directory.join("tests"));
    let directories = [root().join("examples")].into_iter().chain(tests);
    let entries = directories.flat_map(std::fs::read_dir).flatten();
    // An example of several files is a directory, and no page shows it.
    let examples: Vec<String> =
        entries.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok()).collect();
    for program in programs {
        assert!(
            examples.iter().any(|example| example.ends_with(&program)),
            "no example and no test ends with:\n{program}"
        );
    }
}

/// A block inserted by a script is between two comments and names its source file.
#[test]
fn figure_blocks_name_their_files() {
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let readmes = crates().into_iter().map(|path| path.join("README.md"));
    for page in
        pages().into_iter().chain(readmes.map(|page| std::fs::read_to_string(page).unwrap()))
    {
        let comments = page
            .match_indices("<!-- ")
            .filter_map(|(at, mark)| page[at + mark.len()..].split_once(" -->"));
        for (name, rest) in comments.filter(|(name, _)| !name.starts_with("end of ")) {
            let end = format!("<!-- end of {name} -->");
            let (text, _) = rest.split_once(&end).unwrap_or_else(|| panic!("{name} has no end"));
            blocks.entry(name.to_owned()).or_default().push(text.to_owned());
        }
    }
    let directories = ["scripts/results", "scripts/studies", "fuzz"];
    let entries = directories.map(|directory| std::fs::read_dir(root().join(directory)));
    // A published package has no scripts.
    if entries.iter().any(Result::is_err) {
        return;
    }
    let scripts: String = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
        .collect::<Vec<_>>()
        .join("\n");
    let put: Vec<&str> =
        scripts.split("put(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for (name, texts) in &blocks {
        assert_eq!(texts.len(), 1, "{name}");
        assert!(
            ["](results/", "](../../results/", "/blob/main/results/", "pictures/"]
                .iter()
                .any(|link| texts[0].contains(link)),
            "{name} names no file"
        );
        assert!(put.contains(&name.as_str()), "no script puts {name}");
    }
    assert!(blocks.len() >= 5, "{:?}", blocks.keys());
}

fn manifest(directory: &Path) -> Table {
    let path = directory.join("Cargo.toml");
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .parse()
        .unwrap()
}

/// Returns the `[dependencies]` that a page shows, by key.
fn dependencies(page: &str) -> Vec<(String, Value)> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let tables = blocks
        .map(|block| block.parse::<Table>().unwrap_or_else(|error| panic!("{error}\n{block}")));
    let shown = tables.filter_map(|mut table| table.remove("dependencies"));
    shown.flat_map(|shown| shown.as_table().expect("a table").clone()).collect()
}

fn text<'a>(dependency: &'a Value, key: &str) -> Option<&'a str> {
    dependency
        .get(key)
        .map(|value| value.as_str().unwrap_or_else(|| panic!("{key} is a string: {dependency}")))
}

fn features(dependency: &Value) -> BTreeSet<String> {
    let features = dependency.get("features").and_then(Value::as_array).into_iter().flatten();
    features.map(|feature| feature.as_str().expect("a string").to_owned()).collect()
}

/// Returns the version requirement of a dependency.
fn version(dependency: &Value) -> Option<&str> {
    dependency.as_str().or_else(|| text(dependency, "version"))
}

/// Returns the features of external packages that the manifests of the workspace enable, by
/// package. These features exist.
fn external_features() -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for directory in crates().into_iter().chain([root().to_owned()]) {
        let manifest = manifest(&directory);
        for kind in ["dependencies", "dev-dependencies"] {
            for (name, dependency) in
                manifest.get(kind).and_then(Value::as_table).into_iter().flatten()
            {
                known.entry(name.clone()).or_default().extend(features(dependency));
            }
        }
    }
    known
}

#[test]
fn readme_dependencies_match_the_workspace() {
    if !root().join("lib").is_dir() {
        return; // A published package has no libraries in it.
    }
    let workspace = manifest(root());
    let workspace_version = &workspace["workspace"]["package"]["version"];
    let shared = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let external = external_features();
    let manifests: BTreeMap<_, Table> =
        crates().into_iter().map(|path| (path.clone(), manifest(&path))).collect();
    let name =
        |manifest: &Table| manifest["package"]["name"].as_str().expect("a string").to_owned();
    for (path, readme_manifest) in &manifests {
        let directory = path.display();
        let shown = dependencies(&std::fs::read_to_string(path.join("README.md")).unwrap());
        let mut shows_package = false;
        for (key, dependency) in shown {
            let package = text(&dependency, "package").unwrap_or(&key);
            let required =
                version(&dependency).unwrap_or_else(|| panic!("{directory}: {key} has no version"));
            let Some(manifest) = manifests.values().find(|manifest| name(manifest) == package)
            else {
                let known = shared
                    .get(package)
                    .filter(|known| known.get("path").is_none())
                    .and_then(version);
                assert_eq!(
                    Some(required),
                    known,
                    "{directory}: the version of {package} in Cargo.toml"
                );
                let unknown: Vec<_> =
                    features(&dependency).difference(&external[package]).cloned().collect();
                assert!(
                    unknown.is_empty(),
                    "{directory}: no manifest enables these features of {package}: {unknown:?}"
                );
                continue;
            };
            // The key is the name of the library, which the programs use.
            let library = manifest
                .get("lib")
                .and_then(|lib| lib.get("name"))
                .and_then(Value::as_str)
                .unwrap_or(package);
            assert_eq!(key, library, "{directory}: the library of {package}");
            assert!(
                workspace_version
                    .as_str()
                    .is_some_and(|version| version.starts_with(&format!("{required}."))),
                "{directory}: {required}, not {workspace_version}"
            );
            assert_eq!(
                text(&dependency, "git"),
                workspace["workspace"]["package"]["repository"].as_str(),
                "{directory}: the repository of {package}"
            );
            let has = manifest.get("features").and_then(Value::as_table);
            let lacks: Vec<_> = features(&dependency)
                .into_iter()
                .filter(|f| has.is_none_or(|has| !has.contains_key(f)))
                .collect();
            assert!(lacks.is_empty(), "{directory}: {package} has no features {lacks:?}");
            shows_package |= package == name(readme_manifest);
        }
        assert!(
            shows_package || is_internal(path),
            "{directory}/README.md does not show how to depend on it"
        );
    }
    assert!(manifests.len() >= 7, "{:?}", manifests.keys());
}
