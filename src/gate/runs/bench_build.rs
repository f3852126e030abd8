//! The executables of a benchmark, built by cargo from two versions of a package.
//!
//! The candidate is the tree of the current directory. The base is another directory, or a revision
//! that git checks out next to the repository. The path of this checkout has the length of that of
//! the repository, and so have the paths of the build products: a program can contain them, and a
//! longer one would move its data. The same source thus gives the same program, except for these
//! paths.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cli::exit;
use cli::interrupt;
use cli::terminal;
use engine::machine::os;
use engine::measure::child::{self, ToolStderr};
use engine::measure::scratch::ScratchDirectory;
use engine::program::Program;
use jitterstat::gate::{Side, Sides};

use crate::gate::args::CargoFlags;

use super::build_error::BuildError;
use super::cargo::{
    BuiltBench, CargoError, PackageId, Workspace, align_functions, canonical, cargo_command,
    find_target_flags,
};
use super::checkout::{Checkout, git, run_git};
use super::old_criterion::OldCriterion;
use super::same_program::BuiltSide;

/// Directory of the base's build products, below those of the candidate. It remains, so that the
/// next gate compiles the dependencies no more.
const BASE_TARGET_NAME: &str = "osjitter-base";
/// Content of the file `CACHEDIR.TAG`, which excludes a directory from backups.
const CACHE_TAG: &str = "\
Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag created by osjitter, as cargo does for its build products.
# For information about cache directory tags see https://bford.info/cachedir/
";
/// Directory of a changed Criterion, below the build products of each side.
const OLD_CRITERION_NAME: &str = "osjitter-criterion";
/// Interval at which a gate tries to lock the build products that another one has locked.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);
/// Name of the candidate in a verdict.
const CANDIDATE_NAME: &str = "working tree";

/// A planned build of both versions of a benchmark.
pub struct BenchBuild {
    name: String,
    /// A revision, or the directory of a tree.
    base: String,
    flags: CargoFlags,
    /// Whether Criterion runs the benchmark.
    is_criterion: bool,
    /// Whether the package may be compared with itself, and equal executables are measured.
    pub measures_equal: bool,
    pub quiet: bool,
    scratch: ScratchDirectory,
    /// The checkout of the base, if it is a revision.
    checkout: Option<Checkout>,
}

impl BenchBuild {
    /// Plans the build of a benchmark.
    ///
    /// # Errors
    /// Returns an error if the name is not one of a file, or there is no directory for temporary
    /// files.
    pub fn new(
        name: &str,
        base: &str,
        flags: CargoFlags,
        is_criterion: bool,
        measures_equal: bool,
        quiet: bool,
    ) -> Result<Self, BuildError> {
        let scratch = ScratchDirectory::new().map_err(BuildError::NoScratch)?;
        if name.contains(['/', '\\']) || name.starts_with(['.', '-']) {
            return Err(BuildError::InvalidName { name: name.to_owned() });
        }
        let (name, base) = (name.to_owned(), base.to_owned());
        let checkout = None;
        Ok(Self { name, base, flags, is_criterion, measures_equal, quiet, scratch, checkout })
    }

    /// Returns the names of the sides.
    pub fn names(&self) -> Sides<String> {
        Sides { base: self.base.clone(), candidate: CANDIDATE_NAME.to_owned() }
    }

    /// Returns the programs, which exist after [`Self::build`].
    ///
    /// Their paths have one length: the length of a command line shifts the stack of its program,
    /// and with it the speed.
    pub fn programs(&self) -> exit::Result<Sides<Program>> {
        let program = |side| {
            let path = self.executable(side).to_string_lossy().into_owned();
            let mut program = Program::from_words(vec![path, "--bench".to_owned()])?;
            program.set_original(self.built(side));
            exit::Result::Ok(program)
        };
        Ok(Sides { base: program(Side::Base)?, candidate: program(Side::Candidate)? })
    }

    /// Returns the path at which an executable runs.
    fn executable(&self, side: Side) -> PathBuf {
        let directory = match side {
            Side::Base => "a",
            Side::Candidate => "b",
        };
        let name = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        self.scratch.path().join(directory).join(name)
    }

    /// Returns the path of the executable as it was built, of which each run gets a copy.
    fn built(&self, side: Side) -> PathBuf {
        self.executable(side).with_extension("built")
    }

    /// Builds both versions, and sets the directories in which the programs run. Returns the built
    /// sides.
    ///
    /// # Errors
    /// Returns an error if a version cannot be checked out or built, or has no such benchmark.
    pub fn build(
        &mut self,
        programs: &mut Sides<Program>,
        stop: &AtomicBool,
    ) -> Result<Sides<BuiltSide>, BuildError> {
        let built = self.build_sides(programs);
        // The interrupt has also ended the tools, whose errors mean nothing then.
        let is_interrupted = stop.load(Ordering::Relaxed) || interrupt::has_come();
        if is_interrupted { Err(BuildError::Interrupted) } else { built }
    }

    fn build_sides(
        &mut self,
        programs: &mut Sides<Program>,
    ) -> Result<Sides<BuiltSide>, BuildError> {
        let here = std::env::current_dir().map_err(BuildError::NoCurrentDirectory)?;
        let own_workspace = Workspace::read(&here)?;
        let own_target = own_workspace.target_directory.clone();
        // From before the checkout, which must be newer than the products of other gates, until
        // both executables are copied.
        let _lock = self.lock(&own_target)?;
        let tree = self.base_tree(&here)?;
        let base_workspace = Workspace::read(&tree)?;
        let own_criterion = self.old_criterion(&here, &own_target, Side::Candidate)?;
        // This has written a lock file if there was none.
        if self.checkout.is_some() {
            lock_dependencies(&own_workspace, &base_workspace)?;
        }
        let target = self.base_target(&own_workspace, &tree, &base_workspace);
        let base_target = target.clone().unwrap_or_else(|| base_workspace.target_directory.clone());
        let base_criterion = self.old_criterion(&tree, &base_target, Side::Base)?;
        let candidate = self.build_tree(&here, None, own_criterion.as_deref(), Side::Candidate)?;
        let base =
            self.build_tree(&tree, target.as_deref(), base_criterion.as_deref(), Side::Base)?;
        self.check_different(&base, &candidate)?;
        programs.candidate.set_directory(candidate.package.clone());
        programs.base.set_directory(base.package.clone());
        let trees = match &self.checkout {
            Some(Checkout { path, repository, .. }) => {
                Sides { base: path.clone(), candidate: repository.clone() }
            }
            None => Sides {
                base: base_workspace.workspace_root.clone(),
                candidate: own_workspace.workspace_root.clone(),
            },
        };
        let ids = Sides {
            base: base_workspace.package_id(&base.package, &trees.base),
            candidate: own_workspace.package_id(&candidate.package, &trees.candidate),
        };
        let is_named = self.checkout.is_none() && canonical(&base.package) == canonical(&tree);
        self.check_same_package(ids, is_named)?;
        Ok(Sides {
            base: BuiltSide {
                executable: self.built(Side::Base),
                tree: trees.base,
                target: base_target,
                products: base.products(),
            },
            candidate: BuiltSide {
                executable: self.built(Side::Candidate),
                tree: trees.candidate,
                target: own_target,
                products: candidate.products(),
            },
        })
    }

    /// Locks the directory of the build products, in which gates of several bases build.
    #[allow(clippy::disallowed_methods, reason = "the pause between two attempts")]
    fn lock(&self, target: &Path) -> Result<File, BuildError> {
        let not_locked = |source| BuildError::NotLocked { directory: target.to_owned(), source };
        create_target(target).map_err(not_locked)?;
        let mut is_announced = false;
        loop {
            if let Some(lock) = os::try_lock(target).map_err(not_locked)? {
                return Ok(lock);
            }
            if interrupt::has_come() {
                return Err(BuildError::Interrupted);
            }
            if !is_announced {
                let note =
                    format!("gate: waiting for the build of another gate in {}", target.display());
                terminal::note(self.quiet, &note);
                is_announced = true;
            }
            std::thread::sleep(LOCK_INTERVAL);
        }
    }

    /// Checks that the sides are not one package, unless the user wants that, and that the build of
    /// one did not replace the other. Cargo also finds the package of a directory above, and its
    /// configuration can name one directory for the products of all trees.
    fn check_different(&self, base: &BuiltBench, candidate: &BuiltBench) -> Result<(), BuildError> {
        if canonical(&base.package) == canonical(&candidate.package) {
            return match self.measures_equal {
                true => Ok(()),
                false => Err(BuildError::SamePackage {
                    base: self.base.clone(),
                    package: candidate.package.clone(),
                }),
            };
        }
        match canonical(&base.executable) == canonical(&candidate.executable) {
            true => Err(BuildError::SameExecutable { executable: candidate.executable.clone() }),
            false => Ok(()),
        }
    }

    /// Checks that the sides are versions of one package, which can have been renamed or moved:
    /// cargo finds a package above the directory, and builds its benchmark of the same name, if a
    /// tree has none there. `is_named` is whether `--base` is the directory of the package, which
    /// the user wants to compare if it is not that of a whole tree.
    fn check_same_package(
        &self,
        packages: Sides<PackageId>,
        is_named: bool,
    ) -> Result<(), BuildError> {
        let Sides { base, candidate } = packages;
        let is_member = !base.place.as_os_str().is_empty();
        if base.name == candidate.name || base.place == candidate.place || (is_named && is_member) {
            return Ok(());
        }
        Err(BuildError::OtherPackage { revision: self.base.clone(), base, candidate })
    }

    /// Returns the directory of the base that corresponds to `here`.
    fn base_tree(&mut self, here: &Path) -> Result<PathBuf, BuildError> {
        let directory = here.join(&self.base);
        if directory.is_dir() {
            let revision = format!("{}^{{commit}}", self.base);
            let find = ["rev-parse", "--verify", "--quiet", revision.as_str()];
            return match run_git(git(here).args(find)) {
                Ok(_) => Err(BuildError::DirectoryAndRevision { base: self.base.clone() }),
                Err(_) => Ok(directory),
            };
        }
        let checkout = Checkout::new(here, &self.base, &self.scratch.path().join("tree"))?;
        let tree = checkout.directory(here)?;
        if !tree.is_dir() {
            let directory = tree.strip_prefix(&checkout.path).unwrap_or(&tree).to_owned();
            return Err(BuildError::NewDirectory { revision: self.base.clone(), directory });
        }
        self.checkout = Some(checkout);
        Ok(tree)
    }

    /// Returns the directory for the build products of the base, unless cargo's own is right.
    ///
    /// Two trees must not share one: cargo regards a file as built if it is older than the product,
    /// even if the product is that of the other tree. A checkout is newer than all earlier
    /// products, since [`Self::lock`] keeps other gates from building.
    fn base_target(
        &self,
        own_workspace: &Workspace,
        tree: &Path,
        base_workspace: &Workspace,
    ) -> Option<PathBuf> {
        let Workspace { workspace_root, target_directory, .. } = own_workspace;
        if self.checkout.is_none() {
            let is_shared = base_workspace.target_directory == *target_directory;
            return is_shared.then(|| tree.join("target"));
        }
        let kept = target_directory.join(BASE_TARGET_NAME);
        let Ok(below_root) = target_directory.strip_prefix(workspace_root) else {
            return Some(kept);
        };
        let link = base_workspace.workspace_root.join(below_root);
        let is_linked = std::fs::create_dir_all(&kept).and_then(|()| link_directory(&kept, &link));
        Some(if is_linked.is_ok() { link } else { kept })
    }

    /// Returns the directory of a Criterion that a tree needs in place of its own old one. It has
    /// the same path relative to both trees: the names of symbols depend on it, and the order of
    /// functions on these.
    fn old_criterion(
        &self,
        tree: &Path,
        target: &Path,
        side: Side,
    ) -> Result<Option<PathBuf>, BuildError> {
        if !self.is_criterion {
            return Ok(None);
        }
        let mut command = cargo_command(tree);
        command.args(["metadata", "--format-version", "1"]);
        let metadata = child::run_tool(&mut command, ToolStderr::Captured);
        let metadata = metadata.map_err(CargoError::NotStarted)?.stdout;
        let version = self.names()[side].clone();
        let old_error = |source| BuildError::OldCriterion { version: version.clone(), source };
        let Some(old) = OldCriterion::find(&metadata).map_err(old_error)? else { return Ok(None) };
        let number = old.version;
        let note = format!(
            "gate: {version} uses Criterion {number}, built with flags that accept short times"
        );
        terminal::note(self.quiet, &note);
        let copy = old.write_copy(&target.join(OLD_CRITERION_NAME));
        copy.map(Some).map_err(old_error)
    }

    /// Builds the benchmark in a tree and stores a copy of the executable.
    fn build_tree(
        &self,
        tree: &Path,
        target: Option<&Path>,
        criterion: Option<&Path>,
        side: Side,
    ) -> Result<BuiltBench, BuildError> {
        let version = &self.names()[side];
        terminal::note(self.quiet, &format!("gate: building {} of {version}", self.name));
        let mut command = cargo_command(tree);
        command.args(["bench", "--no-run", "--message-format", "json-render-diagnostics"]);
        command.args(["--bench", &self.name]).args(&self.flags.0);
        align_functions(&mut command, |name| std::env::var_os(name));
        if let (Side::Candidate, Some(flags)) = (side, find_target_flags(tree)) {
            terminal::warning(&format!(
                "{flags} can replace the alignment of functions, which the gate adds to build.rustflags; \
                 without it, an unchanged function can become faster or slower: give its flags as RUSTFLAGS"
            ));
        }
        if let Some(criterion) = criterion {
            // A string of JSON is also one of TOML.
            let path = serde_json::Value::from(criterion.to_string_lossy());
            command.args(["--config", &format!("paths=[{path}]")]);
        }
        if self.quiet {
            command.arg("--quiet");
        }
        if let Some(target) = target {
            command.env("CARGO_TARGET_DIR", target);
        }
        let output = child::run_tool(&mut command, ToolStderr::Inherited);
        let Output { status, stdout, .. } = output.map_err(CargoError::NotStarted)?;
        if !status.success() {
            let bench = self.name.clone();
            return Err(BuildError::CargoFailed { bench, version: version.clone(), status });
        }
        let built = BuiltBench::find(&String::from_utf8_lossy(&stdout), &self.name)
            .map_err(|source| BuildError::BenchNotFound { version: version.clone(), source })?;

        let (stored, executable) = (self.built(side), self.executable(side));
        std::fs::create_dir_all(stored.parent().unwrap_or(&stored))
            .and_then(|()| std::fs::copy(&built.executable, &stored))
            .and_then(|_| std::fs::copy(&stored, &executable))
            .map_err(|source| BuildError::NotCopied {
                executable: built.executable.clone(),
                source,
            })?;
        Ok(built)
    }
}

/// Makes `link` another path of a directory.
#[cfg(unix)]
fn link_directory(directory: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(directory, link)
}

/// Not every user of other systems can make links.
#[cfg(not(unix))]
fn link_directory(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Creates the directory of the build products. Cargo tags only a directory that it creates itself.
fn create_target(target: &Path) -> io::Result<()> {
    if target.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(target)?;
    std::fs::write(target.join("CACHEDIR.TAG"), CACHE_TAG)
}

/// Gives a checkout the versions of dependencies of the candidate if it has none of its own. Many
/// libraries do not commit `Cargo.lock`, and other versions would change the code of the base.
fn lock_dependencies(candidate: &Workspace, checkout: &Workspace) -> Result<(), BuildError> {
    let own = candidate.workspace_root.join("Cargo.lock");
    let lock = checkout.workspace_root.join("Cargo.lock");
    if own.exists() && !lock.exists() {
        std::fs::copy(&own, lock)
            .map_err(|source| BuildError::NotCopied { executable: own, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_paths_of_one_length() {
        let build =
            BenchBuild::new("suite", "main", CargoFlags::default(), true, false, true).unwrap();
        let programs = build.programs().unwrap();
        let lengths = programs.as_ref().map(|program| program.text().len());
        assert!(lengths.base == lengths.candidate && programs.base != programs.candidate);
        assert_eq!(build.names().base, "main");
        for name in ["../x", "-x", "a\\b"] {
            let build = BenchBuild::new(name, "main", CargoFlags::default(), true, false, true);
            assert!(build.is_err(), "{name}");
        }
    }
}
