//! The directories of the workspace.

use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directories of the crates below `lib/`; a published package contains none.
pub fn crates() -> Vec<PathBuf> {
    let directories = ["lib", "lib/internal"].map(|parent| root().join(parent));
    let entries = directories.iter().flat_map(std::fs::read_dir).flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

pub fn is_internal(directory: &Path) -> bool {
    directory.parent().is_some_and(|parent| parent.ends_with("internal"))
}
