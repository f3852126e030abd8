//! Writes the diagnostics of `osjitter` to standard error, which never carries data.
//!
//! A diagnostic that cannot be written, to a closed pipe or a full disk, is dropped; the command
//! continues.

pub mod escape_codes; // moves the cursor of a terminal
pub mod progress; // the progress bar

use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use crate::exit::Error;
use crate::printable::{to_printable, to_printable_line, to_printable_message};
use clap::{ColorChoice, ValueEnum};
use terminal_size::{Height, Width};

/// The arguments of every command that concern terminals.
#[derive(Debug, clap::Args)]
pub struct TerminalArgs {
    /// Use colours; auto does so on a terminal, as NO_COLOR and CLICOLOR_FORCE allow
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Also print the files that are read and written, and the time that the command takes
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

static COLOR: OnceLock<Color> = OnceLock::new();
static IS_VERBOSE: OnceLock<bool> = OnceLock::new();

/// Sets whether this process prints details.
pub fn set_verbose(is_verbose: bool) {
    let _ = IS_VERBOSE.set(is_verbose);
}

/// Returns whether `--verbose` is given.
pub fn is_verbose() -> bool {
    IS_VERBOSE.get().is_some_and(|is_verbose| *is_verbose)
}

/// Prints a message if `--verbose` is given.
pub fn detail(message: impl FnOnce() -> String) {
    if is_verbose() {
        print_line(&to_printable(&message()));
    }
}

/// Sets when this process uses colours.
pub fn set_color(color: Color) {
    let _ = COLOR.set(color);
}

/// Finds `--color` in arguments that are not parsed yet. Invalid values are left to the parser.
pub fn find_color(args: &[OsString]) -> Color {
    let mut color = Color::default();
    let mut words = args.iter().filter_map(|arg| arg.to_str()).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let value = if word == "--color" { words.next() } else { word.strip_prefix("--color=") };
        let parsed = value.and_then(|value| Color::from_str(value, false).ok());
        color = parsed.unwrap_or(color);
    }
    color
}

/// Returns the choice for help and errors of the command line.
pub fn color_choice() -> ColorChoice {
    match COLOR.get() {
        None | Some(Color::Auto) => ColorChoice::Auto,
        Some(Color::Always) => ColorChoice::Always,
        Some(Color::Never) => ColorChoice::Never,
    }
}

/// Whether colours are written to a stream.
fn has_color(is_terminal: bool) -> bool {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let is_off = |name| variable(name).is_some_and(|value| value == "0");
    match COLOR.get() {
        Some(Color::Always) => true,
        Some(Color::Never) => false,
        _ if variable("NO_COLOR").is_some() => false,
        _ if variable("CLICOLOR_FORCE").is_some() && !is_off("CLICOLOR_FORCE") => true,
        _ => is_terminal && !is_off("CLICOLOR") && variable("TERM").is_none_or(|t| t != "dumb"),
    }
}

/// A style of words on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Good,
    Bad,
    Doubtful,
    Faint,
}

impl Style {
    /// Returns the text in this style.
    pub fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Good => "32",
            Self::Bad => "1;31",
            Self::Doubtful => "33",
            Self::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether colours are used on standard output.
pub fn stdout_has_color() -> bool {
    has_color(std::io::stdout().is_terminal())
}

/// Returns a text for standard output, in a style if colours are used there.
pub fn paint_for_stdout(style: Style, text: &str) -> String {
    if stdout_has_color() { style.paint(text) } else { text.to_owned() }
}

/// Returns a text for standard error, in a style if colours are used there.
fn paint_for_stderr(style: Style, text: &str) -> String {
    if has_color(on_terminal()) { style.paint(text) } else { text.to_owned() }
}

/// Prints the error that ends the command.
pub fn failure(error: &Error) {
    if !error.is_closed_pipe() {
        let label = paint_for_stderr(Style::Bad, "error:");
        print_line(&format!("{label} {}", to_printable_message(&error.to_string())));
        error.advice().iter().for_each(|line| print_line(&to_printable_line(line)));
    }
}

/// Prints a warning. It is not suppressed by `--quiet`.
pub fn warning(message: &str) {
    let label = paint_for_stderr(Style::Doubtful, "warning:");
    print_line(&format!("{label} {}", to_printable(message)));
}

/// Prints a message unless `quiet` is set.
pub fn note(quiet: bool, message: &str) {
    if !quiet {
        print_line(&to_printable(message));
    }
}

/// Prints the path of a file, as a hyperlink if the terminal may support hyperlinks.
pub fn note_link(quiet: bool, label: &str, path: &Path) {
    if quiet {
        return;
    }
    let shown = to_printable(&path.display().to_string());
    let is_plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term == "linux");
    match path.canonicalize() {
        Ok(target) if on_terminal() && !is_plain => {
            print_line(&format!("{label}\x1b]8;;{}\x1b\\{shown}\x1b]8;;\x1b\\", file_url(&target)));
        }
        _ => print_line(&format!("{label}{shown}")),
    }
}

/// Converts a path to a URL, without characters that could end the escape sequence around it.
fn file_url(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encoded =
        path.to_string_lossy().bytes().fold(String::new(), |url, byte| match is_plain(byte) {
            true => url + &char::from(byte).to_string(),
            false => url + &format!("%{byte:02X}"),
        });
    format!("file://{encoded}")
}

/// Prints a line in one write, so that lines of several processes do not mix.
fn print_line(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Whether standard error is a terminal.
pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// The function that [`restore`] calls.
static RESTORE: OnceLock<fn()> = OnceLock::new();

/// Sets the function that [`restore`] calls before the process is aborted.
pub fn restore_before_abort(restore: fn()) {
    let _ = RESTORE.set(restore);
}

/// Restores the terminal, if a function for it was set.
pub fn restore() {
    if let Some(restore) = RESTORE.get() {
        run_within(*restore, RESTORE_TIMEOUT);
    }
}

/// Maximum time to restore the terminal, which may not take any output.
const RESTORE_TIMEOUT: Duration = Duration::from_millis(500);

/// Calls a function on another thread, and waits for it for a time.
pub fn run_within(function: fn(), timeout: Duration) {
    let (sender, done) = mpsc::channel();
    let run = move || {
        function();
        sender.send(())
    };
    if std::thread::Builder::new().spawn(run).is_ok() {
        let _ = done.recv_timeout(timeout);
    }
}

/// The size of a terminal that does not report it.
const DEFAULT_COLUMNS: usize = 80;
const DEFAULT_LINES: usize = 24;
/// The minimum width of a table: narrower ones would split its numbers.
const MIN_COLUMNS: usize = 20;

/// The width of tables in a pipe or a file, whose reader can search or cut long lines.
const UNLIMITED_COLUMNS: usize = usize::MAX;

/// The maximum width of tables on standard output: `COLUMNS` if it is set, otherwise the width of
/// the terminal. Output to a pipe or a file is not limited.
pub fn columns() -> usize {
    let columns = columns_from_environment().or_else(stdout_columns);
    columns.map_or(UNLIMITED_COLUMNS, |columns| columns.max(MIN_COLUMNS))
}

fn columns_from_environment() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    if columns == 0 { None } else { Some(columns) }
}

/// The width of the terminal of standard output; `None` if it is not a terminal.
fn stdout_columns() -> Option<usize> {
    let reported = terminal_size::terminal_size_of(std::io::stdout());
    match reported.map(|(width, _)| usize::from(width.0)) {
        Some(width) if width > 0 => Some(width),
        _ => std::io::stdout().is_terminal().then_some(DEFAULT_COLUMNS),
    }
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: usize,
    pub lines: usize,
}

/// The size of the terminal of standard output: 80 × 24 if it does not report its size.
pub fn stdout_size() -> TerminalSize {
    size_or_default(terminal_size::terminal_size_of(std::io::stdout()))
}

/// The size of the terminal of standard error: 80 × 24 if it does not report its size.
pub fn stderr_size() -> TerminalSize {
    size_or_default(terminal_size::terminal_size_of(std::io::stderr()))
}

fn size_or_default(reported: Option<(Width, Height)>) -> TerminalSize {
    match reported {
        Some((width, height)) => {
            TerminalSize { columns: usize::from(width.0), lines: usize::from(height.0) }
        }
        None => TerminalSize { columns: DEFAULT_COLUMNS, lines: DEFAULT_LINES },
    }
}

/// Whether standard error is a terminal that can move its cursor.
pub fn can_draw() -> bool {
    on_terminal() && has_cursor() && enable_escape_codes()
}

/// Whether `TERM` names a terminal that can move its cursor.
pub fn has_cursor() -> bool {
    std::env::var_os("TERM").map_or(cfg!(windows), |term| term != "dumb")
}

/// Makes the terminal interpret escape codes. Returns whether it does.
#[cfg(not(windows))]
pub fn enable_escape_codes() -> bool {
    true
}

/// Makes the console interpret escape codes. Returns whether it does.
#[cfg(windows)]
pub fn enable_escape_codes() -> bool {
    crossterm::ansi_support::supports_ansi()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_is_found_before_the_program() {
        for (line, expected) in [
            ("osjitter run", Color::Auto),
            ("osjitter --color never run", Color::Never),
            ("osjitter run --color=always", Color::Always),
            ("osjitter run --color=never --color always", Color::Always),
            ("osjitter run --color purple", Color::Auto),
            ("osjitter run -- ./x --color=always", Color::Auto),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(find_color(&words), expected, "{line}");
        }
    }

    #[test]
    fn file_url_escapes_control_characters() {
        assert_eq!(file_url(Path::new("/a b/\u{1b}c.html")), "file:///a%20b/%1Bc.html");
    }
}
