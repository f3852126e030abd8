//! A line of the table of subjects.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectInfo {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it is, for `osjitter list`.
    pub about: &'static str,
    pub runtime_kind: RuntimeKind,
    /// Whether a run without `--subject` takes it.
    pub default: bool,
}

/// Where a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// As a spawned task of a tokio runtime.
    Tokio,
    /// As a spawned task of a busypoll runtime.
    Busypoll,
    /// On a bare thread.
    Thread,
    /// Nowhere: its rounds are read from a file.
    Script,
}

impl RuntimeKind {
    /// Whether `--runtime` and `--instances` apply.
    pub fn has_runtime(self) -> bool {
        matches!(self, Self::Tokio | Self::Script)
    }
}
