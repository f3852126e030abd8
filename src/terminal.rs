//! Standard error: diagnostics and progress, never data. Where nobody can be told, a closed pipe or
//! a full disk, talk is dropped and the work goes on.

use std::io::{IsTerminal, Write as _};
use std::path::Path;

use cli::exit::Error;
use cli::printable::{to_printable, to_printable_message};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub fn failure(error: &Error) {
    if !error.is_closed_pipe() {
        say(&format!("error: {}", to_printable_message(&error.to_string())));
    }
}

pub fn note(quiet: bool, message: &str) {
    if !quiet {
        say(&to_printable(message));
    }
}

/// The path of a file, as the terminal's hyperlink where it may know them; others show the path
/// alone.
pub fn note_link(quiet: bool, label: &str, path: &Path) {
    if quiet {
        return;
    }
    let shown = to_printable(&path.display().to_string());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term == "linux");
    match path.canonicalize() {
        Ok(target) if on_terminal() && !dumb => {
            say(&format!("{label}\x1b]8;;{}\x1b\\{shown}\x1b]8;;\x1b\\", file_url(&target)));
        }
        _ => say(&format!("{label}{shown}")),
    }
}

/// A path as a URL; nothing in it ends the sequence that it stands in.
fn file_url(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encoded =
        path.to_string_lossy().bytes().fold(String::new(), |url, byte| match plain(byte) {
            true => url + &char::from(byte).to_string(),
            false => url + &format!("%{byte:02X}"),
        });
    format!("file://{encoded}")
}

/// One write, so that lines of several processes do not mix.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Ends the process at once, for a person who does not want to wait.
#[allow(clippy::exit, reason = "a second interrupt asks for exactly this")]
pub fn abort() {
    std::process::exit(4);
}

/// Columns of a table where the width of the reader's terminal is not known.
const DEFAULT_COLUMNS: usize = 80;
/// A terminal narrower than this is none: the figures of a table could not be told apart.
const MIN_COLUMNS: usize = 20;

/// How wide a table on standard output may be: `COLUMNS` where it is set, the width of the terminal
/// where there is one, else 80.
pub fn columns() -> usize {
    let asked = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse::<usize>().ok())
        .filter(|&n| n > 0);
    let terminal = || {
        terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
    };
    let known = asked.or_else(terminal).filter(|&columns| columns > 0).unwrap_or(DEFAULT_COLUMNS);
    known.max(MIN_COLUMNS)
}

/// The progress of a run, drawn between rounds and only on a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new(rounds: u64, quiet: bool) -> Self {
        let shown = !quiet && on_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}%  {eta} left  {msg}")
            .expect("a fixed template");
        Self { bar: ProgressBar::with_draw_target(Some(rounds), target).with_style(style) }
    }

    pub fn show(&self, id: &str, index: u64) {
        self.bar.set_message(format!("{id}, round {}", index + 1));
    }

    pub fn step(&self) {
        self.bar.inc(1);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_holds_nothing_that_ends_it() {
        assert_eq!(file_url(Path::new("/a b/\u{1b}c.html")), "file:///a%20b/%1Bc.html");
    }
}
