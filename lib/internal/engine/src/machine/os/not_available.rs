//! Features of the kernel that are not available, and the reasons.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use crate::machine::os::events::LayoutError;

/// A feature that the system, or this process on it, does not support.
#[derive(Clone, Debug, thiserror::Error)]
pub struct NotAvailable {
    pub what: &'static str,
    /// Error of the system, if there was one.
    #[source]
    pub obstacle: Option<Obstacle>,
    /// Requirements of the feature.
    pub needs: &'static str,
}

/// Error that prevents the use of a feature.
#[derive(Clone, Debug, thiserror::Error)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has the features"))]
pub enum Obstacle {
    #[error(transparent)]
    System(Arc<io::Error>),
    /// A system call other than the one of the feature failed.
    #[error("{name}: {error}")]
    Call {
        name: &'static str,
        #[source]
        error: Arc<io::Error>,
    },
    #[error("{}: {error}", .file.display())]
    UnreadableFile {
        file: PathBuf,
        #[source]
        error: Arc<io::Error>,
    },
    #[error("{} does not exist", .0.display())]
    MissingFile(PathBuf),
    /// The description of a tracepoint cannot be used.
    #[error("{}: {error}", .file.display())]
    Layout {
        file: PathBuf,
        #[source]
        error: LayoutError,
    },
    #[error("tracefs is not mounted")]
    NoTracefs,
}

impl NotAvailable {
    /// Creates the reason for an operation that the system has refused.
    #[cfg(target_os = "linux")]
    pub fn new(what: &'static str, error: io::Error, needs: &'static str) -> Self {
        Self { what, obstacle: Some(Obstacle::System(Arc::new(error))), needs }
    }
}

impl fmt::Display for NotAvailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(obstacle) = &self.obstacle {
            write!(f, ": {obstacle}")?;
        }
        write!(f, "; it requires {}", self.needs)
    }
}
