//! Runs the commands and programs that the book and the README show, in a directory that has the
//! files of a user.
#![cfg(unix)]

mod language_programs;
mod shell_lines;

use std::fs;
use std::path::Path;

use crate::docs::markdown_in;
use crate::osjitter::Osjitter;
use crate::workspace::{crates, root};

/// A fenced block of a page.
struct Block {
    page: String,
    language: String,
    text: String,
}

/// Returns the fenced blocks of the README and of all pages, in order.
fn blocks() -> Vec<Block> {
    let mut pages = markdown_in(&root().join("docs/src"));
    pages.push(root().join("README.md"));
    pages.sort();
    pages.iter().flat_map(|page| blocks_of_page(page)).collect()
}

fn blocks_of_page(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).expect("a page");
    let page = path.file_name().expect("a name").to_string_lossy().into_owned();
    let (mut blocks, mut current) = (Vec::new(), None);
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut current) {
            (Some(language), None) => {
                let (page, language) = (page.clone(), language.to_owned());
                current = Some(Block { page, language, text: String::new() });
            }
            (Some(_), _) => blocks.extend(current.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(current.is_none(), "{page}: a block has no end");
    blocks
}

fn blocks_in(page: &str, language: &str) -> Vec<Block> {
    let mut blocks = blocks();
    blocks.retain(|block| block.page == page && block.language == language);
    blocks
}

/// Languages of blocks, with the test that covers them.
const LANGUAGES: [(&str, &str); 11] = [
    ("c", "here: the writers are built and run"),
    ("go", "here, if the machine has it"),
    ("js", "here, if the machine has it"),
    ("python", "here, if the machine has it"),
    ("sh", "here: all commands are run, except for those of NOT_RUN"),
    ("toml", "here: osjitter parses them"),
    ("rust", "readme.rs: they are examples"),
    ("rust,ignore", "here: they are parts of examples"),
    ("diff", "none: old code is on the left"),
    ("yaml", "commands.rs: the commands in them are parsed"),
    ("text", "none: it is output"),
];

#[test]
fn languages_of_blocks_are_tested() {
    for Block { page, language, text } in blocks() {
        let is_known = LANGUAGES.iter().any(|(known, _)| *known == language);
        assert!(is_known, "{page}: no test covers the language {language:?} of\n{text}");
    }
}

#[test]
fn parts_of_programs_are_in_examples() {
    if !root().join("lib").is_dir() {
        return; // A published package has no examples of libraries.
    }
    let directories = crates().into_iter().chain([root().to_owned()]);
    let entries = directories.flat_map(|path| fs::read_dir(path.join("examples"))).flatten();
    let sources =
        entries.filter_map(|entry| fs::read_to_string(entry.expect("a file").path()).ok());
    let without_indents =
        |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let examples: Vec<String> = sources.map(|text| without_indents(&text)).collect();
    for Block { page, language, text } in blocks() {
        let part = without_indents(&text);
        let is_in_example = examples.iter().any(|example| example.contains(&part));
        assert!(language != "rust,ignore" || is_in_example, "{page}: no example has\n{text}");
    }
}

/// Whether a block of TOML is for cargo.
fn is_manifest(text: &str) -> bool {
    text.contains("dependencies]")
}

#[test]
fn plans_and_settings_are_valid() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("file.toml");
    for Block { page, language, text } in blocks() {
        if language != "toml" {
            continue;
        }
        fs::write(&file, &text).expect("a temporary directory");
        let path = file.to_str().expect("UTF-8");
        if is_manifest(&text) {
            text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{page}: {error}"));
        } else if text.contains("[[scenario]]") {
            Osjitter::new(["run", "--plan", path, "--print-plan"]).run().exits(0);
        } else {
            for command in ["run", "gate", "monitor"] {
                let args = [command, "--config", path, "--print-config"];
                Osjitter::new(args).run().exits(0);
            }
        }
    }
}
