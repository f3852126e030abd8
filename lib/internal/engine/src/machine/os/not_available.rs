//! Features of the kernel that are not available, and the reasons.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use crate::machine::os::events::LayoutError;

/// A feature that the system, or this process on it, does not support.
#[derive(Clone, Debug)]
pub struct NotAvailable {
    pub what: &'static str,
    /// Error of the system, if there was one.
    pub obstacle: Option<Obstacle>,
    /// Requirements of the feature.
    pub needs: &'static str,
}

/// Error that prevents the use of a feature.
#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has the features"))]
pub enum Obstacle {
    System(Arc<io::Error>),
    /// A system call other than the one of the feature failed.
    Call {
        name: &'static str,
        error: Arc<io::Error>,
    },
    UnreadableFile {
        file: PathBuf,
        error: Arc<io::Error>,
    },
    MissingFile(PathBuf),
    /// The description of a tracepoint cannot be used.
    Layout {
        file: PathBuf,
        error: LayoutError,
    },
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

impl Error for NotAvailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.obstacle.as_ref().map(|obstacle| obstacle as _)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::Call { name, error } => write!(f, "{name}: {error}"),
            Self::UnreadableFile { file, error } => write!(f, "{}: {error}", file.display()),
            Self::MissingFile(file) => write!(f, "{} does not exist", file.display()),
            Self::Layout { file, error } => write!(f, "{}: {error}", file.display()),
            Self::NoTracefs => f.write_str("tracefs is not mounted"),
        }
    }
}

impl Error for Obstacle {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System(error) => error.source(),
            Self::Call { error, .. } | Self::UnreadableFile { error, .. } => Some(&**error),
            Self::Layout { error, .. } => Some(error),
            Self::MissingFile(_) | Self::NoTracefs => None,
        }
    }
}
