//! Maps a file as shared memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::calls::{allocate, check_file_size, lock};
use crate::layout::HEADER_WORDS;

/// A mapping of a locked file. The lock is released when the mapping is dropped or the process
/// ends.
#[derive(Debug)]
pub(crate) struct Mapping {
    words: NonNull<AtomicU64>,
    length: usize,
    locked: File,
}

// SAFETY: the mapping is reachable from any thread, belongs to this value alone, and all access is
// atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Locks a new file, gives it a length of `words` words, of which only the header is written, and
    /// maps it.
    ///
    /// The remaining words are a hole without memory. Access to a hole may end the process by a
    /// signal if the file system is full, so it must be allocated first, by
    /// [`reserve`](Self::reserve). A limit of this process is an error now.
    ///
    /// # Errors
    /// Returns an error if the system cannot lock, write or map the file.
    ///
    /// # Safety
    /// The file is empty, and open for reading and writing. As long as the mapping lives, the file
    /// is not truncated, since access beyond its end is a fatal signal, and no other process stores
    /// into it except by atomic operations on whole words.
    pub(crate) unsafe fn new(
        mut file: File,
        header: &[u64; HEADER_WORDS],
        words: usize,
    ) -> io::Result<Self> {
        lock(&file)?;
        let length = words * size_of::<AtomicU64>();
        check_file_size(length)?;
        let mut bytes = [0; HEADER_WORDS * size_of::<u64>()];
        for (bytes, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(header) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        file.write_all(&bytes)?;
        file.set_len(length as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced. The file has this
        // length, because it was just set, and keeps it, as the caller guarantees.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { words: start, length: words, locked: file })
    }

    /// Allocates the memory of all words. The words after the header must not have been stored to:
    /// if the system cannot allocate a part of a file, they are overwritten with zeros.
    ///
    /// # Errors
    /// Returns an error if the system refuses the memory, e.g. because the file system is full.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        const ZEROS: [u8; 4_096] = [0; 4_096];
        let end = self.length * size_of::<AtomicU64>();
        if allocate(&self.locked, end as u64).is_ok() {
            return Ok(());
        }
        for start in (HEADER_WORDS * size_of::<u64>()..end).step_by(ZEROS.len()) {
            let length = ZEROS.len().min(end - start);
            self.locked.write_all_at(&ZEROS[..length], start as u64)?;
        }
        Ok(())
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
        const WORDS: usize = 9_024;
        let path = std::env::temp_dir().join(format!("tickmeter-mapping-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut header = [5; HEADER_WORDS];
        // SAFETY: only this test uses the new file.
        let mapping = unsafe { Mapping::new(file, &header, WORDS) }.unwrap();
        mapping[3].store(7, Ordering::Relaxed);
        mapping.reserve().unwrap();
        mapping[WORDS - 1].store(8, Ordering::Relaxed);
        let other = File::open(&path).unwrap();
        assert!(is_locked(&other));
        header[3] = 7;
        let mut expected = header.to_vec();
        expected.resize(WORDS - 1, 0);
        expected.push(8);
        let expected: Vec<u8> = expected.into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        drop(mapping);
        assert!(!is_locked(&other));
        std::fs::remove_file(path).unwrap();
    }
}
