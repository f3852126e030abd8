//! Errors of command lines of user's programs.

use std::fmt;

use cli::exit;

/// A command line, or the name of a program, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("the command {command:?} has an open quote")]
    OpenQuote { command: String },
    #[error(
        "the command {command:?} is run without a shell, but contains {syntax}: run it with sh -c, or quote \
         {syntax} to pass it as an argument"
    )]
    ShellSyntax { command: String, syntax: String },
    #[error("empty command: expected a program and its arguments")]
    EmptyCommand,
    /// The first word of the command is empty.
    #[error("the command has no program")]
    EmptyProgram,
    #[error("a command with a NUL byte cannot be run")]
    NulByte,
    #[error("invalid name {name:?}: expected up to {max_chars} letters, digits, -, _ or .")]
    InvalidName { name: String, max_chars: usize },
    #[error("cannot start {command}: the file is not executable")]
    NotExecutable { command: String },
    #[error("cannot start {command}: its first word is a directory")]
    Directory { command: String },
    #[error("cannot start {command}: there is no such program{}", format_hint(.hint.as_ref()))]
    NotFound { command: String, hint: Option<ShellHint> },
}

/// Remedy for words that are meant for a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellHint {
    /// The first word sets a variable.
    Assignment(String),
    /// The first word is a command that exists only within a shell.
    ShellCommand(String),
    /// The only word contains syntax of the shell.
    Syntax(String),
    /// The whole command is quoted.
    QuotedCommand,
}

impl fmt::Display for ShellHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assignment(word) => write!(f, "to set a variable, put env in front of {word}"),
            Self::ShellCommand(word) => {
                write!(f, "{word} is a command of the shell: run it with sh -c")
            }
            Self::Syntax(syntax) => write!(f, "{syntax} needs a shell: run it with sh -c"),
            Self::QuotedCommand => f.write_str("leave out the quotes around the whole command"),
        }
    }
}

fn format_hint(hint: Option<&ShellHint>) -> String {
    hint.map(|hint| format!("; {hint}")).unwrap_or_default()
}

impl From<ProgramError> for exit::Error {
    fn from(error: ProgramError) -> Self {
        Self::usage(error.to_string())
    }
}
