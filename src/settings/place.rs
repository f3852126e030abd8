//! Where the file is.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use cli::exit::{self, Error};

/// The file of a project.
const NAME: &str = "osjitter.toml";
/// Names another one, as `--config` does.
const VARIABLE: &str = "OSJITTER_CONFIG";

/// The file that was named, or the nearest one, if any.
pub fn find(matches: &ArgMatches) -> exit::Result<Option<PathBuf>> {
    if matches.get_flag("no_config") {
        return Ok(None);
    }
    let variable = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let named = matches.get_one::<PathBuf>("config").map(|file| (file.clone(), "--config"));
    if let Some((file, by)) = named.or(variable.map(|file| (file, VARIABLE))) {
        let there = file
            .try_exists()
            .map_err(|e| Error::usage(format!("{by}: {}: {e}", file.display())))?;
        return match there {
            true => Ok(Some(file)),
            false => Err(Error::usage(format!("{by}: there is no {}", file.display()))),
        };
    }
    Ok(std::env::current_dir().ok().and_then(|here| nearest(&here, home().as_deref())))
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// The nearest file from here up to the repository's root or home. Where neither is above, only
/// here: what somebody else has put into a directory that all may write to is no project of ours.
fn nearest(here: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let is_end = |directory: &Path| directory.join(".git").exists() || Some(directory) == home;
    let above = here.ancestors().position(is_end).unwrap_or(0);
    here.ancestors()
        .take(above + 1)
        .map(|directory| directory.join(NAME))
        .find(|file| file.is_file())
}

/// A file as people would name it from where they are.
pub fn shown(file: &Path) -> String {
    let here = std::env::current_dir().ok();
    let short = here.and_then(|here| file.strip_prefix(here).ok());
    short.unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_up_to_the_repository_or_home_and_none_beyond() {
        let root = tempfile::tempdir().unwrap();
        let [home, project, inner] =
            ["home", "home/project", "home/project/a/b"].map(|name| root.path().join(name));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir(project.join(".git")).unwrap();
        let found = |home: Option<&Path>| nearest(&inner, home);
        let put = |directory: &Path| {
            let file = directory.join(NAME);
            std::fs::write(&file, "").unwrap();
            file
        };
        let (beyond, of_home) = (put(root.path()), put(&home));
        assert_eq!(found(Some(&home)), None, "the repository ends the search");
        std::fs::remove_dir(project.join(".git")).unwrap();
        assert_eq!(found(Some(&home)), Some(of_home));
        assert_eq!(found(None), None, "without an end only the directory itself counts");
        assert_eq!(nearest(root.path(), None), Some(beyond));
        let near = put(&inner);
        assert_eq!(found(None), Some(near));
    }
}
