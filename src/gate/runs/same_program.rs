//! Two sides that are the same program: their executables are equal, and so are the files that they
//! open. More runs of them could only show the noise of the machine.
//!
//! The path of a side is part of many executables. If both paths have one length, it is exchanged
//! before the comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use engine::measure::opened_files::OpenedFilesWatch;
use files::gate::verdict::SameProgram;
use jitterstat::gate::Sides;

/// A built side of a benchmark.
#[derive(Clone, Debug)]
pub struct BuiltSide {
    pub executable: PathBuf,
    /// The directory of the source: the repository, or the workspace of cargo.
    pub tree: PathBuf,
    /// The directory for the build products of all profiles.
    pub target: PathBuf,
    /// The directory for the build products of the profile.
    pub products: PathBuf,
}

/// Sides whose executables are equal.
pub struct EqualExecutables {
    sides: Sides<BuiltSide>,
}

/// Reason why sides with equal executables are measured nevertheless.
#[derive(Debug, PartialEq)]
pub enum MeasureReason {
    /// The files that they open are not known.
    UnknownFiles,
    /// They open this file, which differs.
    DifferentFile(PathBuf),
}

impl fmt::Display for MeasureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFiles => f.write_str("the files that it opens are not known here"),
            Self::DifferentFile(path) => write!(f, "it opens {}, which differs", path.display()),
        }
    }
}

impl EqualExecutables {
    /// Compares the executables. Returns `None` if they differ, or cannot be read.
    ///
    /// Sides in different directories are not compared: a program can open `../data`.
    pub fn find(sides: Sides<BuiltSide>) -> Option<Self> {
        let parents = sides.as_ref().map(|side| side.tree.parent());
        let contents = sides.as_ref().map(|side| std::fs::read(&side.executable).ok());
        let Sides { base: Some(base), candidate: Some(candidate) } = contents else { return None };
        let trees = sides.as_ref().map(|side| side.tree.as_path());
        let is_equal = replace_path(&base, trees.base, trees.candidate) == candidate;
        (parents.base == parents.candidate && is_equal).then_some(Self { sides })
    }

    /// Starts to watch the files that the sides open. `None` if the system cannot report them.
    pub fn watch(&self) -> Option<OpenedFilesWatch> {
        let Sides { base, candidate } = &self.sides;
        let roots = [&base.tree, &base.products, &candidate.tree, &candidate.products];
        let excluded = [base.target.as_path(), candidate.target.as_path()];
        OpenedFilesWatch::start(&roots.map(PathBuf::as_path), &excluded)
    }

    /// Compares the files that both sides opened.
    ///
    /// # Errors
    /// Returns the reason why the sides may differ.
    pub fn compare_files(
        &self,
        watch: Option<OpenedFilesWatch>,
    ) -> Result<SameProgram, MeasureReason> {
        let opened = watch.and_then(OpenedFilesWatch::finish);
        let opened = opened.ok_or(MeasureReason::UnknownFiles)?;
        let pairs = opened.iter().filter_map(|path| self.corresponding(path));
        let pairs: BTreeMap<PathBuf, PathBuf> =
            pairs.map(|pair| (pair.candidate, pair.base)).collect();
        match pairs.iter().find(|(candidate, base)| !self.is_equal(base, candidate)) {
            Some((different, _)) => Err(MeasureReason::DifferentFile(different.clone())),
            None => {
                let opened_files = pairs.keys().filter(|path| !path.is_symlink()).count() as u64;
                Ok(SameProgram { opened_files })
            }
        }
    }

    /// Returns the paths of a file on both sides, which was opened on one of them.
    fn corresponding(&self, path: &Path) -> Option<Sides<PathBuf>> {
        let directories = [
            self.sides.as_ref().map(|side| &side.products),
            self.sides.as_ref().map(|side| &side.tree),
        ];
        for directories in directories {
            for directory in directories.iter() {
                if let Ok(rest) = path.strip_prefix(directory) {
                    return Some(directories.map(|directory| directory.join(rest)));
                }
            }
        }
        None
    }

    /// Returns whether a file, directory or link is equal on both sides.
    fn is_equal(&self, base: &Path, candidate: &Path) -> bool {
        let trees = self.sides.as_ref().map(|side| side.tree.as_path());
        if base.is_symlink() || candidate.is_symlink() {
            let target = std::fs::read_link(base).ok();
            return target.is_some() && target == std::fs::read_link(candidate).ok();
        }
        if base.is_dir() && candidate.is_dir() {
            let names = entry_names(base);
            return names.is_some() && names == entry_names(candidate);
        }
        match (std::fs::read(base), std::fs::read(candidate)) {
            (Ok(base), Ok(candidate)) => {
                replace_path(&base, trees.base, trees.candidate) == candidate
            }
            // Both runs removed it.
            (Err(_), Err(_)) => !base.exists() && !candidate.exists(),
            _ => false,
        }
    }
}

/// Returns the names in a directory, except those that only git and cargo have there.
fn entry_names(directory: &Path) -> Option<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(directory).ok()? {
        names.insert(entry.ok()?.file_name());
    }
    names.retain(|name| name != ".git" && name != "target");
    Some(names)
}

/// Replaces a path by another one of the same length.
fn replace_path(content: &[u8], path: &Path, other: &Path) -> Vec<u8> {
    let mut replaced = content.to_vec();
    let [path, other] = [path, other].map(|path| path.as_os_str().as_encoded_bytes());
    if path.len() == other.len() {
        for place in memchr::memmem::find_iter(content, path) {
            replaced[place..place + path.len()].copy_from_slice(other);
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two trees with an executable that contains the path of its tree.
    struct Trees {
        home: tempfile::TempDir,
    }

    impl Trees {
        fn new() -> Self {
            let trees = Self { home: tempfile::tempdir().unwrap() };
            for name in ["base", "head"] {
                std::fs::create_dir_all(trees.path(name, "target/release/deps")).unwrap();
                std::fs::create_dir_all(trees.path(name, "data")).unwrap();
                trees.write(name, "data/input", "1");
                trees.write(name, "README.md", name);
                let path = trees.path(name, "data");
                let code = format!("code {} code {0}", path.display());
                trees.write(name, "target/release/deps/suite", &code);
            }
            trees
        }

        fn path(&self, tree: &str, path: &str) -> PathBuf {
            self.home.path().join(tree).join(path)
        }

        fn write(&self, tree: &str, path: &str, text: &str) {
            std::fs::write(self.path(tree, path), text).unwrap();
        }

        fn find(&self) -> Option<EqualExecutables> {
            let side = |name: &str| BuiltSide {
                executable: self.path(name, "target/release/deps/suite"),
                tree: self.home.path().join(name),
                target: self.path(name, "target"),
                products: self.path(name, "target/release"),
            };
            EqualExecutables::find(Sides { base: side("base"), candidate: side("head") })
        }

        /// Opens a file of both sides, and compares what was opened.
        #[cfg(target_os = "linux")]
        fn open(&self, path: &str) -> Result<SameProgram, MeasureReason> {
            let equal = self.find().unwrap();
            let watch = equal.watch();
            for name in ["base", "head"] {
                let _ = std::fs::File::open(self.path(name, path));
            }
            equal.compare_files(watch)
        }
    }

    #[test]
    fn executables_may_contain_their_paths() {
        let trees = Trees::new();
        assert!(trees.find().is_some());
        trees.write("base", "target/release/deps/suite", "other code");
        assert!(trees.find().is_none());
        std::fs::remove_file(trees.path("base", "target/release/deps/suite")).unwrap();
        assert!(trees.find().is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn opened_files_must_be_equal() {
        let trees = Trees::new();
        let different = |path: &str| Err(MeasureReason::DifferentFile(trees.path("head", path)));
        let same = |opened_files| Ok(SameProgram { opened_files });
        assert_eq!(trees.open("absent"), same(0));
        assert_eq!(trees.open("data/input"), same(1));
        assert_eq!(trees.open("data"), same(1));
        assert_eq!(trees.open("README.md"), different("README.md"));
        trees.write("head", "data/input", "2");
        trees.write("head", "data/more", "2");
        assert_eq!(trees.open("data/input"), different("data/input"));
        assert_eq!(trees.open("data/more"), different("data/more"));
        assert_eq!(trees.open("data"), different("data"));
        for (tree, data) in [("base", "data"), ("head", "other")] {
            std::os::unix::fs::symlink(data, trees.path(tree, "link")).unwrap();
        }
        assert_eq!(trees.open("absent"), different("link"));
        std::fs::remove_file(trees.path("head", "link")).unwrap();
        assert_eq!(trees.open("absent"), different("link"));
        std::fs::remove_file(trees.path("base", "link")).unwrap();
        trees.write("head", "target/release/tool", "2");
        assert_eq!(trees.open("target/release/tool"), different("target/release/tool"));
        let unknown = trees.find().unwrap().compare_files(None);
        assert_eq!(unknown, Err(MeasureReason::UnknownFiles));
    }
}
