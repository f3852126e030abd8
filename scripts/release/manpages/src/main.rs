//! Writes the manual pages that packages of osjitter install, one for each command.
//!
//! ```text
//! cargo run -p osjitter-manpages -- DIRECTORY
//! ```

use std::error::Error;
use std::path::Path;

use clap::Command;

const VERSION: &str = concat!("osjitter ", env!("CARGO_PKG_VERSION"));

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("expected a directory for the pages")?;
    write_pages(Path::new(&directory))
}

/// Writes the page of each command into a directory, which is created if necessary.
fn write_pages(directory: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(directory)?;
    let mut command = without_help_command(osjitter::command());
    command.build();
    write_page(&command, directory)
}

/// Removes the `help` subcommands, which have no page: `--help` and the pages replace them.
fn without_help_command(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help_command)
}

/// Writes the pages of a command and its visible subcommands.
fn write_page(command: &Command, directory: &Path) -> Result<(), Box<dyn Error>> {
    let page = clap_mangen::Man::new(command.clone()).source(VERSION).manual("osjitter");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = keep_examples(&String::from_utf8(text)?);
    std::fs::write(directory.join(page.get_filename()), text)?;
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    for subcommand in visible {
        write_page(subcommand, directory)?;
    }
    Ok(())
}

/// Turns off hyphenation, and keeps the lines of examples as they are: a hyphen at the end of a line
/// or a second space would be copied with a command.
fn keep_examples(page: &str) -> String {
    let mut text = String::new();
    let mut is_example = false;
    for line in page.lines() {
        // An example is indented.
        if line.starts_with("  ") != is_example {
            is_example = !is_example;
            text += if is_example { ".nf\n" } else { ".fi\n" };
        }
        text += line;
        text.push('\n');
        if line.starts_with(".TH ") {
            text += ".nh\n.ad l\n";
        }
    }
    text + if is_example { ".fi\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pages() -> BTreeMap<String, String> {
        let directory = tempfile::tempdir().unwrap();
        write_pages(directory.path()).unwrap();
        let read = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        };
        directory.path().read_dir().unwrap().map(read).collect()
    }

    #[test]
    fn visible_commands_have_pages() {
        let pages = pages();
        for name in ["osjitter.1", "osjitter-run.1", "osjitter-gate-baseline-add.1"] {
            assert!(pages.contains_key(name), "no {name} in {:?}", pages.keys());
        }
        assert!(!pages.contains_key("osjitter-stress.1"), "a hidden command has a page");
    }

    /// Returns the text of a page without escapes for hyphens and fonts.
    fn plain_text(page: &str) -> String {
        let plain = page.replace("\\-", "-");
        ["\\fB", "\\fR", "\\fI"].iter().fold(plain, |text, font| text.replace(font, ""))
    }

    #[test]
    fn references_exist() {
        let pages = pages();
        let mut seen = 0;
        for (name, page) in &pages {
            let text = plain_text(page);
            let references = text.split_whitespace().filter_map(|word| word.strip_suffix("(1)"));
            for reference in references {
                let exists = pages.contains_key(&format!("{reference}.1"));
                assert!(exists, "{name} refers to {reference}(1)");
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen} references were found");
    }

    #[test]
    fn examples_can_be_copied() {
        for (name, page) in pages() {
            let text = plain_text(&page);
            assert!(text.lines().any(|line| line == ".nh"), "{name} is hyphenated");
            let mut is_filled = true;
            for line in text.lines() {
                is_filled = (is_filled && line != ".nf") || line == ".fi";
                let is_example = line.starts_with("  osjitter ");
                assert!(!is_example || !is_filled, "{name} fills {line}");
            }
            assert!(is_filled, "{name} fills no more lines");
        }
    }

    #[test]
    fn pages_have_standard_sections() {
        for (name, text) in pages() {
            for heading in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", VERSION] {
                assert!(text.contains(heading), "{name}: no {heading}");
            }
        }
    }
}
