//! What is measured: a subject of ours, or a program of the user's.

use crate::program::Program;
use crate::subject::subject_info::SubjectInfo;
use crate::subject::{ALL, script};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Builtin(&'static SubjectInfo),
    /// Started anew for each round; it measures itself and writes what it saw.
    Program(Program),
}

impl Target {
    /// The name in reports: no program passes for a subject of ours, whose name has a meaning
    /// there.
    pub fn name(&self) -> String {
        match self {
            Self::Builtin(entry) => entry.name.to_owned(),
            Self::Program(program) => {
                let name = program.name();
                let is_ours = ALL.iter().chain(&script::SUBJECTS).any(|entry| entry.name == name);
                if is_ours { format!("{name}-command") } else { name }
            }
        }
    }

    pub fn as_builtin(&self) -> Option<&'static SubjectInfo> {
        if let Self::Builtin(entry) = self { Some(entry) } else { None }
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
        let name = |text: &str| Target::Program(Program::parse(text).unwrap()).name();
        assert_eq!(
            [name("./spin"), name("nanosleep -x"), name("./loop")],
            ["spin-command", "nanosleep-command", "loop"]
        );
    }
}
