//! Passes the version of tokio and the commit to the program.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let tokio = std::fs::read_to_string("Cargo.lock").ok().and_then(|lock| {
        let mut lines = lock.lines().skip_while(|l| *l != "name = \"tokio\"");
        lines.nth(1)?.split('"').nth(1).map(str::to_owned)
    });
    println!("cargo::rustc-env=OSJITTER_TOKIO_VERSION={}", tokio.as_deref().unwrap_or("unknown"));
    // A packaged crate is in no repository, or in that of another project.
    let is_checkout = Path::new(".git").exists();
    // The first file changes with the branch, and the second one with every commit.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file]).filter(|_| is_checkout);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit =
        git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_checkout).unwrap_or_default();
    println!("cargo::rustc-env=OSJITTER_COMMIT={commit}");
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook of git passes the repository of the commit, which can be that of another project.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"] {
        command.env_remove(variable);
    }
    let output = command.args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
