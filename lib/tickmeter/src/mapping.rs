//! Maps a file as shared memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::calls::{check_file_size, lock};

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
    /// Locks a new file, fills it with `words`, and maps it.
    ///
    /// The file is written rather than left as a hole: a full file system is an error now instead
    /// of a fatal signal later, and so is a limit of this process.
    ///
    /// # Errors
    /// Returns an error if the system cannot lock, write or map the file.
    ///
    /// # Safety
    /// The file is empty, and open for reading and writing. As long as the mapping lives, the file
    /// is not truncated, since access beyond its end is a fatal signal, and no other process stores
    /// into it except by atomic operations on whole words.
    pub(crate) unsafe fn new(mut file: File, words: &[u64]) -> io::Result<Self> {
        lock(&file)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        check_file_size(bytes.len())?;
        file.write_all(&bytes)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced. The file has this
        // length, because it was just written, and keeps it, as the caller guarantees.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes.len(), access, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { words: start, length: words.len(), _locked: file })
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
        let unmapped =
            unsafe { munmap(self.words.as_ptr().cast(), self.length * size_of::<AtomicU64>()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::is_locked;
    use std::sync::atomic::Ordering;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no shared mappings")]
    fn stores_reach_the_file() {
        let path = std::env::temp_dir().join(format!("tickmeter-mapping-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        // SAFETY: only this test uses the new file.
        let mapping = unsafe { Mapping::new(file, &[1, 2, 3, 4]) }.unwrap();
        mapping[3].store(7, Ordering::Relaxed);
        let other = File::open(&path).unwrap();
        assert!(is_locked(&other));
        let expected: Vec<u8> = [1_u64, 2, 3, 7].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        drop(mapping);
        assert!(!is_locked(&other));
        std::fs::remove_file(path).unwrap();
    }
}
