//! Facts that only the build knows: the version of tokio under test, and the commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let tokio = std::fs::read_to_string("Cargo.lock").ok().and_then(|lock| {
        let mut lines = lock.lines().skip_while(|l| *l != "name = \"tokio\"");
        lines.nth(1)?.split('"').nth(1).map(str::to_owned)
    });
    println!("cargo::rustc-env=OSJITTER_TOKIO_VERSION={}", tokio.as_deref().unwrap_or("unknown"));
    let mut commit = String::new();
    // Only in our own checkout: in a packaged crate there is no repository, or somebody else's.
    if Path::new(".git").exists() {
        println!("cargo::rerun-if-changed=.git/HEAD");
        let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
        if let Some(output) = output.ok().filter(|o| o.status.success()) {
            commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        }
    }
    println!("cargo::rustc-env=OSJITTER_COMMIT={commit}");
}
