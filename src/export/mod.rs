//! Every format that is written.

pub mod csv;
pub mod cyclictest;
pub mod directory;
pub mod dispatch;
pub mod hdr;
pub mod html;
pub mod markdown;
pub mod openmetrics;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod svg;
pub mod table;
pub mod trackers;
pub mod verdict;

use std::io::{self, Write};
use std::path::Path;

/// Writes a file whole or not at all: into a temporary one beside it, then renamed.
pub fn write_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A temporary file is private; a report is as readable as any other file of its owner.
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
