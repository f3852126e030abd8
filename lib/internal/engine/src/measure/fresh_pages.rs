//! Fresh memory for the code of benchmarks.
//!
//! The code of a program is in the page cache of its file, where it stays from run to run. The
//! physical pages decide which of its lines compete for a place in the caches of the CPU. Of two
//! copies of one executable, one was slower by 18 % in a benchmark of a parser, in every run. As each
//! run gets other pages, this is noise between runs instead of a difference between sides.

use std::io;
use std::path::Path;

use crate::machine::os;
use crate::program::Program;

/// Gives the code of a program fresh memory, as far as the system can: by a new copy of its executable
/// if the program is one, and otherwise by dropping its executables from the page cache.
///
/// # Errors
///
/// Returns an error if the executable cannot be copied.
pub fn renew(program: &Program) -> io::Result<()> {
    if let Some(original) = program.original() {
        let copy = Path::new(&program.words()[0]);
        // A file that is overwritten would keep its pages.
        if copy.exists() {
            std::fs::remove_file(copy)?;
        }
        return std::fs::copy(original, copy).map(drop);
    }
    // A program can start another one, such as `taskset -c 1 ./suite`.
    for word in program.words().iter().filter(|word| word.contains('/')) {
        os::drop_cached_pages(Path::new(word));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_files_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let (original, copy) = (home.path().join("original"), home.path().join("copy"));
        std::fs::write(&original, "code").unwrap();
        let words = vec![copy.to_string_lossy().into_owned(), "--bench".to_owned()];
        let mut program = Program::from_words(words).unwrap();
        program.set_original(original.clone());
        for text in ["code", "other"] {
            std::fs::write(&original, text).unwrap();
            renew(&program).unwrap();
            assert_eq!(std::fs::read_to_string(&copy).unwrap(), text);
        }
        std::fs::write(&copy, "changed").unwrap();
        assert_eq!(std::fs::read_to_string(&original).unwrap(), "other");
        std::fs::remove_file(&original).unwrap();
        assert_eq!(renew(&program).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A program without an original stays as it is, whatever its words are.
        let absent = Program::parse("/absent/x ./y /").unwrap();
        renew(&absent).unwrap();
    }
}
