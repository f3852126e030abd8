//! `osjitter man`: writes the manual pages that a package installs.

use std::path::Path;

use clap::Command;
use cli::exit::{Error, ExitStatus, Result};

use crate::file_io;

/// Writes the page of each command into a directory, or prints the first page.
pub fn run(directory: Option<&Path>, mut command: Command) -> Result<ExitStatus> {
    command.build();
    let mut pages = Vec::new();
    collect_pages(&command, &mut pages)?;
    match directory {
        None => file_io::write_output(&pages[0].1, None)?,
        Some(directory) => {
            let pages: Vec<(&str, &str)> =
                pages.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let written = std::fs::create_dir_all(directory)
                .and_then(|()| file_io::write_files(directory, &pages));
            written.map_err(|e| Error::unwritable(directory, &e))?;
        }
    }
    Ok(ExitStatus::Done)
}

/// Appends the pages of a command and its subcommands, as file names and texts.
fn collect_pages(command: &Command, pages: &mut Vec<(String, String)>) -> Result<()> {
    let version = concat!("osjitter ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(version).manual("osjitter");
    let mut page = Vec::new();
    man.render(&mut page).map_err(Error::from_stdout)?;
    pages.push((man.get_filename(), String::from_utf8(page).expect("text")));
    // Each page already contains the help text.
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    visible.into_iter().try_for_each(|command| collect_pages(command, pages))
}
