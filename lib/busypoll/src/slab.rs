//! Pre-allocated memory for tasks. Together with the ring of the channels and the `io_uring`
//! bindings, this file contains the unsafe code of this crate.
//!
//! Invariants, referred to by name below:
//!
//! - **Exclusive**: an address is either in `Pool::free` or owned by exactly one [`Slot`], never
//!   both, never twice.
//! - **Sized**: every slot has `slot_layout.size()` bytes at an address aligned to
//!   `slot_layout.align()`.
//! - **Alive**: chunks are freed by `Pool::drop` only, and every `Slot` keeps its pool alive
//!   through an `Rc`.
//! - **Fixed**: a value in a [`PinnedSlot`] is never moved until it is dropped in place.
//!
//! Neither type is `Send`: both hold an `Rc` and a `NonNull`.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem::{align_of, size_of};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::stage::{ErasedStage, Stage};

/// Alignment of every slot, in bytes. A future with a larger alignment does not fit.
const SLOT_ALIGN: usize = 16;

/// Slots of one size, in chunks that are freed when the pool is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    slot_layout: Layout,
    chunk_slots: usize,
    grows: bool,
    free: RefCell<Vec<NonNull<u8>>>,
    chunks: RefCell<Vec<(NonNull<u8>, Layout)>>,
}

impl Pool {
    /// Allocates the first chunk.
    ///
    /// # Panics
    /// Panics if a size is zero or the chunk is larger than memory can be.
    pub(crate) fn new(slot_bytes: usize, chunk_slots: usize, grows: bool) -> Rc<Self> {
        assert!(
            slot_bytes > 0 && chunk_slots > 0,
            "a slab needs a slot size and a number of slots"
        );
        let slot_layout = Layout::from_size_align(slot_bytes, SLOT_ALIGN)
            .expect("slot size overflows")
            .pad_to_align();
        let pool = Self {
            slot_layout,
            chunk_slots,
            grows,
            free: RefCell::default(),
            chunks: RefCell::default(),
        };
        pool.add_chunk();
        Rc::new(pool)
    }

    fn add_chunk(&self) {
        let size =
            self.slot_layout.size().checked_mul(self.chunk_slots).expect("slab size overflows");
        let layout = Layout::from_size_align(size, SLOT_ALIGN).expect("slab size overflows");
        let mut chunks = self.chunks.borrow_mut();
        let mut free = self.free.borrow_mut();
        chunks.reserve(1);
        // `free` has capacity for every slot, so that freeing a slot never allocates.
        let total = (chunks.len() + 1) * self.chunk_slots;
        let free_slots = free.len();
        free.reserve(total - free_slots);
        // SAFETY: the layout's size is not zero: both factors were checked in `new`.
        let Some(base) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        chunks.push((base, layout));
        for i in (0..self.chunk_slots).rev() {
            // SAFETY: i < chunk_slots, so the offset is inside the allocation just made (Sized).
            free.push(unsafe { base.add(i * self.slot_layout.size()) });
        }
    }

    /// Takes a slot. Returns `None` if all slots are in use and the pool does not grow.
    #[inline]
    pub(crate) fn claim(self: &Rc<Self>) -> Option<Slot> {
        let mut popped = self.free.borrow_mut().pop();
        if popped.is_none() && self.grows {
            self.add_chunk();
            popped = self.free.borrow_mut().pop();
        }
        popped.map(|ptr| Slot { ptr, pool: Rc::clone(self) })
    }

    #[inline]
    fn fits<T>(&self) -> bool {
        size_of::<T>() <= self.slot_layout.size() && align_of::<T>() <= SLOT_ALIGN
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (base, layout) in self.chunks.get_mut().drain(..) {
            // SAFETY: allocated in `add_chunk` with this very layout; no slot is left, each held an
            // `Rc` of the pool (Alive).
            unsafe { dealloc(base.as_ptr(), layout) };
        }
    }
}

/// An empty slot.
#[derive(Debug)]
pub(crate) struct Slot {
    ptr: NonNull<u8>,
    pool: Rc<Pool>,
}

impl Slot {
    /// Moves a future into the slot, in which it stays until it is dropped.
    ///
    /// # Panics
    /// Panics if the future does not fit.
    #[inline]
    pub(crate) fn fill<F: Future<Output: 'static> + 'static>(self, future: F) -> PinnedSlot {
        self.assert_fits::<F>();
        let typed = self.ptr.cast::<Stage<F>>();
        // SAFETY: it fits, as was just asserted (Sized), and the slot has no other owner
        // (Exclusive) and is allocated (Alive).
        unsafe { typed.write(Stage::Running { future }) };
        PinnedSlot { value: typed, _slot: self }
    }

    /// Checks that a future and its output fit the slot.
    ///
    /// # Panics
    /// Panics if they do not.
    #[inline]
    pub(crate) fn assert_fits<F: Future>(&self) {
        assert!(self.pool.fits::<Stage<F>>(), "the future is larger than a slot of the slab");
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.free.borrow_mut().push(self.ptr);
    }
}

/// A slot that contains a task.
pub(crate) struct PinnedSlot {
    value: NonNull<dyn ErasedStage>,
    /// Dropped after the destructor below, which drops the value.
    _slot: Slot,
}

impl PinnedSlot {
    #[inline]
    pub(crate) fn as_mut(&mut self) -> Pin<&mut dyn ErasedStage> {
        // SAFETY: `fill` wrote a value there, no other code has the address (Exclusive), and it is
        // never moved (Fixed).
        unsafe { Pin::new_unchecked(self.value.as_mut()) }
    }
}

impl Drop for PinnedSlot {
    fn drop(&mut self) {
        // SAFETY: the value is there since `fill`, and dropped only here, once; the slot is freed
        // afterwards even if this unwinds, since fields are dropped then too.
        unsafe { self.value.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    //! The tests are small enough for Miri.
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use super::Pool;
    use crate::stage::JoinError;

    #[test]
    fn slots_run_futures_and_are_reused() {
        let pool = Pool::new(256, 2, true);
        let alive = Rc::new(());
        for round in 0..3 {
            let mut tasks: Vec<_> = (0..5_u64)
                .map(|i| {
                    let held = Rc::clone(&alive);
                    let future = async move {
                        // The future borrows from itself across an await, so its address must not
                        // change.
                        let number = i;
                        let borrowed = &number;
                        let mut first = true;
                        std::future::poll_fn(|_| {
                            if std::mem::replace(&mut first, false) {
                                Poll::Pending
                            } else {
                                Poll::Ready(())
                            }
                        })
                        .await;
                        drop(held);
                        *borrowed
                    };
                    pool.claim().unwrap().fill(future)
                })
                .collect();
            let mut cx = Context::from_waker(Waker::noop());
            for (i, task) in tasks.iter_mut().enumerate() {
                assert!(task.as_mut().poll(&mut cx).is_pending());
                if i != 4 {
                    assert!(task.as_mut().poll(&mut cx).is_ready());
                    let mut out: Poll<Result<u64, JoinError>> = Poll::Pending;
                    task.as_mut().take_result(&mut out);
                    assert!(matches!(out, Poll::Ready(Ok(n)) if n == i as u64), "round {round}");
                }
            }
            drop(tasks);
            assert_eq!(Rc::strong_count(&alive), 1, "a future was dropped not at all or twice");
        }
        assert_eq!(pool.chunks.borrow().len(), 3, "slots that came back were not used again");
    }

    #[test]
    fn slot_outlives_pool_handle() {
        let pool = Pool::new(64, 1, false);
        let slot = pool.claim().unwrap();
        assert!(pool.claim().is_none());
        drop(pool);
        let task = slot.fill(std::future::ready(1));
        drop(task);
    }

    #[test]
    #[should_panic(expected = "larger than a slot")]
    fn oversized_future_is_rejected() {
        let big = [0_u8; 300];
        let future = async move {
            std::future::ready(()).await;
            big.len()
        };
        drop(Pool::new(64, 1, false).claim().unwrap().fill(future));
    }
}
