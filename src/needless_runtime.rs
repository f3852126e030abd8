//! The flag `--runtime` without a subject that has a runtime.

use cli::exit::{self, usage};
use engine::scenario::Runtime;

use crate::settings::is_from_file;

/// Checks that a runtime is for a subject. That of a project is a default, for which not every command
/// has a use, and the usual one changes nothing.
///
/// # Errors
/// Returns an error if another runtime is given, and no subject has one.
pub fn check(runtimes: &[Runtime], has_tokio_subject: bool) -> exit::Result<()> {
    let is_other = |runtime: &Runtime| *runtime != Runtime::CurrentThread;
    match !has_tokio_subject && runtimes.iter().any(is_other) && !is_from_file("--runtime") {
        true => Err(usage!("--runtime is for tokio subjects, and there is none")),
        false => Ok(()),
    }
}
