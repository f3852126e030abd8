//! A program of the user's, as words: nothing here starts it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A longer name stands in no table.
const MAX_NAME: usize = 40;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    text: String,
    words: Vec<String>,
}

/// However it was quoted.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Program {}

impl Program {
    /// Splits a command line into words, by the shell's rules of quoting but without a shell.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words =
            shlex::split(text).ok_or_else(|| format!("the command {text:?} has an open quote"))?;
        Ok(Self { text: text.to_owned(), ..Self::from_words(words)? })
    }

    pub fn from_words(words: Vec<String>) -> Result<Self, String> {
        match words.first() {
            None => Err("an empty command is nothing to run".to_owned()),
            Some(first) if first.is_empty() => {
                Err("a command without a program is nothing to run".to_owned())
            }
            // Only what no program can be given has no quotes.
            Some(_) => match shlex::try_join(words.iter().map(String::as_str)) {
                Ok(text) => Ok(Self { text, words }),
                Err(_) => Err("a command with a NUL byte cannot be run".to_owned()),
            },
        }
    }

    /// Whether there is such a file, as far as that shows without starting it.
    pub fn check_exists(&self) -> Result<(), String> {
        let word = Path::new(&self.words[0]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|place| place.join(word));
        // Elsewhere a name has endings that are not written.
        if !cfg!(unix) {
            return Ok(());
        }
        let is_name = word.components().count() == 1;
        match is_name && places.any(|p| is_program(&p)) || is_program(word) {
            true => Ok(()),
            false if word.is_file() && !is_name => {
                Err(self.start_error("that file is not executable"))
            }
            false => Err(self.start_error("there is no such program")),
        }
    }

    pub fn start_error(&self, why: impl fmt::Display) -> String {
        format!("cannot start {}: {why}", self.text)
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The program, then its arguments.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The name of its file, as it can stand in an id: what has a meaning there becomes an
    /// underscore.
    pub fn name(&self) -> String {
        let file = Path::new(&self.words[0])
            .file_name()
            .map_or(self.words[0].as_str().into(), |f| f.to_string_lossy());
        let plain =
            |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        file.chars().take(MAX_NAME).map(plain).collect()
    }
}

/// A file that somebody may execute.
fn is_program(file: &Path) -> bool {
    #[cfg(unix)]
    let may_run = |meta: &std::fs::Metadata| {
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0
    };
    #[cfg(not(unix))]
    let may_run = |_: &std::fs::Metadata| true;
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && may_run(&meta))
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
    fn words_are_the_program_however_they_were_quoted() {
        let program = Program::parse("./a-loop  'two words' x").unwrap();
        assert_eq!(program.words(), ["./a-loop", "two words", "x"]);
        let again = Program::from_words(program.words().to_vec()).unwrap();
        assert_eq!(again, program);
        assert_eq!(Program::parse(again.text()).unwrap(), program);
        for (text, says) in
            [("", "empty"), ("'' x", "without a program"), ("a 'b", "open quote"), ("a\0b", "NUL")]
        {
            let error = Program::parse(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_name_is_that_of_the_file_and_means_nothing_in_an_id() {
        let name = |text: &str| Program::parse(text).unwrap().name();
        assert_eq!(name("/opt/bin/my-loop_2.sh --fast"), "my-loop_2.sh");
        assert_eq!(name("'./a b@1ms+cpu:1#2'"), "a_b_1ms_cpu_1_2");
        assert_eq!((name(".."), name(&"x".repeat(99)).len()), ("..".to_owned(), 40));
    }
}
