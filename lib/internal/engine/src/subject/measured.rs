//! What is measured: a subject of ours, or a program of the user's.

use crate::program::Program;
use crate::subject::entry::Entry;
use crate::subject::{ALL, scripted};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    Ours(&'static Entry),
    /// Started anew for each round; it measures itself and writes what it saw.
    Program(Program),
}

impl Measured {
    /// The name in reports: no program passes for a subject of ours, whose name has a meaning
    /// there.
    pub fn name(&self) -> String {
        match self {
            Self::Ours(entry) => entry.name.to_owned(),
            Self::Program(program) => {
                let name = program.name();
                let is_ours = ALL.iter().chain(&scripted::SUBJECTS).any(|entry| entry.name == name);
                if is_ours { format!("{name}-command") } else { name }
            }
        }
    }

    pub fn ours(&self) -> Option<&'static Entry> {
        if let Self::Ours(entry) = self { Some(entry) } else { None }
    }

    pub fn program(&self) -> Option<&Program> {
        if let Self::Program(program) = self { Some(program) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_passes_for_a_control() {
        let name = |text: &str| Measured::Program(Program::parse(text).unwrap()).name();
        assert_eq!(
            [name("./spin"), name("nanosleep -x"), name("./loop")],
            ["spin-command", "nanosleep-command", "loop"]
        );
    }
}
