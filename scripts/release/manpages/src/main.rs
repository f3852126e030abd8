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
    let mut command = osjitter::command();
    command.build();
    write_page(&command, directory)
}

/// Writes the pages of a command and its visible subcommands.
fn write_page(command: &Command, directory: &Path) -> Result<(), Box<dyn Error>> {
    let page = clap_mangen::Man::new(command.clone()).source(VERSION).manual("osjitter");
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(directory.join(page.get_filename()), text)?;
    for subcommand in command.get_subcommands() {
        // Each page already contains the text of its `help` subcommand.
        if !subcommand.is_hide_set() && subcommand.get_name() != "help" {
            write_page(subcommand, directory)?;
        }
    }
    Ok(())
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

    #[test]
    fn pages_have_standard_sections() {
        for (name, text) in pages() {
            for heading in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", VERSION] {
                assert!(text.contains(heading), "{name}: no {heading}");
            }
        }
    }
}
