//! Maps a file as shared memory.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A mapping of a locked file. The lock is released when the mapping is dropped or the process
/// ends.
#[derive(Debug)]
pub(crate) struct Mapping {
    words: NonNull<AtomicU64>,
    length: usize,
    _locked: File,
}

// SAFETY: the mapping is reachable from any thread, belongs to this value alone, and all access is
// atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` words from the start of a file.
    ///
    /// The file must not be truncated later, since access beyond its end is a fatal signal. Only
    /// its owner and root can do that, and the owner only after a change of its mode.
    ///
    /// # Errors
    /// Returns an error if the file is shorter than that, or if the system cannot map it.
    pub(crate) fn new(file: File, length: usize) -> io::Result<Self> {
        let bytes = length * size_of::<AtomicU64>();
        if file.metadata()?.len() < bytes as u64 || bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced; the descriptor is
        // open.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast()) {
            Some(words) if start != libc::MAP_FAILED => Ok(Self { words, length, _locked: file }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Deref for Mapping {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `words` begins a mapping of `length` words, aligned to a page, that lives as long
        // as `self`. Any bits are an `AtomicU64`, and what another process stores there is stored
        // through a mapping of its own.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this start and length, and no reference into it outlives
        // `self`.
        let unmapped = unsafe {
            libc::munmap(self.words.as_ptr().cast(), self.length * size_of::<AtomicU64>())
        };
        debug_assert_eq!(unmapped, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{is_locked, lock};
    use std::sync::atomic::Ordering;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no shared mappings")]
    fn stores_reach_the_file() {
        let path = std::env::temp_dir().join(format!("tickmeter-mapping-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        assert!(
            Mapping::new(file.try_clone().unwrap(), 4).is_err(),
            "mapped beyond the end of the file"
        );
        file.set_len(32).unwrap();
        lock(&file).unwrap();
        let mapping = Mapping::new(file, 4).unwrap();
        mapping[3].store(7, Ordering::Relaxed);
        let other = File::open(&path).unwrap();
        assert!(is_locked(&other));
        assert_eq!(std::fs::read(&path).unwrap()[24..], 7_u64.to_ne_bytes());
        drop(mapping);
        assert!(!is_locked(&other));
        std::fs::remove_file(path).unwrap();
    }
}
