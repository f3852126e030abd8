//! Allocations of the process, counted only while somebody asks: otherwise one load more than the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, with a counter that can be switched on.
#[derive(Debug)]
pub struct Counted;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn note(count: u64, bytes: i64) {
    if ON.load(Ordering::Relaxed) {
        COUNT.fetch_add(count, Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn size(layout: Layout) -> i64 {
    // A layout's size fits an isize.
    layout.size() as i64
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, size(layout));
        // SAFETY: the caller's promises are exactly those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, size(layout));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -size(layout));
        // SAFETY: as above; the block came from `System`, because every allocation does.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, new_size as i64 - size(layout));
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// Starts counting from zero.
pub fn start() {
    COUNT.store(0, Ordering::Relaxed);
    BYTES.store(0, Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
}

/// Stops counting: allocations since the start, and bytes that were allocated and not given back.
pub fn stop() -> (u64, i64) {
    ON.store(false, Ordering::Relaxed);
    (COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}
