//! Flags of rustc for a target, which cargo uses instead of those of `build.rustflags`.

use std::env::consts::{ARCH, OS};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use cli::file_io;
use toml::Table;

/// Variables that cargo uses instead of the flags for a target.
const STRONGER_VARIABLES: [&str; 2] = ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"];
/// Names of cargo's configuration in a directory.
const CONFIG_NAMES: [&str; 2] = ["config.toml", "config"];

/// A place with flags for a target.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetFlags {
    Variable(String),
    /// `target.KEY.rustflags` in a file.
    File {
        path: PathBuf,
        key: String,
    },
}

impl TargetFlags {
    /// Finds flags for the target of this machine, or for one that a `cfg` describes, in a list of
    /// variables and in the configurations that cargo reads in a directory.
    pub fn find(directory: &Path, variables: &[(OsString, OsString)]) -> Option<Self> {
        let variable = |name: &str| variables.iter().find(|(known, _)| known == name);
        if STRONGER_VARIABLES.into_iter().any(|name| variable(name).is_some()) {
            return None;
        }
        let names = variables.iter().filter_map(|(name, _)| name.to_str());
        let is_of_target = |name: &&str| {
            let triple =
                name.strip_prefix("CARGO_TARGET_").and_then(|n| n.strip_suffix("_RUSTFLAGS"));
            triple.is_some_and(|triple| is_host(&triple.to_ascii_lowercase()))
        };
        if let Some(name) = names.into_iter().find(is_of_target) {
            return Some(Self::Variable(name.to_owned()));
        }
        let home = variable("CARGO_HOME").map(|(_, path)| PathBuf::from(path));
        let default_home = || Some(std::env::home_dir()?.join(".cargo"));
        let directories = directory.ancestors().map(|ancestor| ancestor.join(".cargo"));
        let directories = directories.chain(home.or_else(default_home));
        let mut files = directories.flat_map(|found| CONFIG_NAMES.map(|name| found.join(name)));
        files.find_map(|path| {
            let config: Table = file_io::read_text(&path).ok()?.parse().ok()?;
            let key = find_key(&config)?;
            Some(Self::File { path, key })
        })
    }
}

impl fmt::Display for TargetFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::File { path, key } => {
                write!(f, "target.{key}.rustflags of {}", path.display())
            }
        }
    }
}

/// Finds the key of a target with flags in a configuration of cargo.
fn find_key(config: &Table) -> Option<String> {
    let is_used = |key: &str| key.starts_with("cfg(") || is_host(&key.replace('-', "_"));
    let has_flags =
        |(key, target): &(&String, &toml::Value)| is_used(key) && target.get("rustflags").is_some();
    let targets = config.get("target")?.as_table()?;
    targets.iter().find(has_flags).map(|(key, _)| key.clone())
}

/// Returns whether the name of a target, with underscores, has the architecture and the system of
/// this program.
fn is_host(triple: &str) -> bool {
    let system = if OS == "macos" { "darwin" } else { OS };
    triple.strip_prefix(ARCH).is_some_and(|rest| rest.starts_with('_') && rest.contains(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> String {
        format!("{ARCH}-unknown-{}", if OS == "macos" { "darwin" } else { OS })
    }

    #[test]
    fn flags_of_this_target_are_found() {
        let other = "[target.wasm32-unknown-unknown]\nrustflags = ['-g']\n";
        let linker = format!("[target.{}]\nlinker = 'lld'\n", host());
        for (text, key) in [
            (format!("[target.{}]\nrustflags = ['-g']\n", host()), Some(host())),
            ("[target.'cfg(unix)']\nrustflags = '-g'\n".to_owned(), Some("cfg(unix)".to_owned())),
            (format!("{other}{linker}"), None),
            ("[build]\nrustflags = ['-g']\n".to_owned(), None),
        ] {
            assert_eq!(find_key(&text.parse().unwrap()), key, "{text}");
        }
    }

    #[test]
    fn directories_above_are_searched() {
        let home = tempfile::tempdir().unwrap();
        let (config, package) = (home.path().join(".cargo/config.toml"), home.path().join("a/b"));
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, "[target.'cfg(unix)']\nrustflags = ['-g']\n").unwrap();
        let expected = TargetFlags::File { path: config, key: "cfg(unix)".to_owned() };
        assert_eq!(TargetFlags::find(&package, &[]), Some(expected));
        let set = |name: &str| [(OsString::from(name), OsString::from("-g"))];
        assert_eq!(TargetFlags::find(&package, &set("RUSTFLAGS")), None);
        let name = format!("CARGO_TARGET_{}_RUSTFLAGS", host().replace('-', "_").to_uppercase());
        let found = TargetFlags::find(&package, &set(&name));
        assert_eq!(found, Some(TargetFlags::Variable(name)));
    }
}
