//! The words of a command: its program, its flags and its separator.

use std::path::Path;

/// Returns whether a word of a command separates the arguments of a harness from others.
pub fn is_separator(word: &str) -> bool {
    matches!(word, "-args" | "--args" | "--")
}

/// Returns the index of the first separator from an index on, or the number of words.
pub fn separator_place(command: &[String], start: usize) -> usize {
    let found = command[start..].iter().position(|word| is_separator(word));
    found.map_or(command.len(), |index| start + index)
}

/// Returns the index of the separator of an executable of Rust, or the number of words. A separator
/// in front of an executable belongs to a program that starts it.
pub fn executable_separator_place(command: &[String]) -> usize {
    let is_program = |word: &String| word.contains('/') && Path::new(word).is_file();
    let is_own = |index: &usize| {
        is_separator(&command[*index]) && !command.get(index + 1).is_some_and(is_program)
    };
    (0..command.len()).find(is_own).unwrap_or(command.len())
}

/// Returns the words of a command that pytest reads: those behind its name or, if another program such
/// as tox starts it, behind a separator. Others belong to programs such as `timeout` and `make`.
pub fn pytest_words(command: &[String]) -> &[String] {
    let is_own = |word: &String| word.contains("pytest") || word.ends_with("py.test");
    let place = command.iter().position(is_own).unwrap_or(separator_place(command, 0));
    &command[place..]
}

/// Returns whether the program of a command has this name, without its directory and extension.
pub fn is_program(command: &[String], name: &str) -> bool {
    command.first().is_some_and(|word| file_stem(word) == name)
}

pub fn file_stem(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Returns whether a command has a flag, whichever way its value is attached. Go accepts one or two
/// dashes, and `test.` in front of the name.
pub fn has_flag(command: &[String], flag: &str) -> bool {
    command.iter().skip(1).any(|word| is_flag(word, flag))
}

pub fn is_flag(word: &str, flag: &str) -> bool {
    fn plain_name(word: &str) -> &str {
        let name = word.trim_start_matches('-');
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        name.strip_prefix("test.").unwrap_or(name)
    }
    word.starts_with('-') && plain_name(word) == plain_name(flag)
}
