//! The target of a measurement: a built-in subject or a program of the user.

use files::subjects::{self, SubjectInfo};

use crate::program::Program;

/// The target of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Builtin(&'static SubjectInfo),
    /// A program that is started for each round, measures its ticks and writes their lateness.
    Program(Program),
}

impl Target {
    /// Returns the name in reports. It differs from the names of all built-in subjects if the
    /// target is a program.
    pub fn name(&self) -> String {
        match self {
            Self::Builtin(entry) => entry.name.to_owned(),
            Self::Program(program) => {
                let name = program.name();
                if subjects::find(&name).is_some() { format!("{name}-command") } else { name }
            }
        }
    }

    pub fn as_builtin(&self) -> Option<&'static SubjectInfo> {
        if let Self::Builtin(entry) = self { Some(entry) } else { None }
    }

    pub fn program(&self) -> Option<&Program> {
        if let Self::Program(program) = self { Some(program) } else { None }
    }

    pub fn program_mut(&mut self) -> Option<&mut Program> {
        if let Self::Program(program) = self { Some(program) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_names_differ_from_subjects() {
        let name = |text: &str| Target::Program(Program::parse(text).unwrap()).name();
        assert_eq!(
            [name("./spin"), name("nanosleep -x"), name("./loop")],
            ["spin-command", "nanosleep-command", "loop"]
        );
    }
}
