//! The two programs in C that make faults, built when they are needed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they are.
pub struct Tools {
    home: tempfile::TempDir,
}

impl Tools {
    /// Builds them; `None`, with a word, where that cannot be done. In CI it must be possible.
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub fn built() -> Option<Self> {
        let tools = Self { home: tempfile::tempdir().expect("a temporary directory") };
        let failed = ["inject", "clock.so"].iter().find_map(|name| tools.build(name).err());
        let Some(why) = failed.or_else(|| tools.try_out().err()) else { return Some(tools) };
        assert!(std::env::var_os("CI").is_none(), "faults cannot be made: {why}");
        eprintln!("SKIPPED, no fault was tried: {why}");
        None
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn build(&self, name: &str) -> Result<(), String> {
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
        // What does not compile is our fault, not the machine's.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Whether the kernel, or a sandbox around us, lets one process answer another's calls.
    fn try_out(&self) -> Result<(), String> {
        let tally = self.path("tally");
        let tried = Command::new(self.path("inject"))
            .arg(&tally)
            .args(["getrandom=count", "--", "true"])
            .output();
        let tried = tried.map_err(|e| e.to_string())?;
        if tried.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&tried.stderr).into_owned())
        }
    }
}
