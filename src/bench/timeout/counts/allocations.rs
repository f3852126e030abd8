//! Counts the allocations of a program with a counting allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

/// The system's allocator with two counters.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: both calls are passed on unchanged to the system's allocator, which keeps the contract;
// counting neither allocates nor unwinds. The other methods' defaults are made of these two, and so
// are counted as well.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // A layout's size fits an isize.
        BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are exactly those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as above; the block came from `System`, because every allocation does.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns the number of allocations so far, and the number of allocated bytes.
pub fn counts() -> (u64, i64) {
    (COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}
