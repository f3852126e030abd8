//! The ways to end a command.

use rustix::process::Signal;

use super::lengthy_commands::LengthyCommand;

/// An event that ends a command, or that happens while it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Hangup,
    Terminate,
    Interrupt,
    InterruptTwice,
    Quit,
    /// The controlling terminal is closed, which sends SIGHUP.
    TerminalClosed,
    /// No file can grow any more; then an interrupt, or the end of the input.
    DiskFull,
    /// No further file can be opened; then an interrupt, or the end of the input.
    NoDescriptors,
    /// A terminal that is not the controlling one is closed.
    TerminalGone,
    /// The shell that started the command is killed, and the reader of its output ends.
    ParentGone,
    StdinClosed,
    StdoutClosed,
    StderrClosed,
    /// Standard output is a full disk from the start.
    StdoutFull,
    /// SIGHUP under `nohup`.
    HangupIgnored,
}

impl Ending {
    pub const ALL: [Self; 15] = [
        Self::Hangup,
        Self::Terminate,
        Self::Interrupt,
        Self::InterruptTwice,
        Self::Quit,
        Self::TerminalClosed,
        Self::DiskFull,
        Self::NoDescriptors,
        Self::TerminalGone,
        Self::ParentGone,
        Self::StdinClosed,
        Self::StdoutClosed,
        Self::StderrClosed,
        Self::StdoutFull,
        Self::HangupIgnored,
    ];

    /// Whether the command completes by itself.
    pub fn lets_complete(self) -> bool {
        matches!(
            self,
            Self::TerminalGone
                | Self::ParentGone
                | Self::StdinClosed
                | Self::StdoutClosed
                | Self::StderrClosed
                | Self::StdoutFull
                | Self::HangupIgnored
        )
    }

    /// Whether the ending needs a terminal.
    pub fn has_terminal(self) -> bool {
        matches!(self, Self::TerminalClosed | Self::TerminalGone)
    }

    /// Returns the signal that ends the command.
    pub fn signal(self) -> Option<Signal> {
        match self {
            Self::Hangup | Self::TerminalClosed => Some(Signal::HUP),
            Self::Terminate => Some(Signal::TERM),
            Self::Interrupt | Self::InterruptTwice => Some(Signal::INT),
            Self::Quit => Some(Signal::QUIT),
            _ => None,
        }
    }

    /// Whether the command measures until then, and keeps its result.
    pub fn keeps_result(self) -> bool {
        match self {
            Self::InterruptTwice | Self::Quit | Self::DiskFull | Self::NoDescriptors => false,
            Self::Hangup | Self::Terminate | Self::Interrupt | Self::TerminalClosed => true,
            _ => self.lets_complete(),
        }
    }

    pub fn applies_to(self, command: &LengthyCommand) -> bool {
        match self {
            _ if self.lets_complete() => command.completes.contains(&self),
            Self::DiskFull | Self::NoDescriptors => command.writes(),
            _ => true,
        }
    }

    /// Returns the exit codes that are documented for a command.
    pub fn exit_codes(self, command: &LengthyCommand) -> Vec<i32> {
        let mut codes = match self {
            _ if !self.lets_complete() => command.interrupted.to_vec(),
            // Whatever is printed afterwards is lost.
            Self::TerminalGone => vec![0, 4],
            Self::StdoutFull if command.prints => vec![4],
            _ => vec![0],
        };
        match self {
            // The second interrupt may come after the result is written.
            Self::InterruptTwice | Self::Quit | Self::NoDescriptors => codes.push(4),
            Self::DiskFull => codes = vec![4],
            _ => {}
        }
        match self {
            // The descriptor of its input is free again.
            Self::NoDescriptors if command.reads_input() => codes.push(0),
            // Its input is the terminal.
            Self::TerminalClosed if command.name == "stress" => codes.push(0),
            _ => {}
        }
        codes
    }
}
