//! The README and the book: their programs compile, and their figures come from reports.

use std::collections::BTreeMap;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README first, then the pages of the book.
fn pages() -> Vec<String> {
    let book = std::fs::read_dir(root().join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
    let pages = [root().join("README.md")].into_iter().chain(book);
    pages.map(|page| std::fs::read_to_string(page).unwrap()).collect()
}

#[test]
fn every_program_is_an_example_that_cargo_compiles() {
    let pages = pages();
    let of = |page: &str| -> Vec<String> {
        let programs = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
        programs.map(str::to_owned).collect()
    };
    let programs: Vec<String> = pages.iter().flat_map(|page| of(page)).collect();
    assert!(!of(&pages[0]).is_empty() && programs.len() >= 2, "{} programs", programs.len());
    let examples: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        // One of several files is a directory, and none that a page shows.
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
        .collect();
    for program in programs {
        assert!(examples.iter().any(|example| example.ends_with(&program)), "no example ends with:\n{program}");
    }
}

/// What a script puts into a page stands between two comments, and names the file that it comes from.
#[test]
fn every_block_of_figures_is_there_once_and_names_its_file() {
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let crates = std::fs::read_dir(root().join("lib")).unwrap().map(|entry| entry.unwrap().path().join("README.md"));
    for page in pages().into_iter().chain(crates.map(|page| std::fs::read_to_string(page).unwrap())) {
        let comments = page.match_indices("<!-- ").filter_map(|(at, mark)| page[at + mark.len()..].split_once(" -->"));
        for (name, rest) in comments.filter(|(name, _)| !name.starts_with("end of ")) {
            let end = format!("<!-- end of {name} -->");
            let (text, _) = rest.split_once(&end).unwrap_or_else(|| panic!("{name} has no end"));
            blocks.entry(name.to_owned()).or_default().push(text.to_owned());
        }
    }
    let scripts = std::fs::read_dir(root().join("scripts"));
    // A published package has no scripts.
    let Ok(scripts) = scripts else { return };
    let scripts: String =
        scripts.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok()).collect::<Vec<_>>().join("\n");
    let put: Vec<&str> = scripts.split("put(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for (name, texts) in &blocks {
        assert_eq!(texts.len(), 1, "{name}");
        assert!(texts[0].contains("](results/") || texts[0].contains("](../../results/"), "{name} names no file");
        assert!(put.contains(&name.as_str()), "no script puts {name}");
    }
    assert!(blocks.len() >= 5, "{:?}", blocks.keys());
}
