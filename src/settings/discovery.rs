//! Finds the file of settings.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use cli::exit::{self, Error};
use cli::file_io::identity;
use cli::terminal;
use render::report::command::quote_word;

use crate::settings::open_file::{OpenFile, display_path};
#[cfg(unix)]
use crate::settings::ownership::distrust_reason;

/// The name of the file.
const FILE_NAME: &str = "osjitter.toml";
/// The environment variable that names another file, like `--config`.
const FILE_VARIABLE: &str = "OSJITTER_CONFIG";

/// Finds the file that is named by a flag or the environment, or the nearest one, if any.
///
/// The nearest one is ignored, with a warning, if another user controls it.
///
/// # Errors
/// Returns an error if a named file does not exist, if the file cannot be opened, or if the nearest
/// one is no regular file.
pub fn find(matches: &ArgMatches) -> exit::Result<Option<OpenFile>> {
    if matches.get_flag("no_config") {
        return Ok(None);
    }
    let variable = std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty());
    let variable = variable.map(|name| (PathBuf::from(name), FILE_VARIABLE));
    let flag = matches.get_one::<PathBuf>("config").map(|file| (file.clone(), "--config"));
    if let Some((file, source)) = flag.or(variable) {
        let exists = file
            .try_exists()
            .map_err(|e| Error::usage(format!("{source}: {}: {e}", file.display())))?;
        return match exists {
            true => OpenFile::open(file).map(Some),
            false => Err(Error::usage(format!("{source}: {} does not exist", file.display()))),
        };
    }
    let current = std::env::current_dir().ok();
    let nearest = current.and_then(|directory| find_nearest(&directory, home().as_deref()));
    let Some(file) = nearest.map(OpenFile::open_regular).transpose()? else { return Ok(None) };
    let Some(reason) = distrust_reason(&file) else { return Ok(Some(file)) };
    let name = display_path(&file.path);
    let remedy = format!("--config {} uses it anyway", quote_word(&name));
    terminal::note(false, &format!("warning: ignoring {name}: {reason}; {remedy}"));
    Ok(None)
}

/// Trusts every file: only Unix has owners and permissions to check.
#[cfg(not(unix))]
fn distrust_reason(_: &OpenFile) -> Option<String> {
    None
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Finds the nearest file in `start` and the directories above it, up to the root of the repository
/// or the home directory.
///
/// If `start` is below neither, only `start` is searched: a file in a directory that everyone can
/// write to, such as `/tmp`, may belong to another user.
fn find_nearest(start: &Path, home: Option<&Path>) -> Option<PathBuf> {
    // The working directory has no links in it, and the name of the home may have some.
    let home = home.and_then(|home| identity(home).ok());
    let is_home = |directory: &Path| home.is_some() && identity(directory).ok() == home;
    let is_end = |directory: &Path| directory.join(".git").exists() || is_home(directory);
    let levels_above = start.ancestors().position(is_end).unwrap_or(0);
    let mut files = start.ancestors().take(levels_above + 1).map(|d| d.join(FILE_NAME));
    // Also a directory or a link to nowhere, which is an error: settings are not lost silently.
    files.find(|file| file.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_file(directory: &Path) -> PathBuf {
        let file = directory.join(FILE_NAME);
        std::fs::write(&file, "").unwrap();
        file
    }

    #[test]
    fn search_ends_at_repository_or_home() {
        let root = tempfile::tempdir().unwrap();
        let [home, project, inner] =
            ["home", "home/project", "home/project/a/b"].map(|name| root.path().join(name));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir(project.join(".git")).unwrap();
        let find = |home: Option<&Path>| find_nearest(&inner, home);
        let (root_file, home_file) = (write_file(root.path()), write_file(&home));
        assert_eq!(find(Some(&home)), None, "the repository ends the search");
        std::fs::remove_dir(project.join(".git")).unwrap();
        assert_eq!(find(Some(&home)), Some(home_file));
        assert_eq!(find(None), None, "without an end only the directory itself is searched");
        assert_eq!(find_nearest(root.path(), None), Some(root_file));
        let inner_file = write_file(&inner);
        assert_eq!(find(None), Some(inner_file));
    }

    #[cfg(unix)]
    #[test]
    fn home_can_be_a_link() {
        let root = tempfile::tempdir().unwrap();
        let [home, inner, link] = ["home", "home/a", "link"].map(|name| root.path().join(name));
        std::fs::create_dir_all(&inner).unwrap();
        std::os::unix::fs::symlink("home", &link).unwrap();
        let file = write_file(&home);
        assert_eq!(find_nearest(&inner, Some(&link)), Some(file));
    }

    #[cfg(unix)]
    #[test]
    fn irregular_files_are_not_skipped() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(FILE_NAME);
        let is_rejected = || {
            let found = find_nearest(root.path(), None).expect("a path");
            OpenFile::open_regular(found).is_err_and(|error| error.code() == 2)
        };
        std::os::unix::fs::symlink("absent", &file).unwrap();
        assert!(is_rejected(), "a link to nowhere");
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(FILE_NAME, &file).unwrap();
        assert!(is_rejected(), "a loop of links");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(is_rejected(), "a directory");
        std::fs::remove_dir(&file).unwrap();
        // A pipe without a writer, which must not be waited for.
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(is_rejected(), "a pipe");
    }
}
