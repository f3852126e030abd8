//! The conditions of the sides of a comparison, which have to be equal.

use cli::exit::{Result, usage};
use files::environment::Difference;

use crate::compare::wording::format_differences;

/// Checks that the conditions of the sides do not differ, unless `force` is set.
pub fn check_differences(differences: &[Difference], force: bool) -> Result<()> {
    if force || differences.is_empty() {
        return Ok(());
    }
    Err(usage!(
        "cannot compare A and B: {}; --force compares them anyway and records a warning",
        format_differences(differences)
    ))
}
