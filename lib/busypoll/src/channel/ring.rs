//! A bounded queue with one consumer, and with one producer or many. It exists because `mpsc` over
//! crossbeam's `ArrayQueue` is slower, and `spsc` over `rtrb`, as measured by
//! `cargo bench -p busypoll --bench queues`. This file contains unsafe code.
//!
//! A producer claims a position by advancing `tail`, writes its value into the position's slot, and
//! stamps the slot with the position. The consumer reads only the slot of position `head` and takes
//! the value if the stamp matches that position. Then it advances `head`, which frees the slot for
//! the position one lap later.
//!
//! Invariants, referred to by name below:
//!
//! - **Claimed**: positions from `head` to `tail` are claimed, each by one producer, and there are
//!   never more of them than the capacity, which is at most the number of slots. So no two claimed
//!   positions share a slot.
//! - **Stamped**: the producer that claimed a position stamps its slot with it, once, after the
//!   value is written.
//! - **Sole**: a ring with a [`SoleProducer`] has no other producer, and it adds values through
//!   `&mut`. No other thread advances `tail`, so it claims by a swap, without contention.
//! - **Single**: there is one [`Consumer`], and it takes values through `&mut`. No other thread
//!   advances `head`.
//!
//! Both `tail` and `head` are advanced by a sequentially consistent read-modify-write. A waiter
//! also announces itself by such an operation, then checks the other side's index by a sequentially
//! consistent load. Either it sees that the index has advanced, or the thread that advances the
//! index, which checks for waiters afterwards, sees the waiter.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::cache_padded::CachePadded;
use crate::sync::{AtomicUsize, Ordering, UnsafeCell, loom_fence};

/// The queue, and the state that its producers and its consumer share.
struct Ring<T, S> {
    producers: CachePadded<Producers>,
    head: CachePadded<AtomicUsize>,
    capacity: usize,
    slots: Box<[Slot<T>]>,
    shared: S,
}

pub(crate) struct Producer<T, S>(Arc<Ring<T, S>>);

pub(crate) struct SoleProducer<T, S>(Producer<T, S>);

pub(crate) struct Consumer<T, S>(Arc<Ring<T, S>>);

struct Producers {
    tail: AtomicUsize,
    /// A recent value of the consumer's `head`, which saves most pushes an access to its cache
    /// line.
    head: AtomicUsize,
}

struct Slot<T> {
    /// One more than the last position whose value was written here.
    stamp: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the producer that claimed a position writes its value, and the consumer reads it after
// the stamp, which releases and acquires (Claimed, Stamped, Single): values move between threads,
// and are never shared.
unsafe impl<T: Send, S: Sync> Sync for Ring<T, S> {}

/// Creates a queue for up to `capacity` values.
///
/// # Panics
/// Panics if the capacity is zero, or larger than memory.
pub(crate) fn ring<T, S>(capacity: usize, shared: S) -> (Producer<T, S>, Consumer<T, S>) {
    let ring = Arc::new(Ring::new(capacity, shared));
    (Producer(Arc::clone(&ring)), Consumer(ring))
}

/// Creates a queue like [`ring`], but with a producer that cannot be cloned.
///
/// # Panics
/// Panics in the same cases as [`ring`].
pub(crate) fn sole_ring<T, S>(capacity: usize, shared: S) -> (SoleProducer<T, S>, Consumer<T, S>) {
    let (producer, consumer) = ring(capacity, shared);
    (SoleProducer(producer), consumer)
}

impl<T, S> Ring<T, S> {
    fn new(capacity: usize, shared: S) -> Self {
        assert!(capacity > 0, "a channel needs a capacity of at least 1");
        let slots =
            capacity.checked_next_power_of_two().expect("the capacity is larger than memory");
        let slot =
            |_| Slot { stamp: AtomicUsize::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) };
        Self {
            producers: CachePadded(Producers {
                tail: AtomicUsize::new(0),
                head: AtomicUsize::new(0),
            }),
            head: CachePadded(AtomicUsize::new(0)),
            capacity,
            slots: (0..slots).map(slot).collect(),
            shared,
        }
    }

    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Claims a position for the caller. Returns `None` if the ring is full.
    #[inline]
    fn claim(&self) -> Option<usize> {
        let Producers { tail, head } = &self.producers.0;
        // `head` is read before `tail`: a thread that sees an emptied position also sees its claim,
        // so `tail` is not below `head`.
        let mut emptied = head.load(Ordering::Acquire);
        let mut claimed = tail.load(Ordering::Relaxed);
        loop {
            if claimed.wrapping_sub(emptied) >= self.capacity {
                emptied = self.refresh_head();
                claimed = tail.load(Ordering::Relaxed);
                if claimed.wrapping_sub(emptied) >= self.capacity {
                    return None;
                }
            }
            match tail.compare_exchange_weak(
                claimed,
                claimed.wrapping_add(1),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    loom_fence();
                    return Some(claimed);
                }
                Err(other) => claimed = other,
            }
        }
    }

    /// Reads the position of the consumer and records it for the next push. After a wait for
    /// capacity has been announced, this sees all slots that were emptied before the announcement.
    fn refresh_head(&self) -> usize {
        loom_fence();
        let emptied = self.head.0.load(Ordering::SeqCst);
        self.producers.0.head.store(emptied, Ordering::Release);
        emptied
    }

    /// Writes the value of a position.
    ///
    /// # Safety
    /// The caller has claimed the position, and writes it once.
    #[inline]
    unsafe fn write(&self, position: usize, value: T) {
        let slot = self.slot(position);
        slot.value.with_mut(|slot| {
            // SAFETY: the position is the caller's, and no other claimed one has this slot
            // (Claimed); the consumer, which emptied it a lap ago, does not read it before the
            // stamp below.
            unsafe { (*slot).write(value) };
        });
        slot.stamp.store(position.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest value. Returns `None` if there is none, or if its producer has not written
    /// it yet.
    ///
    /// # Safety
    /// Must never be called from two threads at the same time (Single).
    #[inline]
    unsafe fn pop(&self) -> Option<T> {
        let position = self.head.0.load(Ordering::Relaxed);
        let slot = self.slot(position);
        if slot.stamp.load(Ordering::Acquire) != position.wrapping_add(1) {
            return None;
        }
        let value = slot.value.with(|slot| {
            // SAFETY: the stamp proves that this position's value was written (Stamped), and only
            // the consumer takes it (Single): once, since `head` advances.
            unsafe { (*slot).assume_init_read() }
        });
        self.head.0.swap(position.wrapping_add(1), Ordering::SeqCst);
        loom_fence();
        Some(value)
    }
}

impl<T, S> Producer<T, S> {
    /// Adds a value, or returns it if the ring is full.
    #[inline]
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let Some(position) = self.0.claim() else { return Err(value) };
        // SAFETY: this producer has just claimed the position and writes it once.
        unsafe { self.0.write(position, value) };
        Ok(())
    }

    pub(crate) fn shared(&self) -> &S {
        &self.0.shared
    }
}

impl<T, S> SoleProducer<T, S> {
    /// Adds a value, or returns it if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let ring = &*self.0.0;
        let Producers { tail, head } = &ring.producers.0;
        let position = tail.load(Ordering::Relaxed);
        if position.wrapping_sub(head.load(Ordering::Acquire)) >= ring.capacity
            && position.wrapping_sub(ring.refresh_head()) >= ring.capacity
        {
            return Err(value);
        }
        // `tail` is advanced before the value is written. In the other order, the swap would wait
        // until the slot has returned from the consumer's cache.
        tail.swap(position.wrapping_add(1), Ordering::SeqCst);
        loom_fence();
        // SAFETY: this producer has just claimed the position (Sole) and writes it once.
        unsafe { ring.write(position, value) };
        Ok(())
    }

    pub(crate) fn shared(&self) -> &S {
        self.0.shared()
    }
}

impl<T, S> Clone for Producer<T, S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, S> Consumer<T, S> {
    /// Takes the oldest value. Returns `None` if there is none, or if its producer has not written
    /// it yet.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // SAFETY: there is one consumer, and it is borrowed mutably (Single).
        unsafe { self.0.pop() }
    }

    /// Returns whether no position is claimed. For a consumer that has announced that it waits.
    pub(crate) fn is_unclaimed(&self) -> bool {
        loom_fence();
        self.0.producers.0.tail.load(Ordering::SeqCst) == self.0.head.0.load(Ordering::Relaxed)
    }

    pub(crate) fn shared(&self) -> &S {
        &self.0.shared
    }
}

impl<T, S> Drop for Ring<T, S> {
    fn drop(&mut self) {
        // SAFETY: no other consumer is left (Single), and every claimed position was stamped:
        // `push` does not end in between.
        while let Some(value) = unsafe { self.pop() } {
            drop(value);
        }
    }
}

impl<T, S: fmt::Debug> fmt::Debug for Producer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.shared.fmt(f)
    }
}

impl<T, S: fmt::Debug> fmt::Debug for SoleProducer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, S: fmt::Debug> fmt::Debug for Consumer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.shared.fmt(f)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::ring;

    /// Checks that every value arrives once, and those of each producer in order, through several
    /// laps and with a full ring.
    fn check_all_values_arrive(producers: u32, each: u32, capacity: usize, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.max_branches = 10_000;
        model.check(move || {
            let (producer, mut consumer) = ring::<Box<u32>, ()>(capacity, ());
            let threads: Vec<_> = (0..producers)
                .map(|p| {
                    let producer = producer.clone();
                    loom::thread::spawn(move || {
                        for i in 0..each {
                            let mut value = Box::new(p * each + i);
                            while let Err(back) = producer.push(value) {
                                value = back;
                                loom::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let mut got = Vec::new();
            while got.len() < (producers * each) as usize {
                match consumer.pop() {
                    Some(value) => got.push(*value),
                    None => loom::thread::yield_now(),
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
            for p in 0..producers {
                assert!(got.iter().copied().filter(|v| v / each == p).eq(p * each..(p + 1) * each));
            }
            // The ring drops the remaining value.
            assert!(producer.push(Box::new(0)).is_ok());
        });
    }

    #[test]
    fn one_producer_wraps_around() {
        check_all_values_arrive(1, 3, 1, 3);
        check_all_values_arrive(1, 3, 2, 3);
    }

    #[test]
    fn two_producers_claim_distinct_slots() {
        check_all_values_arrive(2, 1, 1, 2);
        check_all_values_arrive(2, 1, 2, 3);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;

    use super::ring;

    #[test]
    fn ring_respects_capacity_and_drops_values() {
        let alive = Rc::new(());
        for capacity in [1, 2, 3, 5, 8] {
            let (producer, mut consumer) = ring(capacity, ());
            for lap in 0..5 {
                for i in 0..capacity {
                    assert!(
                        producer.push((i, Rc::clone(&alive))).is_ok(),
                        "lap {lap} of {capacity}"
                    );
                }
                assert!(producer.push((capacity, Rc::clone(&alive))).is_err());
                for i in 0..capacity {
                    assert_eq!(consumer.pop().map(|(n, _)| n), Some(i));
                }
                assert!(consumer.pop().is_none() && consumer.is_unclaimed());
                // One more value, so that the next lap begins at another slot.
                assert!(producer.push((0, Rc::clone(&alive))).is_ok() && consumer.pop().is_some());
            }
            assert!(producer.push((0, Rc::clone(&alive))).is_ok() && !consumer.is_unclaimed());
            drop((producer, consumer));
            assert_eq!(Rc::strong_count(&alive), 1);
        }
    }
}
