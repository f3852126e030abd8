//! A checkout of a revision by git, next to its repository.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cli::file_io::TemporaryWorktree;
use engine::measure::child::{self, ToolStderr};
use engine::measure::scratch::ScratchDirectory;

/// Reason for the lock of a worktree.
const WORKTREE_REASON: &str = "osjitter gate";

/// Reason why a revision cannot be checked out.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    #[error("--base {revision:?} is no directory, and git cannot check it out: {source}")]
    NoRevision { revision: String, source: GitError },
    #[error(
        "--base {revision:?} is no directory, and no revision: {source}; GIT_DIR is ignored, so run the \
         gate in a directory where git finds the repository without it"
    )]
    IgnoredGitDirectory { revision: String, source: GitError },
    #[error("git cannot update the submodules: {0}")]
    SubmodulesFailed(#[source] GitError),
    #[error("git does not know the directory: {0}")]
    UnknownPrefix(#[source] GitError),
}

/// Reason why a command of git has no result.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot start git: {0}")]
    NotStarted(#[source] io::Error),
    #[error("{stderr}")]
    Failed { stderr: String },
}

/// A worktree of git, which is removed when this is dropped.
pub struct Checkout {
    pub path: PathBuf,
    /// The top directory of the repository.
    pub repository: PathBuf,
    /// The directory of the worktree, if it is next to the repository.
    sibling: Option<ScratchDirectory>,
    _temporary: TemporaryWorktree,
}

impl Checkout {
    /// Checks a revision of the repository in `here` out: next to the repository, so that
    /// dependencies in `../other` and configurations in directories above are the same. If this is
    /// not possible, the path is `other_path`.
    pub fn new(here: &Path, revision: &str, other_path: &Path) -> Result<Self, CheckoutError> {
        let no_revision =
            |source| CheckoutError::NoRevision { revision: revision.to_owned(), source };
        let no_repository = |source| match std::env::var_os("GIT_DIR") {
            Some(_) => CheckoutError::IgnoredGitDirectory { revision: revision.to_owned(), source },
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
            run_git(&mut command).map_err(CheckoutError::SubmodulesFailed)?;
        }
        Ok(checkout)
    }

    /// Returns the directory that corresponds to `here` in the repository.
    pub fn directory(&self, here: &Path) -> Result<PathBuf, CheckoutError> {
        let prefix = run_git(git(here).args(["rev-parse", "--show-prefix"]))
            .map_err(CheckoutError::UnknownPrefix)?;
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
pub fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).stdin(Stdio::null());
    child::remove_repository(&mut command);
    command
}

/// Runs git, and returns its standard output.
pub fn run_git(command: &mut Command) -> Result<String, GitError> {
    let output = child::run_tool(command, ToolStderr::Captured);
    let Output { status, stdout, stderr } = output.map_err(GitError::NotStarted)?;
    if status.success() {
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    } else {
        Err(GitError::Failed { stderr: String::from_utf8_lossy(&stderr).trim().to_owned() })
    }
}
