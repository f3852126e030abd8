//! Records of the kernel that were read, with the number of lost ones.

use crate::machine::os::NotAvailable;

/// Records of one kind.
#[derive(Debug)]
pub struct DrainedRecords<T> {
    /// The records, or the reason why they are not known.
    pub records: Result<T, String>,
    /// Number of records that the kernel lost.
    pub lost: u64,
}

impl<T> DrainedRecords<T> {
    /// Creates the result of a recorder. If records of `kind` were lost, the others are not used.
    pub fn new(records: T, lost: u64, kind: &str) -> Self {
        Self { records: if lost == 0 { Ok(records) } else { Err(explain_loss(lost, kind)) }, lost }
    }

    /// Creates the result of a recorder that is not available.
    pub fn unavailable(why: &NotAvailable) -> Self {
        Self { records: Err(why.to_string()), lost: 0 }
    }
}

/// Returns the reason why an incomplete record cannot be used.
pub fn explain_loss(lost: u64, kind: &str) -> String {
    format!("the kernel's buffer was too small: {lost} {kind} were lost")
}
