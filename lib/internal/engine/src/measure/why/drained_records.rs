//! Records of the kernel that were read, with the number of lost ones.

use crate::machine::os::NotAvailable;
use crate::measure::why::unavailable::Unavailable;

/// Records of one kind.
#[derive(Debug)]
pub struct DrainedRecords<T> {
    /// The records, or the reason why they are not known.
    pub records: Result<T, Unavailable>,
    /// Number of records that the kernel lost.
    pub lost: u64,
}

impl<T> DrainedRecords<T> {
    /// Creates the result of a recorder. If records of `kind` were lost, the others are not used.
    pub fn new(records: T, lost: u64, kind: &'static str) -> Self {
        let records = match lost {
            0 => Ok(records),
            count => Err(Unavailable::LostRecords { count, kind }),
        };
        Self { records, lost }
    }

    /// Creates the result of a recorder that is not available.
    pub fn unavailable(why: &NotAvailable) -> Self {
        Self { records: Err(why.clone().into()), lost: 0 }
    }
}
