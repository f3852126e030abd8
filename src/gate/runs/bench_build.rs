//! The executables of a benchmark, built by cargo from two versions of a package.
//!
//! The candidate is the tree of the current directory. The base is another directory, or a revision
//! that git checks out next to the repository. The path of this checkout has the length of that of
//! the repository, and so have the paths of the build products: a program can contain them, and a
//! longer one would move its data. The same source thus gives the same program, except for these
//! paths.
//!
//! Source that differs gives functions of other lengths, which would move all functions behind
//! them. Where a loop begins in its cache line decides how fast it is, so functions without a
//! change would become faster or slower. Therefore each function begins at a cache line
//! ([`FUNCTION_ALIGNMENT`]).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cli::exit::{self, Error};
use cli::file_io::TemporaryWorktree;
use cli::interrupt;
use cli::terminal;
use engine::machine::os;
use engine::measure::child::{self, ToolStderr};
use engine::measure::scratch::ScratchDirectory;
use engine::program::Program;
use jitterstat::gate::{Side, Sides};
use serde::Deserialize;

use crate::gate::args::CargoFlags;

use super::old_criterion::{OldCriterion, OldCriterionError};
use super::same_program::BuiltSide;
use super::target_flags::TargetFlags;

/// Directory of the base's build products, below those of the candidate. It remains, so that the
/// next gate compiles the dependencies no more.
const BASE_TARGET_NAME: &str = "osjitter-base";
/// Directory of a changed Criterion, below the build products of each side.
const OLD_CRITERION_NAME: &str = "osjitter-criterion";
/// Interval at which a gate tries to lock the build products that another one has locked.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);
/// Reason for the lock of a worktree.
const WORKTREE_REASON: &str = "osjitter gate";
/// Flag of rustc with which each function begins at a multiple of 64 bytes (2^6), the length of a
/// cache line of x86-64 and most 64-bit ARM processors. Projects that compare builds of benchmarks
/// set it for the reason that the module names: folo-rs/folo#420 and anza-xyz/wincode#440 on
/// GitHub, where 32 bytes were not enough; LLVM aligns its own benchmarks likewise
/// (llvm/llvm-project#213938).
const FUNCTION_ALIGNMENT: &str = "-Cllvm-args=-align-all-functions=6";
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

/// Reason why a benchmark cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot build the benchmark: {0}")]
    NoScratch(#[source] io::Error),
    #[error("the current directory is unknown: {0}")]
    NoCurrentDirectory(#[source] io::Error),
    #[error("invalid --bench {name:?}: expected the name of a target")]
    InvalidName { name: String },
    #[error("cannot lock {}: {source}", .directory.display())]
    NotLocked { directory: PathBuf, source: io::Error },
    #[error("cannot start cargo: {0}")]
    CargoNotStarted(#[source] io::Error),
    #[error("cargo cannot build {bench} of {version}: {status}")]
    CargoFailed { bench: String, version: String, status: ExitStatus },
    #[error("cannot read the metadata of the package in {tree}: {stderr}")]
    MetadataFailed { tree: PathBuf, stderr: String },
    #[error("cannot read the metadata of the package in {tree}: {source}")]
    InvalidMetadata { tree: PathBuf, source: serde_json::Error },
    #[error("interrupted while the benchmark was built")]
    Interrupted,
    #[error("{version}: {source}")]
    BenchNotFound { version: String, source: FindError },
    #[error("cannot copy {executable}: {source}")]
    NotCopied { executable: PathBuf, source: io::Error },
    #[error("--base {revision:?} is no directory, and git cannot check it out: {source}")]
    NoRevision { revision: String, source: GitError },
    #[error(
        "--base {revision:?} is no directory, and no revision: {source}; GIT_DIR is ignored, so run the \
         gate in a directory where git finds the repository without it"
    )]
    IgnoredGitDirectory { revision: String, source: GitError },
    #[error(
        "--base {revision:?} has no directory {}: the package is new there, so there is nothing to compare \
         it with", .directory.display()
    )]
    NewDirectory { revision: String, directory: PathBuf },
    #[error(
        "cargo builds other packages: {base} of --base {revision:?}, and {candidate} of the candidate; \
         give a tree that has the package, or the directory of a package to compare it with"
    )]
    OtherPackage { revision: String, base: PackageId, candidate: PackageId },
    #[error("git cannot update the submodules: {0}")]
    SubmodulesFailed(#[source] GitError),
    #[error("{version}: {source}")]
    OldCriterion { version: String, source: OldCriterionError },
    #[error("git does not know the directory: {0}")]
    UnknownPrefix(#[source] GitError),
    #[error(
        "ambiguous --base {base:?}: it is a directory and a git revision; give ./{base} for the directory, or \
         the full name of the revision, such as refs/heads/{base}"
    )]
    DirectoryAndRevision { base: String },
    #[error(
        "--base {base:?} is built from the package that is judged, {package}; give a revision or another \
         tree, or --measure-equal to compare the package with itself"
    )]
    SamePackage { base: String, package: PathBuf },
    #[error(
        "cargo builds both sides to the file {executable}: give each tree a target directory of its own"
    )]
    SameExecutable { executable: PathBuf },
}

/// Reason why the messages of cargo do not have a benchmark.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    #[error("cargo built no benchmark {name}")]
    Missing { name: String },
    #[error(
        "several packages have a benchmark {name}; select one, e.g. --cargo-flags '-p PACKAGE'"
    )]
    InSeveralPackages { name: String },
}

/// Reason why a command of git has no result.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot start git: {0}")]
    NotStarted(#[source] io::Error),
    #[error("{stderr}")]
    Failed { stderr: String },
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        let message = error.to_string();
        match error {
            BuildError::NoCurrentDirectory(_) | BuildError::Interrupted => Self::measure(message),
            BuildError::NoScratch(source)
            | BuildError::NotCopied { source, .. }
            | BuildError::NotLocked { source, .. } => Self::from_io(&source, message),
            _ => Self::usage(message),
        }
    }
}

/// A built benchmark.
#[derive(Debug, PartialEq)]
struct BuiltBench {
    executable: PathBuf,
    /// The directory of its package, in which cargo runs benchmarks.
    package: PathBuf,
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
        let own_workspace = workspace(&here)?;
        let own_target = own_workspace.target_directory.clone();
        // From before the checkout, which must be newer than the products of other gates, until
        // both executables are copied.
        let _lock = self.lock(&own_target)?;
        let tree = self.base_tree(&here)?;
        let base_workspace = workspace(&tree)?;
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
                products: products(&base.executable),
            },
            candidate: BuiltSide {
                executable: self.built(Side::Candidate),
                tree: trees.candidate,
                target: own_target,
                products: products(&candidate.executable),
            },
        })
    }

    /// Locks the directory of the build products, in which gates of several bases build.
    #[allow(clippy::disallowed_methods, reason = "the pause between two attempts")]
    fn lock(&self, target: &Path) -> Result<File, BuildError> {
        let not_locked = |source| BuildError::NotLocked { directory: target.to_owned(), source };
        std::fs::create_dir_all(target).map_err(not_locked)?;
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
        let is_same =
            |base: &Path, candidate: &Path| match (base.canonicalize(), candidate.canonicalize()) {
                (Ok(base), Ok(candidate)) => base == candidate,
                _ => false,
            };
        if is_same(&base.package, &candidate.package) {
            return match self.measures_equal {
                true => Ok(()),
                false => Err(BuildError::SamePackage {
                    base: self.base.clone(),
                    package: candidate.package.clone(),
                }),
            };
        }
        match is_same(&base.executable, &candidate.executable) {
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
        let mut command = cargo(tree);
        command.args(["metadata", "--format-version", "1"]);
        let metadata = child::run_tool(&mut command, ToolStderr::Captured);
        let metadata = metadata.map_err(BuildError::CargoNotStarted)?.stdout;
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
        let mut command = cargo(tree);
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
        let Output { status, stdout, .. } = output.map_err(BuildError::CargoNotStarted)?;
        if !status.success() {
            let bench = self.name.clone();
            return Err(BuildError::CargoFailed { bench, version: version.clone(), status });
        }
        let built = find_bench(&String::from_utf8_lossy(&stdout), &self.name)
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

/// A command of cargo in a directory.
fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(directory);
    // A build script that describes its commit reads the repository of its own tree.
    child::remove_repository(&mut command);
    command
}

/// Adds [`FUNCTION_ALIGNMENT`] to the flags of rustc: to those of the variable that cargo uses, or
/// else to `build.rustflags` of its configuration. `variable` returns a variable of the
/// environment.
fn align_functions(command: &mut Command, variable: impl Fn(&str) -> Option<OsString>) {
    for (name, separator) in [("CARGO_ENCODED_RUSTFLAGS", "\u{1f}"), ("RUSTFLAGS", " ")] {
        if let Some(flags) = variable(name) {
            let parts = [flags.as_os_str(), OsStr::new(FUNCTION_ALIGNMENT)];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            command.env(name, parts.collect::<Vec<_>>().join(OsStr::new(separator)));
            return;
        }
    }
    command.args(["--config", &format!("build.rustflags=[\"{FUNCTION_ALIGNMENT}\"]")]);
}

/// Finds flags for a target, with which cargo ignores those of [`align_functions`].
fn find_target_flags(tree: &Path) -> Option<TargetFlags> {
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    TargetFlags::find(&tree.canonicalize().ok()?, &variables)
}

/// Returns the directory of all products of the profile with which an executable was built:
/// `target/release` of `target/release/deps/suite-9a2e`.
fn products(executable: &Path) -> PathBuf {
    let directory = executable.parent().unwrap_or(executable);
    let is_deps = directory.file_name().is_some_and(|name| name == "deps");
    let profile = directory.parent().filter(|_| is_deps);
    profile.unwrap_or(directory).to_owned()
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

/// A workspace of cargo.
#[derive(Deserialize)]
struct Workspace {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

/// A package of a workspace.
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// The name of a package, and its directory in the tree.
#[derive(Debug)]
pub struct PackageId {
    name: String,
    place: PathBuf,
}

impl fmt::Display for PackageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_os_str().is_empty() {
            true => write!(f, "{} in the top directory", self.name),
            false => write!(f, "{} in {}", self.name, self.place.display()),
        }
    }
}

impl Workspace {
    /// Returns the id of the package in a directory of a tree.
    fn package_id(&self, directory: &Path, tree: &Path) -> PackageId {
        let mut packages = self.packages.iter();
        let found = packages.find(|package| package.manifest_path.parent() == Some(directory));
        let name = found.map_or_else(String::new, |package| package.name.clone());
        let (directory, tree) = (canonical(directory), canonical(tree));
        let place = directory.strip_prefix(&tree).unwrap_or(&directory).to_owned();
        PackageId { name, place }
    }
}

/// Returns a path without links; as it is if this is not possible.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the workspace of a tree.
fn workspace(tree: &Path) -> Result<Workspace, BuildError> {
    let mut command = cargo(tree);
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = child::run_tool(&mut command, ToolStderr::Captured);
    let Output { status, stdout, stderr } = output.map_err(BuildError::CargoNotStarted)?;
    let tree = tree.to_owned();
    if !status.success() {
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        return Err(BuildError::MetadataFailed { tree, stderr });
    }
    serde_json::from_slice(&stdout).map_err(|source| BuildError::InvalidMetadata { tree, source })
}

/// Finds the executable of a benchmark in the messages of cargo.
fn find_bench(messages: &str, name: &str) -> Result<BuiltBench, FindError> {
    #[derive(Deserialize)]
    struct Message {
        reason: String,
        target: Option<Target>,
        executable: Option<PathBuf>,
        manifest_path: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    let mut found = None;
    for line in messages.lines() {
        // Build scripts and macros can print other lines.
        let Ok(Message { reason, target, executable, manifest_path }) = serde_json::from_str(line)
        else {
            continue;
        };
        let is_bench = |target: &Target| target.name == name && target.kind == ["bench"];
        if reason != "compiler-artifact" || !target.as_ref().is_some_and(is_bench) {
            continue;
        }
        let (Some(executable), Some(manifest)) = (executable, manifest_path) else { continue };
        let package = manifest.parent().map_or(manifest.clone(), Path::to_owned);
        if found.replace(BuiltBench { executable, package }).is_some() {
            return Err(FindError::InSeveralPackages { name: name.to_owned() });
        }
    }
    found.ok_or_else(|| FindError::Missing { name: name.to_owned() })
}

/// A worktree of git, which is removed when this is dropped.
struct Checkout {
    path: PathBuf,
    /// The top directory of the repository.
    repository: PathBuf,
    /// The directory of the worktree, if it is next to the repository.
    sibling: Option<ScratchDirectory>,
    _temporary: TemporaryWorktree,
}

impl Checkout {
    /// Checks a revision of the repository in `here` out: next to the repository, so that
    /// dependencies in `../other` and configurations in directories above are the same. If this is
    /// not possible, the path is `other_path`.
    fn new(here: &Path, revision: &str, other_path: &Path) -> Result<Self, BuildError> {
        let no_revision = |source| BuildError::NoRevision { revision: revision.to_owned(), source };
        let no_repository = |source| match std::env::var_os("GIT_DIR") {
            Some(_) => BuildError::IgnoredGitDirectory { revision: revision.to_owned(), source },
            None => no_revision(source),
        };
        let find_top = ["rev-parse", "--show-toplevel"];
        let top = run_git(git(here).args(find_top)).map_err(no_repository)?;
        let repository = PathBuf::from(top.trim_end_matches(['\n', '\r']));
        remove_abandoned(&repository);
        // The directory next to a submodule is part of another repository.
        let parent = repository.parent().unwrap_or(&repository);
        let is_inside = run_git(git(parent).args(["rev-parse", "--is-inside-work-tree"])).is_ok();
        let sibling =
            (!is_inside).then(|| ScratchDirectory::new_beside(&repository).ok()).flatten();
        let path = sibling.as_ref().map_or(other_path, ScratchDirectory::path).to_owned();
        let _temporary = TemporaryWorktree::new(&path);
        let checkout = Self { path, repository, sibling, _temporary };
        let Self { path, repository, .. } = &checkout;
        // The forced flag replaces an entry of this path, whose directory does not exist any more.
        let add = ["worktree", "add", "--detach", "--quiet", "--force", "--force"];
        run_git(git(repository).args(add).arg(path).arg(revision)).map_err(no_revision)?;
        if checkout.sibling.is_some() {
            // With the reason, a later gate recognises it if this process is killed.
            let lock = ["worktree", "lock", "--reason", WORKTREE_REASON];
            let _ = run_git(git(repository).args(lock).arg(path));
        }
        if path.join(".gitmodules").exists() {
            let mut command = git(path);
            command.args(["submodule", "--quiet", "update", "--init", "--recursive"]);
            run_git(&mut command).map_err(BuildError::SubmodulesFailed)?;
        }
        Ok(checkout)
    }

    /// Returns the directory that corresponds to `here` in the repository.
    fn directory(&self, here: &Path) -> Result<PathBuf, BuildError> {
        let prefix = run_git(git(here).args(["rev-parse", "--show-prefix"]))
            .map_err(BuildError::UnknownPrefix)?;
        Ok(self.path.join(prefix.trim_end()))
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        // If this fails, the directory is removed with the others for temporary files.
        remove_worktree(&self.repository, &self.path);
    }
}

/// Removes a worktree, also if it is locked.
fn remove_worktree(repository: &Path, path: &Path) {
    let remove = ["worktree", "remove", "--force", "--force"];
    // Also after an interrupt.
    let _ = git(repository).args(remove).arg(path).output();
}

/// Removes the worktrees of killed gates, also if only the entry or a part of the directory is
/// left.
fn remove_abandoned(repository: &Path) {
    let list = run_git(git(repository).args(["worktree", "list", "--porcelain"]));
    for entry in list.unwrap_or_default().split("\n\n") {
        let path = entry.lines().find_map(|line| line.strip_prefix("worktree "));
        let reason = entry.lines().find_map(|line| line.strip_prefix("locked "));
        if let (Some(path), Some(WORKTREE_REASON)) = (path, reason)
            && is_abandoned(Path::new(path))
        {
            // Git refuses to remove a directory without its `.git`.
            let _ = std::fs::remove_dir_all(path);
            remove_worktree(repository, Path::new(path));
        }
    }
}

/// Returns whether no gate uses the worktree at a path, which may not exist.
fn is_abandoned(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false)) || ScratchDirectory::is_abandoned(path)
}

/// A command of git in a directory.
fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).stdin(Stdio::null());
    child::remove_repository(&mut command);
    command
}

/// Runs git, and returns its standard output.
fn run_git(command: &mut Command) -> Result<String, GitError> {
    let output = child::run_tool(command, ToolStderr::Captured);
    let Output { status, stdout, stderr } = output.map_err(GitError::NotStarted)?;
    if status.success() {
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    } else {
        Err(GitError::Failed { stderr: String::from_utf8_lossy(&stderr).trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str, kind: &str, executable: Option<&str>) -> String {
        let target = serde_json::json!({ "name": name, "kind": [kind] });
        serde_json::json!({ "reason": "compiler-artifact", "target": target,
            "executable": executable, "manifest_path": "/p/Cargo.toml" })
        .to_string()
    }

    #[test]
    fn benches_are_found_in_messages() {
        let messages = [
            artifact("x", "lib", None),
            artifact("x", "bin", Some("/t/bin-x")),
            "a line of a build script".to_owned(),
            artifact("y", "bench", Some("/t/y")),
            artifact("x", "bench", Some("/t/x")),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = find_bench(&messages.join("\n"), "x").unwrap();
        let expected = BuiltBench { executable: "/t/x".into(), package: "/p".into() };
        assert_eq!(found, expected);
        let error = find_bench(&messages.join("\n"), "z").unwrap_err();
        assert_eq!(error, FindError::Missing { name: "z".to_owned() });
        let error = find_bench(&[&messages[4..], &messages[4..]].concat().join("\n"), "x");
        assert_eq!(error, Err(FindError::InSeveralPackages { name: "x".to_owned() }));
    }

    #[test]
    fn alignment_joins_other_flags() {
        let aligned = |variables: &[(&str, &str)]| {
            let mut command = Command::new("cargo");
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            align_functions(&mut command, |name| find(name).map(|(_, flags)| flags.into()));
            let text = |text: &OsStr| text.to_str().unwrap().to_owned();
            let variables: Vec<(String, String)> = command
                .get_envs()
                .map(|(name, flags)| (text(name), text(flags.unwrap())))
                .collect();
            (variables, command.get_args().map(text).collect::<Vec<_>>())
        };
        let flag = FUNCTION_ALIGNMENT;
        let config = ["--config".to_owned(), format!("build.rustflags=[\"{flag}\"]")];
        assert_eq!(aligned(&[]), (Vec::new(), config.to_vec()));
        let plain = ("RUSTFLAGS", "-g -Ctarget-cpu=native");
        let encoded = ("CARGO_ENCODED_RUSTFLAGS", "-g\u{1f}--cfg=a");
        for (variables, name, flags) in [
            (&[plain][..], "RUSTFLAGS", format!("-g -Ctarget-cpu=native {flag}")),
            (&[plain, encoded], "CARGO_ENCODED_RUSTFLAGS", format!("-g\u{1f}--cfg=a\u{1f}{flag}")),
            (&[("CARGO_ENCODED_RUSTFLAGS", "")], "CARGO_ENCODED_RUSTFLAGS", flag.to_owned()),
        ] {
            assert_eq!(aligned(variables), (vec![(name.to_owned(), flags)], Vec::new()));
        }
    }

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
