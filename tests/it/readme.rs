//! The README: its programs compile, and what it links to is there.

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

#[test]
fn every_program_is_an_example_that_cargo_compiles() {
    let readme = readme();
    let programs: Vec<&str> = readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(programs.len() >= 2, "{} programs", programs.len());
    let examples: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for program in programs {
        assert!(examples.iter().any(|example| example.ends_with(program)), "no example ends with:\n{program}");
    }
}

#[test]
fn every_link_into_the_repository_leads_somewhere() {
    for file in ["README.md", "ARCHITECTURE.md", "results/README.md"] {
        let directory = root().join(file);
        let directory = directory.parent().unwrap();
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let there = target.is_empty() || target.contains("://") || directory.join(target).exists();
            assert!(there, "{file}: {link}");
        }
    }
}
