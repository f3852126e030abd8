//! Parts of the records that the kernel writes to a ring.

/// Length of type, flags and size, at the start of every record.
pub(super) const HEADER: usize = 8;
/// Length of process, thread, time and CPU with a reserved word, at the end of every record.
pub(super) const TRAILER: usize = 24;

/// Splits the first record off; `None` if its length is not valid.
pub(super) fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = number::<2>(bytes, 6)? as usize;
    if size < HEADER { None } else { bytes.split_at_checked(size) }
}

pub(super) fn record_kind(record: &[u8]) -> u32 {
    number::<4>(record, 0).unwrap_or(0) as u32
}

/// Returns the time of a record that is not a sample.
pub(super) fn record_time(record: &[u8]) -> Option<u64> {
    let trailer = record.len().checked_sub(TRAILER).filter(|&at| at >= HEADER)?;
    number::<8>(record, trailer + 8)
}

/// Reads a number of `N` bytes in the byte order of this machine.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut word = [0; 8];
    let range = if cfg!(target_endian = "little") { 0..N } else { 8 - N..8 };
    word[range].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_ne_bytes(word))
}
