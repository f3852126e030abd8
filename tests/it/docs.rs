//! Checks the documentation: every link has a target, and the book lists every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::osjitter::Osjitter;
use crate::workspace::{crates, root};

pub fn markdown_in(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the pages of the repository, without output of the tool.
fn pages() -> Vec<PathBuf> {
    let others = [root().to_owned(), root().join("docs/src"), root().join("results")];
    let directories = crates().into_iter().chain(others);
    directories.flat_map(|directory| markdown_in(&directory)).collect()
}

/// Returns the targets of the Markdown links of a page, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let prose = text.lines().filter(|line| {
        fenced ^= line.trim_start().starts_with("```");
        !fenced
    });
    let prose: Vec<&str> = prose.collect();
    let targets = prose
        .iter()
        .flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    targets.map(str::to_owned).collect()
}

/// Returns the anchors of the headings of a page, as GitHub and mdBook generate them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim());
    let slug = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(slug).collect()
}

/// Returns the file of the repository and the anchor in it that a link of a page leads to, unless
/// the link leaves the repository.
fn local_target<'a>(page: &Path, link: &'a str) -> Option<(PathBuf, Option<&'a str>)> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, at)| (path, Some(at)));
    let on_main =
        ["blob", "tree"].map(|kind| format!("{}/{kind}/main/", env!("CARGO_PKG_REPOSITORY")));
    let file = on_main.iter().find_map(|url| path.strip_prefix(url.as_str()));
    let target = match file {
        Some(file) => root().join(file),
        None if path.contains("://") => return None,
        None if path.is_empty() => page.to_owned(),
        None => page.with_file_name(path),
    };
    Some((target, anchor))
}

/// mdBook copies only files of its own directory. `scripts/ci/book.sh` checks the book that it
/// builds.
#[test]
fn book_contains_what_its_pages_show() {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let (mut pictures, mut outside) = (0, Vec::new());
    for page in markdown_in(&root().join("docs/src")) {
        let text = fs::read_to_string(&page).expect("a page");
        for picture in text.split("![").skip(1) {
            let (alternative, rest) = picture.split_once("](").expect("a target");
            let target = rest.split(')').next().expect("an end");
            assert!(alternative.ends_with('.'), "{}: no sentence: {alternative}", page.display());
            pictures += 1;
            outside.extend(target.contains("://").then(|| format!("{}: {target}", page.display())));
        }
        // A page of the book, or a file in its directory, must not be linked through its
        // repository.
        let leaves = |link: &str| {
            link.contains("../") || (link.starts_with(repository) && link.contains("/docs/src/"))
        };
        let leaving = links(&text).into_iter().filter(|link| leaves(link));
        outside.extend(leaving.map(|link| format!("{}: {link}", page.display())));
    }
    assert!(outside.is_empty() && pictures > 8, "{pictures} pictures, {outside:#?}");
}

#[test]
fn links_have_existing_targets() {
    if !root().join(".github").is_dir() {
        return; // A published package has no results to link to.
    }
    let (mut seen, mut broken) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for link in links(&text) {
            let Some((target, anchor)) = local_target(&page, &link) else { continue };
            seen += 1;
            let exists = match anchor {
                Some(anchor) => {
                    fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
                }
                None => target.exists(),
            };
            if !exists {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty() && seen > 50, "{seen} links, of these broken: {broken:#?}");
}

#[test]
fn book_lists_every_page_once() {
    let source = root().join("docs/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).expect("the summary");
    let mut listed = links(&summary);
    listed.sort_unstable();
    let name = |page: &PathBuf| page.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut found: Vec<String> = markdown_in(&source).iter().filter_map(name).collect();
    found.retain(|name| name != "SUMMARY.md");
    found.sort_unstable();
    assert_eq!(listed, found);
}

/// Returns the items of a numbered list, each as one line.
fn items(page: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in page.lines() {
        match items.last_mut() {
            _ if line.starts_with(|c: char| c.is_ascii_digit()) => items.push(line.to_owned()),
            Some(item) => *item += &format!(" {}", line.trim()),
            None => {}
        }
    }
    items
}

/// Checks that each answer is reachable with one command and its help, or with one command and a
/// page.
#[test]
fn questions_name_existing_commands_and_pages() {
    let page = fs::read_to_string(root().join("docs/src/questions.md")).expect("the questions");
    let help = |command: &[&str]| Osjitter::new(command).args(["--help"]).run().exits(0).stdout;
    let questions = items(&page);
    assert!(questions.len() >= 10, "{}", questions.len());
    for (number, question) in (1..).zip(&questions) {
        assert!(question.starts_with(&format!("{number}. **")), "{question}");
        assert!(question.contains("?**"), "{question}");
        let commands: Vec<&str> = question
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|code| code.strip_prefix("osjitter "))
            .collect();
        assert!(!commands.is_empty(), "no command, or no page: {question}");
        assert!(!links(question).is_empty(), "no command, or no page: {question}");
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let says = help(&words[..1]);
            let flags = words
                .iter()
                .take_while(|word| **word != "--")
                .filter(|word| word.starts_with("--"));
            for flag in flags {
                assert!(
                    says.contains(flag.trim_end_matches('…')),
                    "osjitter {} --help has no {flag}",
                    words[0]
                );
            }
        }
    }
    assert!(help(&[]).contains("docs/src/questions.md"), "the first help says where they are");
}
