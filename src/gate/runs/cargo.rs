//! Commands of cargo, and what it reports: the workspace of a tree, and the benchmark that it
//! built.
//!
//! Source that differs gives functions of other lengths, which would move all functions behind
//! them. Where a loop begins in its cache line decides how fast it is, so functions without a
//! change would become faster or slower. Therefore each function begins at a cache line
//! ([`FUNCTION_ALIGNMENT`]).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use engine::measure::child::{self, ToolStderr};
use serde::Deserialize;

use super::target_flags::TargetFlags;

/// Flag of rustc with which each function begins at a multiple of 64 bytes (2^6), the length of a
/// cache line of x86-64 and most 64-bit ARM processors. Projects that compare builds of benchmarks
/// set it for the reason that the module names: folo-rs/folo#420 and anza-xyz/wincode#440 on
/// GitHub, where 32 bytes were not enough; LLVM aligns its own benchmarks likewise
/// (llvm/llvm-project#213938).
const FUNCTION_ALIGNMENT: &str = "-Cllvm-args=-align-all-functions=6";

/// Reason why cargo has no result.
#[derive(Debug, thiserror::Error)]
pub enum CargoError {
    #[error("cannot start cargo: {0}")]
    NotStarted(#[source] io::Error),
    #[error("cannot read the metadata of the package in {tree}: {stderr}")]
    MetadataFailed { tree: PathBuf, stderr: String },
    #[error("cannot read the metadata of the package in {tree}: {source}")]
    InvalidMetadata { tree: PathBuf, source: serde_json::Error },
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

/// Returns a command of cargo in a directory.
pub fn cargo_command(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(directory);
    // A build script that describes its commit reads the repository of its own tree.
    child::remove_repository(&mut command);
    command
}

/// Adds [`FUNCTION_ALIGNMENT`] to the flags of rustc: to those of the variable that cargo uses, or
/// else to `build.rustflags` of its configuration. `variable` returns a variable of the
/// environment.
pub fn align_functions(command: &mut Command, variable: impl Fn(&str) -> Option<OsString>) {
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
pub fn find_target_flags(tree: &Path) -> Option<TargetFlags> {
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    TargetFlags::find(&tree.canonicalize().ok()?, &variables)
}

/// A workspace of cargo.
#[derive(Deserialize)]
pub struct Workspace {
    pub workspace_root: PathBuf,
    pub target_directory: PathBuf,
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
    pub name: String,
    pub place: PathBuf,
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
    /// Reads the workspace of a tree.
    pub fn read(tree: &Path) -> Result<Self, CargoError> {
        let mut command = cargo_command(tree);
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = child::run_tool(&mut command, ToolStderr::Captured);
        let Output { status, stdout, stderr } = output.map_err(CargoError::NotStarted)?;
        let tree = tree.to_owned();
        if !status.success() {
            let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
            return Err(CargoError::MetadataFailed { tree, stderr });
        }
        serde_json::from_slice(&stdout)
            .map_err(|source| CargoError::InvalidMetadata { tree, source })
    }

    /// Returns the id of the package in a directory of a tree.
    pub fn package_id(&self, directory: &Path, tree: &Path) -> PackageId {
        let mut packages = self.packages.iter();
        let found = packages.find(|package| package.manifest_path.parent() == Some(directory));
        let name = found.map_or_else(String::new, |package| package.name.clone());
        let (directory, tree) = (canonical(directory), canonical(tree));
        let place = directory.strip_prefix(&tree).unwrap_or(&directory).to_owned();
        PackageId { name, place }
    }
}

/// A built benchmark.
#[derive(Debug, PartialEq)]
pub struct BuiltBench {
    pub executable: PathBuf,
    /// The directory of its package, in which cargo runs benchmarks.
    pub package: PathBuf,
}

impl BuiltBench {
    /// Finds a benchmark in the messages of cargo.
    pub fn find(messages: &str, name: &str) -> Result<Self, FindError> {
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
            let Ok(Message { reason, target, executable, manifest_path }) =
                serde_json::from_str(line)
            else {
                continue;
            };
            let is_bench = |target: &Target| target.name == name && target.kind == ["bench"];
            if reason != "compiler-artifact" || !target.as_ref().is_some_and(is_bench) {
                continue;
            }
            let (Some(executable), Some(manifest)) = (executable, manifest_path) else { continue };
            let package = manifest.parent().map_or(manifest.clone(), Path::to_owned);
            if found.replace(Self { executable, package }).is_some() {
                return Err(FindError::InSeveralPackages { name: name.to_owned() });
            }
        }
        found.ok_or_else(|| FindError::Missing { name: name.to_owned() })
    }

    /// Returns the directory of all products of the profile with which the executable was built:
    /// `target/release` of `target/release/deps/suite-9a2e`.
    pub fn products(&self) -> PathBuf {
        let directory = self.executable.parent().unwrap_or(&self.executable);
        let is_deps = directory.file_name().is_some_and(|name| name == "deps");
        let profile = directory.parent().filter(|_| is_deps);
        profile.unwrap_or(directory).to_owned()
    }
}

/// Returns a path without links; as it is if this is not possible.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
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
        let found = BuiltBench::find(&messages.join("\n"), "x").unwrap();
        let expected = BuiltBench { executable: "/t/x".into(), package: "/p".into() };
        assert_eq!(found, expected);
        let error = BuiltBench::find(&messages.join("\n"), "z").unwrap_err();
        assert_eq!(error, FindError::Missing { name: "z".to_owned() });
        let error = BuiltBench::find(&[&messages[4..], &messages[4..]].concat().join("\n"), "x");
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
}
