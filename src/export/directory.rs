//! The directory that a command writes its files to.

use std::path::{Path, PathBuf};

use super::write_atomically;
use crate::exit::Failure;

/// The directory of the report, proved writable before anything is measured.
pub struct Directory {
    directory: PathBuf,
}

impl Directory {
    pub fn open(asked: Option<&Path>, stamp: &str) -> Result<Self, String> {
        let directory = match asked {
            Some(path) => path.to_path_buf(),
            None => free_name(Path::new("results"), &stamp.replace([':', '-'], "")),
        };
        let refuse = |e: std::io::Error| {
            format!(
                "cannot write to {}: {e}; choose another directory with --out; nothing was run",
                directory.display()
            )
        };
        std::fs::create_dir_all(&directory).map_err(refuse)?;
        tempfile::NamedTempFile::new_in(&directory).map_err(refuse)?;
        Ok(Self { directory })
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let file = self.directory.join(name);
        write_atomically(&file, text.as_bytes())
            .map_err(|e| Failure::Measure(format!("cannot write {}: {e}", file.display())))?;
        Ok(file)
    }
}

/// A directory that is not there yet: two runs of one second do not share one.
fn free_name(parent: &Path, name: &str) -> PathBuf {
    let candidates = (1_u32..).map(|n| if n == 1 { parent.join(name) } else { parent.join(format!("{name}-{n}")) });
    candidates.into_iter().find(|path| !path.exists()).expect("the counter does not run out")
}
