//! Entries of the table of subjects.

/// Static information about a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectInfo {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Description for `osjitter list`.
    pub about: &'static str,
    pub runtime_kind: RuntimeKind,
    /// Whether a run without `--subject` includes it.
    pub default: bool,
}

/// Runtime or thread on which a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A spawned task of a tokio runtime.
    Tokio,
    /// A spawned task of a busypoll runtime.
    Busypoll,
    /// A bare thread.
    Thread,
    /// None: the rounds are read from a file.
    Script,
}

impl RuntimeKind {
    /// Returns whether `--runtime` and `--instances` apply.
    pub fn has_runtime(self) -> bool {
        matches!(self, Self::Tokio | Self::Script)
    }
}
