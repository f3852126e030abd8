//! The house keeps its shape: imports run downward as ARCHITECTURE.md draws them, and never in a
//! circle.
//!
//! This reads text, not types: `use` declarations, and paths in the code that begin with `crate`,
//! `super` or an imported module. Re-exports are followed to the file that defines the name. A
//! module of tests may import what it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// A module is named by its path from the crate's root; the root itself is empty.
type Module = Vec<String>;

/// The source of one crate: its modules and their text without comments, strings and tests.
struct Crate {
    files: BTreeMap<Module, String>,
}

/// A `use` declaration's leaf: the path, and the name it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Import {
    path: Vec<String>,
    name: String,
}

impl Crate {
    fn read(directory: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(directory, &Module::new(), &mut files);
        assert!(!files.is_empty(), "no source in {}", directory.display());
        Self { files }
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let module =
            |path: &str| path.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect();
        Self { files: files.iter().map(|(path, text)| (module(path), code_of(text))).collect() }
    }

    /// Every pair of modules of which the first imports the second.
    fn arrows(&self) -> BTreeSet<(Module, Module)> {
        let imports: BTreeMap<&Module, Vec<Import>> =
            self.files.iter().map(|(m, text)| (m, imports(m, text))).collect();
        let mut arrows = BTreeSet::new();
        for (module, text) in &self.files {
            let of_file = &imports[module];
            let declared = of_file.iter().map(|i| i.path.clone());
            let inline = paths(text).into_iter().filter_map(|path| {
                let (first, rest) = path.split_first()?;
                if first == "crate" || first == "super" || first == "self" {
                    return Some(absolute(module, &path));
                }
                let import = of_file.iter().find(|i| i.name == *first)?;
                Some([import.path.as_slice(), rest].concat())
            });
            for path in declared.chain(inline) {
                if let Some(target) =
                    self.defines(&imports, &path, 0).filter(|target| target != module)
                {
                    arrows.insert((module.clone(), target));
                }
            }
        }
        arrows
    }

    /// The module that a path from the root leads to, re-exports followed.
    fn defines(
        &self,
        imports: &BTreeMap<&Module, Vec<Import>>,
        path: &[String],
        depth: u8,
    ) -> Option<Module> {
        let known = (0..=path.len()).rev().find(|&n| self.files.contains_key(&path[..n]))?;
        let module = path[..known].to_vec();
        let item = path.get(known).filter(|_| depth < 8);
        let again = item.and_then(|item| {
            imports[&module].iter().find(|i| i.name == *item && i.path[..] != path[..=known])
        });
        match again {
            Some(again) => self.defines(
                imports,
                &[again.path.as_slice(), &path[known + 1..]].concat(),
                depth + 1,
            ),
            None => Some(module),
        }
    }
}

fn collect(directory: &Path, module: &Module, files: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_str().unwrap().to_owned();
        let child = || [module.as_slice(), std::slice::from_ref(&name)].concat();
        if entry.is_dir() {
            collect(&entry, &child(), files);
        } else if entry.extension().is_some_and(|e| e == "rs") && name != "tests" {
            let is_parent = matches!(name.as_str(), "mod" | "lib" | "main");
            let text = std::fs::read_to_string(&entry).unwrap();
            files.insert(if is_parent { module.clone() } else { child() }, code_of(&text));
        }
    }
}

/// The text without comments, string literals and modules of tests. In an inline module, `super` is
/// the file.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    let mut inline = false;
    while let Some(line) = lines.next() {
        let opens =
            |line: &str| line.trim_start_matches("pub ").starts_with("mod ") && line.ends_with('{');
        let tests = line.starts_with("#[cfg(") && (line.contains("test") || line.contains("loom"));
        if tests && lines.peek().is_some_and(|next| opens(next)) {
            lines.by_ref().take_while(|line| *line != "}").for_each(drop);
            continue;
        }
        inline = (inline || opens(line)) && line != "}";
        let line = without_strings(line);
        code += &if inline { line.replace("super::", "self::") } else { line };
        code.push('\n');
    }
    code
}

fn without_strings(line: &str) -> String {
    let (mut code, mut in_string) = (String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if in_string => drop(characters.next()),
            '"' => in_string = !in_string,
            '/' if !in_string && characters.peek() == Some(&'/') => break,
            c if !in_string => code.push(c),
            _ => {}
        }
    }
    code
}

/// The leaves of every `use` of something in the crate, as paths from its root.
fn imports(module: &Module, code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let Some(tree) = code[at + 4..].split(';').next() else { continue };
        let tree: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
        for (path, name) in leaves(&tree) {
            let first = path.first().map(String::as_str);
            let child =
                || path.first().map(|f| [module.as_slice(), std::slice::from_ref(f)].concat());
            let local = matches!(first, Some("crate" | "super" | "self"));
            if local {
                found.push(Import { path: absolute(module, &path), name });
            } else if child().is_some_and(|c| code.contains(&format!("mod {};", c[c.len() - 1]))) {
                found.push(Import { path: [module.as_slice(), &path].concat(), name });
            }
        }
    }
    found
}

/// `a::{self, b as c}` as its leaves with the names they get.
fn leaves(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let Some((head, inside)) = tree.split_once('{') else {
        let (path, alias) =
            tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
        let mut path: Vec<String> =
            path.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect();
        if path.len() > 1 && path.last().is_some_and(|s| s == "self") {
            path.pop();
        }
        let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
        return vec![(path, name)];
    };
    let inside = &inside[..inside.rfind('}').unwrap_or(inside.len())];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts
        .into_iter()
        .filter(|p| !p.trim().is_empty())
        .flat_map(|part| leaves(&format!("{head}{}", part.trim())))
        .collect()
}

/// Every `a::b::c` in the code.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    // What ends in `::` is the head of a group, whose leaves are imports.
    let words = code.split(|c| !is_part(c)).filter(|w| w.contains("::") && !w.ends_with("::"));
    let segments = words
        .map(|w| w.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect::<Vec<_>>());
    segments.filter(|path| path.len() > 1).collect()
}

/// A path that begins with `crate`, `super` or `self`, from the root.
fn absolute(module: &Module, path: &[String]) -> Vec<String> {
    let mut from = if path[0] == "crate" { Module::new() } else { module.clone() };
    let mut rest = path;
    while let Some((first, more)) = rest.split_first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => drop(from.pop()),
            _ => break,
        }
        rest = more;
    }
    [from.as_slice(), rest].concat()
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

/// The circles of a graph: groups of modules that reach each other.
fn circles(arrows: &BTreeSet<(Module, Module)>) -> Vec<Vec<Module>> {
    let reached = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = open.pop() {
            for (_, to) in arrows.iter().filter(|(a, _)| *a == module) {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<Module, BTreeSet<Module>> =
        arrows.iter().map(|(a, _)| (a.clone(), reached(a))).collect();
    let mut circles: Vec<Vec<Module>> = Vec::new();
    for (module, reaches) in all.iter().filter(|(m, r)| r.contains(*m)) {
        let circle: Vec<Module> = reaches
            .iter()
            .filter(|m| all.get(*m).is_some_and(|r| r.contains(module)))
            .cloned()
            .collect();
        if !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// The floors of the program and its instrument, the highest first, as ARCHITECTURE.md draws them.
fn floors(architecture: &str) -> Vec<Vec<String>> {
    let (_, after) = architecture
        .split_once("## Who may import whom")
        .expect("ARCHITECTURE.md has that chapter");
    let block = after.split("```").nth(1).expect("with the floors in a block");
    let lines = block.lines().skip(1).filter(|l| !l.trim().is_empty());
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Every arrow between rooms that does not lead to a lower floor.
fn against(arrows: &BTreeSet<(Module, Module)>, floors: &[Vec<String>]) -> Vec<String> {
    let floor = |room: &str| floors.iter().position(|f| f.iter().any(|r| r == room));
    let room = |module: &Module| module.first().cloned().unwrap_or_else(|| "main".to_owned());
    let mut broken = Vec::new();
    for (from, to) in arrows.iter().filter(|(from, to)| room(from) != room(to)) {
        let allowed = floor(&room(from)).zip(floor(&room(to))).is_some_and(|(from, to)| from < to);
        if !allowed {
            broken.push(format!("{} -> {}", shown(from), shown(to)));
        }
    }
    broken
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn imports_of_the_program_and_its_instrument_run_downward() {
    let floors = floors(&std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap());
    let (program, instrument) =
        (Crate::read(&root().join("src")), Crate::read(&root().join("lib/instrument/src")));
    let rooms_of = |house: &Crate| -> BTreeSet<String> {
        house.files.keys().filter_map(|m| m.first().cloned()).collect()
    };
    let (upper, lower) = (rooms_of(&program), rooms_of(&instrument));
    assert!(upper.is_disjoint(&lower), "a room is in src/ or in lib/instrument");
    let drawn: BTreeSet<String> =
        floors.iter().flatten().filter(|f| *f != "main").cloned().collect();
    assert_eq!(
        &upper | &lower,
        drawn,
        "the rooms of src/ and lib/instrument, and the floors of ARCHITECTURE.md"
    );
    // The instrument knows nothing of the program, so no floor is of both.
    let mixed = floors
        .iter()
        .find(|f| f.iter().any(|r| upper.contains(r)) && f.iter().any(|r| lower.contains(r)));
    assert_eq!(mixed, None, "a floor is of the program or of the instrument");
    let broken =
        [against(&program.arrows(), &floors), against(&instrument.arrows(), &floors)].concat();
    assert!(
        broken.is_empty(),
        "imports that ARCHITECTURE.md does not allow:\n{}",
        broken.join("\n")
    );
}

#[test]
fn nothing_is_imported_in_a_circle() {
    let crates =
        std::fs::read_dir(root().join("lib")).unwrap().map(|e| e.unwrap().path().join("src"));
    let mut found = String::new();
    for source in crates.chain([root().join("src")]) {
        let arrows = Crate::read(&source).arrows();
        for circle in circles(&arrows) {
            let _ = writeln!(found, "{}:", source.strip_prefix(root()).unwrap().display());
            for (from, to) in
                arrows.iter().filter(|(a, b)| circle.contains(a) && circle.contains(b))
            {
                let _ = writeln!(found, "  {} -> {}", shown(from), shown(to));
            }
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{found}");
}

/// An action that is named by a tag is whatever its owner makes of it tomorrow.
#[test]
fn workflows_pin_what_they_use_and_may_only_read_unless_a_job_says_otherwise() {
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

#[test]
fn libraries_depend_on_each_other_as_drawn() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, after) =
        architecture.split_once("Between the libraries").expect("ARCHITECTURE.md draws them");
    let block = after.split("```").nth(1).expect("in a block");
    let drawn: BTreeSet<(String, String)> = block
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once('>'))
        .flat_map(|(from, to)| {
            let (from, to): (Vec<_>, Vec<_>) = (from.split(',').collect(), to.split(',').collect());
            from.into_iter().flat_map(move |f| {
                to.clone().into_iter().map(move |t| (f.trim().to_owned(), t.trim().to_owned()))
            })
        })
        .collect();
    let mut declared = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("lib")).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = std::fs::read_to_string(entry.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let dependencies = manifest
            .get("dependencies")
            .and_then(|d| d.as_table())
            .into_iter()
            .flat_map(|d| d.keys());
        let ours = dependencies.filter(|d| root().join("lib").join(d).is_dir());
        declared.extend(ours.map(|d| (name.clone(), d.clone())));
    }
    assert_eq!(declared, drawn);
}

#[test]
fn an_arrow_that_runs_up_and_a_circle_are_found() {
    let house = Crate::of(&[
        ("", "mod gate; mod text; mod files; use gate::run;"),
        (
            "gate",
            "mod plan;\nuse crate::gate::{plan::Other};\npub use plan::Plan;\npub fn run() { crate::text::wrap() }",
        ),
        (
            "gate::plan",
            "use crate::files::{self, Directory}; fn f() { files::open(\"crate::gate::x\") }",
        ),
        ("files", "use crate::gate::Plan; // crate::text::time"),
        (
            "text",
            "fn wrap() {}\n#[cfg(all(test, loom))]\nmod tests {\n    use crate::gate;\n}\nmod inner {\n    use super::wrap;\n}",
        ),
    ]);
    let arrows = house.arrows();
    let shown: Vec<String> =
        arrows.iter().map(|(a, b)| format!("{} -> {}", shown(a), shown(b))).collect();
    let expected = [
        "the root -> gate",
        "files -> gate::plan",
        "gate -> gate::plan",
        "gate -> text",
        "gate::plan -> files",
    ];
    assert_eq!(shown, expected);
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    assert_eq!(circles(&arrows), [vec![module("files"), module("gate::plan")]]);
    let floors = floors("## Who may import whom\n\n```text\nmain\ngate\nfiles\ntext\n```\n");
    assert_eq!(against(&arrows, &floors), ["files -> gate::plan"]);
}
