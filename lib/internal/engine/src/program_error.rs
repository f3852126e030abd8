//! Errors of command lines of user's programs.

use std::error::Error;
use std::fmt;

use cli::exit;

/// A command line, or the name of a program, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramError {
    OpenQuote {
        command: String,
    },
    /// The command is run without a shell, but contains syntax that only a shell understands.
    ShellSyntax {
        command: String,
        syntax: String,
    },
    EmptyCommand,
    /// The first word of the command is empty.
    EmptyProgram,
    NulByte,
    InvalidName {
        name: String,
        max_chars: usize,
    },
    NotExecutable {
        command: String,
    },
    NotFound {
        command: String,
        hint: Option<ShellHint>,
    },
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

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenQuote { command } => write!(f, "the command {command:?} has an open quote"),
            Self::ShellSyntax { command, syntax } => write!(
                f,
                "the command {command:?} is run without a shell, but contains {syntax}: run it with sh -c, or quote \
                 {syntax} to pass it as an argument"
            ),
            Self::EmptyCommand => {
                f.write_str("empty command: expected a program and its arguments")
            }
            Self::EmptyProgram => f.write_str("the command has no program"),
            Self::NulByte => f.write_str("a command with a NUL byte cannot be run"),
            Self::InvalidName { name, max_chars } => write!(
                f,
                "invalid name {name:?}: expected up to {max_chars} letters, digits, -, _ or ."
            ),
            Self::NotExecutable { command } => {
                write!(f, "cannot start {command}: the file is not executable")
            }
            Self::NotFound { command, hint: None } => {
                write!(f, "cannot start {command}: there is no such program")
            }
            Self::NotFound { command, hint: Some(hint) } => {
                write!(f, "cannot start {command}: there is no such program; {hint}")
            }
        }
    }
}

impl Error for ProgramError {}

impl From<ProgramError> for exit::Error {
    fn from(error: ProgramError) -> Self {
        Self::usage(error.to_string())
    }
}
