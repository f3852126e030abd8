//! The command line of a user's program.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Maximum number of characters of a name in a table.
const MAX_NAME_CHARS: usize = 40;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    text: String,
    words: Vec<String>,
}

/// Programs are equal if their words are, independent of the quoting.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Program {}

impl Program {
    /// Splits a command line into words by the quoting rules of the shell, without running a shell.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words =
            shlex::split(text).ok_or_else(|| format!("the command {text:?} has an open quote"))?;
        Ok(Self { text: text.to_owned(), ..Self::from_words(words)? })
    }

    /// Creates a program from its path and arguments.
    pub fn from_words(words: Vec<String>) -> Result<Self, String> {
        match words.first() {
            None => Err("empty command: expected a program and its arguments".to_owned()),
            Some(first) if first.is_empty() => Err("the command has no program".to_owned()),
            // Quoting fails only for a NUL byte, which cannot be passed to a program.
            Some(_) => match shlex::try_join(words.iter().map(String::as_str)) {
                Ok(text) => Ok(Self { text, words }),
                Err(_) => Err("a command with a NUL byte cannot be run".to_owned()),
            },
        }
    }

    /// Checks that the program exists and is executable, as far as possible without starting it.
    pub fn check_exists(&self) -> Result<(), String> {
        let word = Path::new(&self.words[0]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(word));
        // On other systems an executable can have an extension that the command omits.
        if !cfg!(unix) {
            return Ok(());
        }
        let is_name = word.components().count() == 1;
        match is_name && candidates.any(|p| is_executable(&p)) || is_executable(word) {
            true => Ok(()),
            false if word.is_file() && !is_name => {
                Err(self.start_error("the file is not executable"))
            }
            false => Err(self.start_error("there is no such program")),
        }
    }

    /// Formats an error message for a program that cannot be started.
    pub fn start_error(&self, why: impl fmt::Display) -> String {
        format!("cannot start {}: {why}", self.text)
    }

    /// Returns the command line as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the program, followed by its arguments.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the file name of the program. Characters with a meaning in an id become underscores.
    pub fn name(&self) -> String {
        let file = Path::new(&self.words[0])
            .file_name()
            .map_or(self.words[0].as_str().into(), |f| f.to_string_lossy());
        let plain =
            |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        file.chars().take(MAX_NAME_CHARS).map(plain).collect()
    }
}

/// Returns whether a path is an executable file.
fn is_executable(file: &Path) -> bool {
    #[cfg(unix)]
    let has_permission = |meta: &std::fs::Metadata| {
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0
    };
    #[cfg(not(unix))]
    let has_permission = |_: &std::fs::Metadata| true;
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && has_permission(&meta))
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_does_not_change_the_program() {
        let program = Program::parse("./a-loop  'two words' x").unwrap();
        assert_eq!(program.words(), ["./a-loop", "two words", "x"]);
        let again = Program::from_words(program.words().to_vec()).unwrap();
        assert_eq!(again, program);
        assert_eq!(Program::parse(again.text()).unwrap(), program);
        for (text, expected) in
            [("", "empty"), ("'' x", "has no program"), ("a 'b", "open quote"), ("a\0b", "NUL")]
        {
            let error = Program::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn names_are_safe_in_ids() {
        let name = |text: &str| Program::parse(text).unwrap().name();
        assert_eq!(name("/opt/bin/my-loop_2.sh --fast"), "my-loop_2.sh");
        assert_eq!(name("'./a b@1ms+cpu:1#2'"), "a_b_1ms_cpu_1_2");
        assert_eq!((name(".."), name(&"x".repeat(99)).len()), ("..".to_owned(), 40));
    }
}
