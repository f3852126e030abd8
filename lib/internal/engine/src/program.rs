//! The command line of a user's program.

use std::path::{Path, PathBuf};

use crate::program_error::{ProgramError, ShellHint};

/// Maximum number of characters of a name in a table.
const MAX_NAME_CHARS: usize = 40;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    text: String,
    words: Vec<String>,
    /// Name given by the user.
    given_name: Option<String>,
    /// Name that distinguishes the program from the others of a plan.
    plan_name: Option<String>,
    /// Meter that is measured.
    meter: Option<String>,
    /// Directory in which the program runs.
    directory: Option<PathBuf>,
    /// File of which the executable is a copy.
    original: Option<PathBuf>,
}

/// Programs are equal if their words and meters are, independent of the quoting and of names.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        (&self.words, &self.meter) == (&other.words, &other.meter)
    }
}

impl Eq for Program {}

impl Program {
    /// Splits a command line into words by the quoting rules of the shell, without running a shell.
    /// On Windows, where paths contain backslashes, a backslash is a character.
    ///
    /// # Errors
    ///
    /// Returns an error if a quote is open, or if the text needs a shell.
    pub fn parse(text: &str) -> Result<Self, ProgramError> {
        let words = if cfg!(windows) { split_without_escapes(text) } else { shlex::split(text) };
        let words = words.ok_or_else(|| ProgramError::OpenQuote { command: text.to_owned() })?;
        if let Some(syntax) = find_shell_syntax(text) {
            let (command, syntax) = (text.to_owned(), syntax.to_owned());
            return Err(ProgramError::ShellSyntax { command, syntax });
        }
        Ok(Self { text: text.to_owned(), ..Self::from_words(words)? })
    }

    /// Creates a program from its path and arguments.
    pub fn from_words(words: Vec<String>) -> Result<Self, ProgramError> {
        match words.first() {
            None => Err(ProgramError::EmptyCommand),
            Some(first) if first.is_empty() => Err(ProgramError::EmptyProgram),
            // Quoting fails only for a NUL byte, which cannot be passed to a program.
            Some(_) => match shlex::try_join(words.iter().map(String::as_str)) {
                Ok(text) => Ok(Self {
                    text,
                    words,
                    given_name: None,
                    plan_name: None,
                    meter: None,
                    directory: None,
                    original: None,
                }),
                Err(_) => Err(ProgramError::NulByte),
            },
        }
    }

    /// Checks that the program exists and is executable, as far as possible without starting it.
    pub fn check_exists(&self) -> Result<(), ProgramError> {
        let word = Path::new(&self.words[0]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(word));
        // On other systems an executable can have an extension that the command omits.
        if !cfg!(unix) {
            return Ok(());
        }
        let is_name = word.components().count() == 1;
        if is_name && candidates.any(|p| is_executable(&p)) || is_executable(word) {
            return Ok(());
        }
        let command = self.text.clone();
        // The shell finds a name only in the directories of PATH.
        let is_path = !is_name || word.is_dir();
        Err(match std::fs::metadata(word) {
            Ok(meta) if is_path && meta.is_dir() => ProgramError::Directory { command },
            Ok(_) if is_path => ProgramError::NotExecutable { command },
            _ => ProgramError::NotFound { command, hint: self.shell_hint() },
        })
    }

    /// Returns the remedy if the words are meant for a shell.
    fn shell_hint(&self) -> Option<ShellHint> {
        let first = &self.words[0];
        if is_assignment(first) {
            return Some(ShellHint::Assignment(first.clone()));
        }
        if SHELL_COMMANDS.contains(&first.as_str()) {
            return Some(ShellHint::ShellCommand(first.clone()));
        }
        if self.words.len() > 1 || !first.contains(char::is_whitespace) {
            return None;
        }
        Some(match find_shell_syntax(first) {
            Some(syntax) => ShellHint::Syntax(syntax.to_owned()),
            None => ShellHint::QuotedCommand,
        })
    }

    /// Returns the command line as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the program, followed by its arguments.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Gives the program a name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name cannot be part of an id.
    pub fn with_name(self, name: &str) -> Result<Self, ProgramError> {
        Ok(Self { given_name: Some(parse_program_name(name)?), ..self })
    }

    /// Selects the meter that is measured, by its name.
    #[must_use]
    pub fn with_meter(self, meter: Option<String>) -> Self {
        Self { meter, ..self }
    }

    pub fn set_meter(&mut self, meter: &str) {
        self.meter = Some(meter.to_owned());
    }

    pub fn meter(&self) -> Option<&str> {
        self.meter.as_deref()
    }

    /// Replaces the program and its arguments.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no program, or if a word contains a NUL byte.
    pub fn with_words(self, words: Vec<String>) -> Result<Self, ProgramError> {
        let Self { text, words, .. } = Self::from_words(words)?;
        Ok(Self { text, words, ..self })
    }

    /// Makes the executable a copy of this file, which can be replaced by a new copy.
    pub fn set_original(&mut self, original: PathBuf) {
        self.original = Some(original);
    }

    /// Returns the file of which the executable is a copy. `None` if it is the user's own.
    pub fn original(&self) -> Option<&Path> {
        self.original.as_deref()
    }

    /// Sets the directory in which the program runs.
    pub fn set_directory(&mut self, directory: PathBuf) {
        self.directory = Some(directory);
    }

    /// Returns the directory in which the program runs. `None` for that of this process.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Returns the name given by the user.
    pub fn given_name(&self) -> Option<&str> {
        self.given_name.as_deref()
    }

    /// Returns the name of the program: the given one, otherwise the one that distinguishes it from
    /// the other programs of its plan, otherwise the file name of the program or of its script.
    /// Characters with a meaning in an id are underscores.
    pub fn name(&self) -> String {
        let name = self.given_name.as_ref().or(self.plan_name.as_ref());
        name.cloned().unwrap_or_else(|| CommandParts::new(&self.words).base)
    }
}

/// Parses a name that is given to a program.
///
/// # Errors
///
/// Returns an error if the name is empty or too long, or has characters with a meaning in an id.
pub fn parse_program_name(name: &str) -> Result<String, ProgramError> {
    let is_valid =
        (1..=MAX_NAME_CHARS).contains(&name.chars().count()) && name.chars().all(is_plain);
    match is_valid {
        true => Ok(name.to_owned()),
        false => {
            Err(ProgramError::InvalidName { name: name.to_owned(), max_chars: MAX_NAME_CHARS })
        }
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Replaces the characters with a meaning in an id, and shortens a long name.
fn to_plain_name(text: &str) -> String {
    text.chars().take(MAX_NAME_CHARS).map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Programs that start the program after their own arguments.
const WRAPPERS: [&str; 8] = ["env", "nice", "nohup", "taskset", "chrt", "ionice", "sudo", "stdbuf"];

/// Returns the index of the program that wrappers start.
fn find_program(words: &[String]) -> usize {
    let mut index = 0;
    while WRAPPERS.contains(&file_name(&words[index])) {
        let arguments = &words[index + 1..];
        match arguments.iter().position(|word| !is_wrapper_argument(word)) {
            Some(skipped) => index += 1 + skipped,
            None => return 0,
        }
    }
    index
}

/// Returns whether a word is a flag, a variable or a number, such as a priority or a list of CPUs.
fn is_wrapper_argument(word: &str) -> bool {
    word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) || is_assignment(word)
}

/// Programs that run a script, without the version at the end of their name.
const INTERPRETERS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "python", "pypy", "node", "ruby", "perl", "php", "lua",
    "java", "Rscript",
];

/// Returns the index of the script that an interpreter runs.
fn find_script(words: &[String]) -> Option<usize> {
    let interpreter = file_name(&words[0]);
    let interpreter = interpreter.trim_end_matches(".exe");
    let interpreter = interpreter.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&interpreter) {
        return None;
    }
    let mut arguments = (1..).zip(&words[1..]);
    let (index, word) = arguments.find(|(_, word)| !word.starts_with('-') || is_inline(word))?;
    (!is_inline(word)).then_some(index)
}

/// Returns whether the argument after this one of an interpreter is the text of a program.
fn is_inline(argument: &str) -> bool {
    matches!(argument, "-c" | "-e" | "-r" | "--eval")
}

fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

/// A command, divided for its name.
struct CommandParts {
    /// File name of the program or its script, as it is part of a name.
    base: String,
    /// Parts of all other words: directories, arguments and their values.
    others: Vec<String>,
}

impl CommandParts {
    fn new(words: &[String]) -> Self {
        let program = find_program(words);
        let named = program + find_script(&words[program..]).unwrap_or(0);
        let base = file_name(&words[named]);
        let mut others: Vec<String> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let rest = if index == named { word.strip_suffix(base).unwrap_or(word) } else { word };
            let parts = rest.split(['/', '=']).filter(|part| !matches!(*part, "" | "."));
            others.extend(parts.map(str::to_owned));
        }
        Self { base: to_plain_name(base), others }
    }

    /// Returns the name with the parts that `is_common` does not contain.
    fn distinguish(&self, is_common: impl Fn(&String) -> bool) -> String {
        let mut name = self.base.clone();
        for part in self.others.iter().filter(|part| !is_common(part)) {
            let part = part.trim_start_matches('-');
            name += if part.is_empty() { "" } else { "-" };
            name += part;
        }
        to_plain_name(&name)
    }
}

/// Returns a name for each program: its file name or that of its script, followed by the parts of
/// its command that other programs of this file name do not have.
pub fn distinguish_programs(programs: &[&Program]) -> Vec<String> {
    let all_parts: Vec<CommandParts> =
        programs.iter().map(|program| CommandParts::new(&program.words)).collect();
    let mut names = Vec::new();
    for parts in &all_parts {
        let is_namesake = |other: &&CommandParts| other.base == parts.base;
        let namesakes: Vec<&CommandParts> = all_parts.iter().filter(is_namesake).collect();
        let is_common = |part: &String| namesakes.iter().all(|other| other.others.contains(part));
        names.push(parts.distinguish(is_common));
    }
    names
}

/// Names the programs so that their names differ if their commands do.
pub fn name_programs(programs: &mut [&mut Program]) {
    let mut distinct: Vec<Program> = Vec::new();
    for program in programs.iter() {
        if !distinct.iter().any(|other| other.words == program.words) {
            distinct.push((**program).clone());
        }
    }
    let names = distinguish_programs(&distinct.iter().collect::<Vec<_>>());
    for program in programs {
        let mut named = distinct.iter().zip(&names);
        let name = named.find(|(other, _)| other.words == program.words);
        program.plan_name = name.map(|(_, name)| name.clone());
    }
}

/// Words that mean something to a shell.
const SHELL_OPERATORS: [&str; 12] =
    ["&&", "||", "|", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>", "|&"];
/// Commands that exist only within a shell.
const SHELL_COMMANDS: [&str; 9] =
    ["cd", "export", "source", ".", "ulimit", "umask", "eval", "exec", "set"];

/// Returns the first word that only a shell understands: an operator, a substitution, or an
/// assignment in front of the program.
fn find_shell_syntax(text: &str) -> Option<&str> {
    let mut quote = None;
    for (index, word) in text.split_whitespace().enumerate() {
        if is_quoted(word, &mut quote) {
            continue;
        }
        let is_prefix = index == 0 && is_assignment(word);
        if is_prefix || SHELL_OPERATORS.contains(&word) || is_substituted(word) {
            return Some(word);
        }
        if word.ends_with(';') {
            return Some(";");
        }
    }
    None
}

/// Returns whether a shell replaces a part of an unquoted word: a variable, the output of a command,
/// or the home directory.
fn is_substituted(word: &str) -> bool {
    let starts_name = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '(' | '{');
    let mut parts = word.split('$').skip(1);
    word.starts_with("~/") || word.contains('`') || parts.any(|part| part.starts_with(starts_name))
}

/// Returns whether a part of a word is quoted. `quote` is the quote that is open in front of the
/// word, and becomes the one that is open behind it.
fn is_quoted(word: &str, quote: &mut Option<char>) -> bool {
    let mut is_quoted = quote.is_some();
    let mut is_escaped = false;
    for c in word.chars() {
        match (*quote, c) {
            _ if is_escaped => is_escaped = false,
            (None, '\'' | '"') => (*quote, is_quoted) = (Some(c), true),
            (Some(open), c) if open == c => *quote = None,
            (None | Some('"'), '\\') if !cfg!(windows) => (is_escaped, is_quoted) = (true, true),
            _ => {}
        }
    }
    is_quoted
}

/// Returns whether a word is a variable and its value, such as `RUST_LOG=info`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Splits a text at spaces outside of quotes. Returns `None` if a quote is open.
fn split_without_escapes(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
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
            let error = Program::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn backslashes_of_windows_paths_stay() {
        let split = |text| split_without_escapes(text).unwrap();
        assert_eq!(split(r".\target\release\x.exe --fast"), [r".\target\release\x.exe", "--fast"]);
        assert_eq!(
            split(r#""C:\Program Files\x.exe" '' 'a b'"#),
            [r"C:\Program Files\x.exe", "", "a b"]
        );
        assert_eq!(split_without_escapes("a 'b"), None);
    }

    #[test]
    fn shell_syntax_is_rejected() {
        for (text, syntax) in [
            ("./x && sleep 1", "&&"),
            ("./x | tee log", "|"),
            ("./x > log", ">"),
            ("RUST_LOG=info ./x", "RUST_LOG=info"),
            ("./x; sleep 1", ";"),
            ("$HOME/x", "$HOME/x"),
            ("./x --at=$(date)", "--at=$(date)"),
            ("./x `date`", "`date`"),
            ("~/x", "~/x"),
        ] {
            let error = Program::parse(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("but contains {syntax}: run it with sh -c")),
                "{error}"
            );
        }
        for text in [
            "sh -c './x && sleep 1'", "./x '&&' y", "./x --a=b", "./x \"| y\" a=b", r"./x \&",
            "./x $5 '$y'",
        ] {
            assert!(Program::parse(text).is_ok(), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn missing_program_hints_at_the_shell() {
        let error = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            Program::from_words(words).unwrap().check_exists().unwrap_err().to_string()
        };
        for (words, hint) in [
            (&["A=1", "./x"][..], "; to set a variable, put env in front of A=1"),
            (&["export", "A"], "; export is a command of the shell: run it with sh -c"),
            (&["./x && ls"], "; && needs a shell: run it with sh -c"),
            (&["./x --fast"], "; leave out the quotes around the whole command"),
            (&["./no-such-program", "a b"], "there is no such program"),
        ] {
            assert!(error(words).ends_with(hint), "{}", error(words));
        }
    }

    #[test]
    fn names_show_distinguishing_arguments() {
        for (commands, expected) in [
            (&["python3 a.py", "python3 b.py"][..], &["a.py", "b.py"][..]),
            (&["python3.12 -u bin/a.py x"], &["a.py"]),
            (&["python3 a.py", "pypy a.py"], &["a.py-python3", "a.py-pypy"]),
            (&["sh -c 'exec ./x'"], &["sh"]),
            (&["java -jar x.jar"], &["x.jar"]),
            (&["taskset -c 1,3 chrt -f 50 ./loop"], &["loop"]),
            (&["env A=1 ./loop", "env A=2 ./loop"], &["loop-1", "loop-2"]),
            (&["nice -n 5 python3 a.py", "env -i"], &["a.py", "env"]),
            (&["./loop", "./loop --fast", "./loop -n 3"], &["loop", "loop-fast", "loop-n-3"]),
            (&["./loop --mode=a --x 1", "./loop --mode=b --x 1"], &["loop-a", "loop-b"]),
            (&["old/bin/loop 7", "new/bin/loop 7"], &["loop-old", "loop-new"]),
            (&["./peers cfg/a.toml", "./peers cfg/b.toml"], &["peers-a.toml", "peers-b.toml"]),
            (&["./a 1", "./b 2"], &["a", "b"]),
        ] {
            let programs: Vec<Program> =
                commands.iter().map(|text| Program::parse(text).unwrap()).collect();
            let names = distinguish_programs(&programs.iter().collect::<Vec<_>>());
            assert_eq!(names, expected, "{commands:?}");
        }
    }

    #[test]
    fn given_names_are_checked() {
        let program = Program::parse("./x 1").unwrap();
        assert_eq!(program.clone().with_name("mine_1.2-x").unwrap().name(), "mine_1.2-x");
        for invalid in ["", "a b", "x@1ms", "a#2", &"x".repeat(41)] {
            let error = program.clone().with_name(invalid).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid name {invalid:?}: expected")), "{error}");
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
