//! Builds the two programs in C that cause faults.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A temporary directory with the built programs.
pub struct Tools {
    home: tempfile::TempDir,
}

impl Tools {
    /// Builds the programs. Prints the reason and returns `None` if faults cannot be injected here.
    ///
    /// # Panics
    ///
    /// Panics if faults cannot be injected in CI.
    #[allow(clippy::print_stderr, reason = "shows that a test is skipped")]
    pub fn build() -> Option<Self> {
        let tools = Self { home: tempfile::tempdir().expect("a temporary directory") };
        let compiled = ["inject", "clock.so"].iter().try_for_each(|name| tools.compile(name));
        let Err(error) = compiled.and_then(|()| tools.check_injection()) else {
            return Some(tools);
        };
        assert!(std::env::var_os("CI").is_none(), "cannot inject faults: {error}");
        eprintln!("SKIPPED, cannot inject faults: {error}");
        None
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn compile(&self, name: &str) -> Result<(), String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults");
        let (source, flags): (_, &[&str]) = match name.split_once('.') {
            Some((stem, _)) => (sources.join(stem).with_extension("c"), &["-shared", "-fPIC"]),
            None => (sources.join(name).with_extension("c"), &[]),
        };
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let output = Command::new(&compiler)
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(self.path(name))
            .args(flags)
            .arg(&source)
            .output()
            .map_err(|e| format!("{compiler}: {e}"))?;
        // An error in the sources is no reason to skip the tests.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Checks that the kernel, or the sandbox of the test, lets a process intercept the system
    /// calls of another one.
    fn check_injection(&self) -> Result<(), String> {
        let mut command = Command::new(self.path("inject"));
        command.arg(self.path("tally")).args(["getrandom=count", "--", "true"]);
        let output = command.output().map_err(|e| e.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}
