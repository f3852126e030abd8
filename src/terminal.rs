//! Standard error: diagnostics and progress, never data.
#![allow(clippy::print_stderr, reason = "the home of standard error")]

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Error;

pub fn failure(error: &Error) {
    if !error.is_closed_pipe() {
        eprintln!("error: {error}");
    }
}

pub fn note(quiet: bool, message: &str) {
    if !quiet {
        eprintln!("{message}");
    }
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
const LEAST_COLUMNS: usize = 20;

/// How wide a table on standard output may be: `COLUMNS` where it is set, the width of the terminal where there is one,
/// else 80.
pub fn columns() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok()).filter(|&n| n > 0);
    let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    let known = asked.or_else(terminal).filter(|&columns| columns > 0).unwrap_or(DEFAULT_COLUMNS);
    known.max(LEAST_COLUMNS)
}

/// The progress of a run, drawn between rounds and only on a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new(rounds: u64, quiet: bool) -> Self {
        let shown = !quiet && on_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template("{bar:30} {percent:>3}%  {eta} left  {msg}").expect("a fixed template");
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
