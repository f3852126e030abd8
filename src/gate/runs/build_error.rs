//! Reasons why a benchmark cannot be built.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use cli::exit::Error;

use super::cargo::{CargoError, FindError, PackageId};
use super::checkout::CheckoutError;
use super::old_criterion::OldCriterionError;

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
    #[error(transparent)]
    Cargo(#[from] CargoError),
    #[error("cargo cannot build {bench} of {version}: {status}")]
    CargoFailed { bench: String, version: String, status: ExitStatus },
    #[error("interrupted while the benchmark was built")]
    Interrupted,
    #[error("{version}: {source}")]
    BenchNotFound { version: String, source: FindError },
    #[error("cannot copy {executable}: {source}")]
    NotCopied { executable: PathBuf, source: io::Error },
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
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
    #[error("{version}: {source}")]
    OldCriterion { version: String, source: OldCriterionError },
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
