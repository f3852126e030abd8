//! A repository with a package, whose benchmark a gate builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use engine::measure::child::remove_repository;
use jitterstat::gate::decision::Outcome;

use super::{CRITERION, outcomes};
use crate::gate::Gate;
use crate::gate::runs::runs;
use crate::osjitter::Osjitter;
use crate::test_programs::{has_program, write_executable};

/// A cargo that copies the script `suite` of the package as the executable of its benchmark. Like
/// cargo, it also finds a package above the current directory.
const CARGO: &str = r#"#!/bin/sh
target="${CARGO_TARGET_DIR:-$PWD/target}"
if [ "$1" = metadata ]; then
    echo "{\"target_directory\":\"$target\",\"workspace_root\":\"$PWD\",\"packages\":[]}"
    exit
fi
until [ -f suite ] || [ "$PWD" = / ]; do cd ..; done
[ -f suite ] || { echo "error: no bench target" >&2; exit 101; }
echo "$PWD $*" >>"$CARGO_LOG"
mkdir -p "$target" && cp suite "$target/suite" && chmod +x "$target/suite" || exit 1
cat <<END
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"suite"},"executable":"$target/suite","manifest_path":"$PWD/Cargo.toml"}
{"reason":"build-finished","success":true}
END
"#;

/// A repository with a package in a subdirectory, whose benchmark `sum` became slower: it took 400
/// in the commit, and takes 500 in the working tree.
pub struct Package {
    home: tempfile::TempDir,
}

impl Package {
    /// Creates the repository; returns `None` if the machine has no git.
    pub fn new() -> Option<Self> {
        has_program("git", "--version").then_some(())?;
        let package = Self { home: tempfile::tempdir().unwrap() };
        write_executable(&package.path("cargo"), CARGO);
        package.write_suite("repository/package", "sum 400");
        package.git(&["init", "--quiet"]);
        package.commit();
        package.write_suite("repository/package", "sum 500");
        Some(package)
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    /// Writes the benchmark, which has to run in the directory of its package.
    pub fn write_suite(&self, directory: &str, bench: &str) {
        let script = format!("#!/bin/sh\n{CRITERION}[ -f suite ] && bench {bench}\n");
        std::fs::create_dir_all(self.path(directory)).unwrap();
        std::fs::write(self.path(directory).join("suite"), script).unwrap();
    }

    /// Makes cargo run these lines first.
    pub fn extend_cargo(&self, lines: &str) {
        let (interpreter, script) = CARGO.split_once('\n').unwrap();
        write_executable(&self.path("cargo"), format!("{interpreter}\n{lines}{script}"));
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in("repository", args)
    }

    /// Runs git in a working tree. Its hooks have the variables of a gate.
    pub fn git_in(&self, tree: &str, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.path(tree)).args(["-c", "user.name=x", "-c", "user.email=x@y"]);
        git.args(args).envs(self.variables()).env_remove("CARGO_TARGET_DIR");
        remove_repository(&mut git);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn commit(&self) {
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message", "x"]);
    }

    /// Returns the number of working trees of the repository.
    pub fn trees(&self) -> usize {
        self.git(&["worktree", "list"]).lines().count()
    }

    fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("CARGO", self.path("cargo")),
            ("CARGO_LOG", self.path("log")),
            ("HOME_OF_TEST", self.home().to_owned()),
        ]
    }

    pub fn gate(&self, args: &[&str]) -> Gate {
        Gate::from_ran(self.command(args).run())
    }

    pub fn command(&self, args: &[&str]) -> Osjitter {
        let bench = ["--bench", "suite", "--max-pairs", "24"];
        let gate = crate::gate::gate(&[&bench, args].concat());
        let gate = gate.directory(&self.path("repository/package"));
        self.variables().into_iter().fold(gate, |gate, (name, value)| gate.env(name, value))
    }

    /// Returns the directory and the arguments of each build.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }
}

/// Checks that a gate found the benchmark `sum` slower, with these times.
#[track_caller]
pub fn assert_slower(gate: &Gate, base: f64, candidate: f64) {
    assert_eq!(gate.ran.code, 1, "{}{}", gate.ran.stderr, gate.ran.stdout);
    assert_eq!(outcomes(runs(gate)), [("sum", base, candidate, Outcome::Regressed)]);
}
