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
    // Only in our own checkout: in a packaged crate there is no repository, or somebody else's.
    let ours = Path::new(".git").exists();
    // The first says which branch it is, the second grows with every commit.
    for file in ["HEAD", "logs/HEAD"] {
        let path =
            git(&["rev-parse", "--git-path", file]).filter(|path| ours && Path::new(path).exists());
        if let Some(path) = path {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours).unwrap_or_default();
    println!("cargo::rustc-env=OSJITTER_COMMIT={commit}");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
