//! Names of the meters of this process.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::layout::MAX_NAME_BYTES;

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

fn names() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that no other meter of this process has. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct UniqueName(ClaimedName);

impl UniqueName {
    /// Claims a name: the requested one, with a suffix if that is taken.
    pub(crate) fn claim(requested: &str) -> Self {
        Self(names().claim(requested))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0.name
    }
}

impl Drop for UniqueName {
    fn drop(&mut self) {
        names().release(&self.0);
    }
}

/// A name that is taken, and how it was made.
#[derive(Debug)]
struct ClaimedName {
    requested: String,
    /// Number of the suffix; 1 if there is none.
    number: usize,
    name: String,
}

/// Names that are taken. Claiming one takes the same time however many there are.
#[derive(Debug, Default)]
struct Names {
    taken: HashSet<String>,
    /// Suffixes by requested name.
    suffixes: HashMap<String, Suffixes>,
}

/// Suffixes of meters for which the same name was requested.
#[derive(Debug)]
struct Suffixes {
    /// Smallest number that was never used.
    next: usize,
    /// Smaller numbers that are free again.
    released: BTreeSet<usize>,
    /// Number of meters with one of the suffixes.
    meters: usize,
}

impl Names {
    fn claim(&mut self, requested: &str) -> ClaimedName {
        let first = Suffixes { next: 1, released: BTreeSet::new(), meters: 0 };
        let suffixes = self.suffixes.entry(requested.to_owned()).or_insert(first);
        loop {
            let number = suffixes.take_number();
            let name = with_suffix(requested, number);
            // A meter may have been registered under a name that looks like one with a suffix.
            if self.taken.insert(name.clone()) {
                suffixes.meters += 1;
                return ClaimedName { requested: requested.to_owned(), number, name };
            }
        }
    }

    fn release(&mut self, name: &ClaimedName) {
        self.taken.remove(&name.name);
        if let Some(suffixes) = self.suffixes.get_mut(&name.requested) {
            suffixes.released.insert(name.number);
            suffixes.meters -= 1;
            if suffixes.meters == 0 {
                self.suffixes.remove(&name.requested);
            }
        }
    }
}

impl Suffixes {
    fn take_number(&mut self) -> usize {
        self.released.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// Appends `-n` to a name, unless n is 1. Shortens the name if the result would be too long.
fn with_suffix(name: &str, n: usize) -> String {
    if n == 1 {
        return name.to_owned();
    }
    let suffix = format!("-{n}");
    let mut end = name.len().min(MAX_NAME_BYTES - suffix.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_free_suffix_is_taken() {
        let mut names = Names::default();
        let [first, second, third] = ["a"; 3].map(|name| names.claim(name));
        assert_eq!([&first.name, &second.name, &third.name], ["a", "a-2", "a-3"]);
        names.release(&second);
        names.release(&first);
        assert_eq!(["a"; 3].map(|name| names.claim(name).name), ["a", "a-2", "a-4"]);
    }

    #[test]
    fn requested_suffixes_are_not_taken_twice() {
        let mut names = Names::default();
        let taken = ["a-2", "a", "a", "a-2"].map(|name| names.claim(name).name);
        assert_eq!(taken, ["a-2", "a", "a-3", "a-2-2"]);
    }

    /// Would take minutes if each claim tried all suffixes.
    #[test]
    fn thousands_of_equal_names_are_claimed() {
        let meters = if cfg!(miri) { 20 } else { 50_000 };
        let mut names = Names::default();
        let claimed: Vec<_> = (0..meters).map(|_| names.claim("connection")).collect();
        assert_eq!(names.taken.len(), meters);
        for name in &claimed {
            names.release(name);
        }
        assert_eq!((names.taken.len(), names.suffixes.len()), (0, 0));
    }
}
