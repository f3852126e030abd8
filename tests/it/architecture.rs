//! Checks the rules of ARCHITECTURE.md that the compiler does not check: commands do not import
//! each other, and there are no import cycles.
//!
//! Imports are found by a text search for paths that begin with `crate` or `super`. It requires
//! code formatted by rustfmt.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::workspace::{crates, is_internal, root};

/// Modules of `src/` that may import commands: they dispatch to them or test them.
const ABOVE_COMMANDS: [&str; 5] = ["", "bin", "commands", "fuzz", "report"];

/// The path of a module from the crate's root, which itself is the empty string.
type Module = String;

/// The modules of a crate with their code.
struct Modules(BTreeMap<Module, String>);

impl Modules {
    fn read(directory: &Path) -> Self {
        let mut modules = BTreeMap::new();
        read_directory(directory, "", &mut modules);
        Self(modules)
    }

    fn imports(&self) -> BTreeSet<(Module, Module)> {
        let mut imports = BTreeSet::new();
        for (module, code) in &self.0 {
            let targets = paths(code).into_iter().filter_map(|path| self.resolve(module, &path));
            let others = targets.filter(|target| target != module);
            imports.extend(others.map(|target| (module.clone(), target)));
        }
        imports
    }

    /// Returns the module that contains the item at a path; `None` for paths of other crates.
    fn resolve(&self, module: &str, path: &str) -> Option<Module> {
        let mut base: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        let mut parts = path.split("::").peekable();
        match parts.next()? {
            "crate" => base.clear(),
            "super" => drop(base.pop()),
            _ => return None,
        }
        while parts.next_if_eq(&"super").is_some() {
            base.pop();
        }
        base.extend(parts);
        let prefixes = (0..=base.len()).rev().map(|length| base[..length].join("::"));
        prefixes.into_iter().find(|prefix| self.0.contains_key(prefix))
    }
}

fn read_directory(directory: &Path, parent: &str, modules: &mut BTreeMap<Module, String>) {
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let child = if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") };
        if path.is_dir() {
            read_directory(&path, &child, modules);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let is_parent = matches!(name, "mod" | "lib");
            let text = std::fs::read_to_string(&path).unwrap();
            modules.insert(if is_parent { parent.to_owned() } else { child }, code(&text));
        }
    }
}

/// Returns the text up to the first test module, without comments.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let text = text.split("\n#[cfg(all(test").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns every path with at least two parts; each leaf of `a::{b, c}` is a separate path.
fn paths(code: &str) -> Vec<String> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let (mut found, mut prefixes) = (Vec::new(), Vec::<String>::new());
    for token in code.split_inclusive(|c: char| !is_path(c)) {
        let word = token.trim_end_matches(|c: char| !is_path(c));
        let path =
            prefixes.iter().filter(|prefix| !prefix.is_empty()).cloned().collect::<String>() + word;
        match token.chars().next_back() {
            Some('{') => {
                prefixes.push(if word.ends_with("::") { word.to_owned() } else { String::new() })
            }
            _ if !word.is_empty() && path.contains("::") => {
                found.push(path.trim_end_matches(':').to_owned())
            }
            _ => {}
        }
        if token.ends_with('}') {
            prefixes.pop();
        }
    }
    found
}

fn commands() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, after) = text.split_once("\nCommands: ").expect("ARCHITECTURE.md lists the commands");
    let list = after.split_once(".\n").expect("the list ends").0;
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn commands_do_not_import_each_other() {
    let modules = Modules::read(&root().join("src"));
    let commands = commands();
    let top = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    for command in &commands {
        assert!(modules.0.contains_key(command), "{command} is not a module");
    }
    let imports = modules.imports();
    assert!(imports.len() > 100, "only {} imports were found", imports.len());
    let violations = imports.iter().filter(|(from, to)| {
        let is_other = top(from) != top(to) && commands.contains(&top(to));
        is_other && !ABOVE_COMMANDS.contains(&top(from).as_str())
    });
    assert_eq!(violations.collect::<Vec<_>>(), Vec::<&(Module, Module)>::new());
}

#[test]
fn every_module_is_documented() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for directory in [root().join("src"), root().join("lib/internal/engine/src")] {
        // A published package has no libraries in it.
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(text.contains(&format!("`{name}`")), "ARCHITECTURE.md lacks `{name}`");
        }
    }
}

#[test]
fn modules_have_no_import_cycles() {
    for directory in crates().iter().map(|path| path.as_path()).chain([root()]) {
        let mut imports = Modules::read(&directory.join("src")).imports();
        loop {
            // Modules without imports, and modules that nothing imports, are not part of a cycle.
            let importers: BTreeSet<Module> =
                imports.iter().map(|(from, _)| from.clone()).collect();
            let before = imports.len();
            imports.retain(|(_, to)| importers.contains(to));
            if imports.len() == before {
                break;
            }
        }
        assert!(imports.is_empty(), "import cycles in {}: {imports:?}", directory.display());
    }
}

#[test]
fn violations_and_cycles_are_found() {
    let files =
        [("a", "use crate::{b::{self, X}, c};"), ("b", "fn f() { super::a::g() }"), ("c", "")];
    let modules = Modules(files.map(|(name, code)| (name.to_owned(), code.to_owned())).into());
    let expected =
        [("a", "b"), ("a", "c"), ("b", "a")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(modules.imports(), expected.into());
}

#[test]
fn crate_dependencies_are_documented() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, after) = text.split_once("layers between crates:").expect("the dependencies of crates");
    let block = after.split("```").nth(1).expect("a code block");
    let mut documented = BTreeSet::new();
    for line in block.lines().filter(|line| line.contains('>') && !line.contains("nothing")) {
        let layers: Vec<Vec<&str>> =
            line.split('>').map(|layer| layer.split(',').map(str::trim).collect()).collect();
        for (depth, layer) in layers.iter().enumerate() {
            let lower = layers[depth + 1..].iter().flatten();
            documented.extend(
                layer.iter().flat_map(|a| lower.clone().map(|b| (a.to_string(), b.to_string()))),
            );
        }
    }
    for directory in crates() {
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let dependencies = manifest.get("dependencies").and_then(|table| table.as_table());
        for dependency in dependencies.into_iter().flat_map(|table| table.keys()) {
            let is_member = crates().iter().any(|path| path.ends_with(dependency));
            let edge = (name.clone(), dependency.clone());
            assert!(!is_member || documented.contains(&edge), "{edge:?} is not documented");
        }
    }
}

/// A target without 64-bit atomics has a fallback, or an error that names it.
#[test]
fn libraries_guard_64_bit_atomics() {
    for directory in crates().into_iter().filter(|directory| !is_internal(directory)) {
        let modules = Modules::read(&directory.join("src"));
        let code: String = modules.0.into_values().collect();
        let has_words = ["AtomicU64", "AtomicI64"].iter().any(|name| code.contains(name));
        let is_guarded = code.contains("target_has_atomic = \"64\"");
        assert_eq!(has_words, is_guarded, "{}", directory.display());
    }
}
