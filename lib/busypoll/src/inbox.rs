//! The part of a runtime that other threads access: a queue of the tasks that they wake, and a flag
//! that shows whether to unpark the runtime's thread.
//!
//! # The ring
//!
//! The number of a task goes into the next slot of a ring. A producer claims the slot by advancing
//! `tail`, then writes into it. The single consumer reads only the slot at `head`. Each number thus
//! moves one cache line from the producer to the consumer, and a consumer that finds nothing has
//! read one word that no thread writes. A full ring overflows into an unbounded queue, since there
//! may be as many numbers as there are tasks.
//!
//! The ring exists because crossbeam's `SegQueue` alone is slower, as measured by
//! `cargo bench -p busypoll --bench queues`.
//!
//! # Parking
//!
//! The protocol is the usual one for a sleeping consumer. A producer first publishes its number,
//! then checks whether the consumer is parked. The consumer first announces that it parks, then
//! checks whether there is a number.
//!
//! Every access to the flag is a read-modify-write that acquires and releases, so all accesses form
//! one chain. If a producer's access precedes the consumer's, the consumer sees the number. If it
//! follows, this producer or another one in between finds the flag set and unparks the consumer.
//! Only that producer makes the system call, so a storm of wakes costs a single call.

use crate::cache_padded::CachePadded;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, SegQueue};

/// Number of slots in the ring, a power of two.
const SLOTS: usize = if cfg!(loom) { 2 } else { 256 };
/// Content of an empty slot. No task has this number.
const EMPTY: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Inbox {
    /// Slots claimed so far.
    tail: CachePadded<Producers>,
    /// Slots emptied so far. Only the consumer writes this.
    head: CachePadded<AtomicUsize>,
    slots: Box<[AtomicU64]>,
    /// Numbers in `overflow`, incremented after a push and decremented before a pop.
    overflowed: CachePadded<AtomicUsize>,
    overflow: SegQueue<u64>,
    parked: CachePadded<AtomicBool>,
}

#[derive(Debug)]
struct Producers {
    tail: AtomicUsize,
    /// A recent value of the consumer's `head`, which saves most pushes an access to its cache
    /// line.
    head: AtomicUsize,
}

impl Inbox {
    /// Maximum number of numbers that the consumer should take at once.
    pub(crate) const BATCH_SIZE: usize = SLOTS;

    pub(crate) fn new() -> Self {
        Self {
            tail: CachePadded(Producers { tail: AtomicUsize::new(0), head: AtomicUsize::new(0) }),
            head: CachePadded(AtomicUsize::new(0)),
            slots: (0..SLOTS).map(|_| AtomicU64::new(EMPTY)).collect(),
            overflowed: CachePadded(AtomicUsize::new(0)),
            overflow: SegQueue::new(),
            parked: CachePadded(AtomicBool::new(false)),
        }
    }

    /// Adds a number other than [`EMPTY`]. Returns true if the consumer is parked and the caller
    /// must unpark it.
    #[must_use]
    pub(crate) fn push(&self, number: u64) -> bool {
        debug_assert_ne!(number, EMPTY);
        match self.claim() {
            Some(slot) => slot.store(number, Ordering::Release),
            None => {
                self.overflow.push(number);
                self.overflowed.0.fetch_add(1, Ordering::Release);
            }
        }
        self.parked.0.swap(false, Ordering::AcqRel)
    }

    /// Claims an empty slot for the caller. Returns `None` if the ring is full.
    fn claim(&self) -> Option<&AtomicU64> {
        let Producers { tail, head } = &self.tail.0;
        // `head` is read before `tail`: a thread that sees an emptied slot also sees its claim, so
        // `tail` is not below `head`.
        let mut emptied = head.load(Ordering::Acquire);
        let mut claimed = tail.load(Ordering::Relaxed);
        loop {
            if claimed.wrapping_sub(emptied) >= SLOTS {
                emptied = self.head.0.load(Ordering::Acquire);
                head.store(emptied, Ordering::Release);
                claimed = tail.load(Ordering::Relaxed);
                if claimed.wrapping_sub(emptied) >= SLOTS {
                    return None;
                }
            }
            match tail.compare_exchange_weak(
                claimed,
                claimed.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                // The slot is empty and this thread sees that, since fewer than `SLOTS` slots were
                // claimed after it was emptied.
                Ok(_) => return Some(&self.slots[claimed % SLOTS]),
                Err(other) => claimed = other,
            }
        }
    }

    /// Takes a number. Only the consumer may call this.
    #[inline]
    pub(crate) fn pop(&self) -> Option<u64> {
        let head = self.head.0.load(Ordering::Relaxed);
        let slot = &self.slots[head % SLOTS];
        let number = slot.load(Ordering::Acquire);
        if number != EMPTY {
            slot.store(EMPTY, Ordering::Relaxed);
            self.head.0.store(head.wrapping_add(1), Ordering::Release);
            return Some(number);
        }
        if self.overflowed.0.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.overflowed.0.fetch_sub(1, Ordering::Relaxed);
        self.overflow.pop()
    }

    /// Returns whether there is nothing to take. Only the consumer may call this.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.0.load(Ordering::Relaxed);
        self.slots[head % SLOTS].load(Ordering::Acquire) == EMPTY
            && self.overflowed.0.load(Ordering::Acquire) == 0
    }

    /// Returns how many numbers were added and not taken. Only the consumer may call this.
    pub(crate) fn len(&self) -> usize {
        let head = self.head.0.load(Ordering::Relaxed);
        let tail = self.tail.0.tail.load(Ordering::Relaxed);
        tail.wrapping_sub(head) + self.overflowed.0.load(Ordering::Acquire)
    }

    /// Announces that the consumer parks. Returns false if there is a number to take: the consumer
    /// must not park then.
    #[must_use]
    pub(crate) fn prepare_park(&self) -> bool {
        self.parked.0.swap(true, Ordering::AcqRel);
        if self.is_empty() {
            return true;
        }
        self.mark_unparked();
        false
    }

    /// Records that the consumer is awake again.
    pub(crate) fn mark_unparked(&self) {
        self.parked.0.swap(false, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Inbox;
    use loom::sync::{Arc, Condvar, Mutex};

    /// Replaces the eventfd: keeps a signal until the consumer waits for it.
    struct Signal(Mutex<bool>, Condvar);

    impl Signal {
        fn raise(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }
        fn wait(&self) {
            let mut raised = self.0.lock().unwrap();
            while !*raised {
                raised = self.1.wait(raised).unwrap();
            }
            *raised = false;
        }
    }

    /// Checks that every number arrives if each producer pushes `each` numbers.
    fn check_no_wake_lost(producers: u64, each: u64, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        // With two producers, the unbounded model takes more than several minutes.
        model.preemption_bound = preemptions;
        model.check(move || {
            let inbox = Arc::new(Inbox::new());
            let signal = Arc::new(Signal(Mutex::new(false), Condvar::new()));
            let threads: Vec<_> = (0..producers)
                .map(|i| {
                    let (inbox, signal) = (Arc::clone(&inbox), Arc::clone(&signal));
                    loom::thread::spawn(move || {
                        for k in 0..each {
                            if inbox.push(i * each + k) {
                                signal.raise();
                            }
                        }
                    })
                })
                .collect();
            let mut got = Vec::new();
            // A lost wake would leave the consumer in `wait` forever, which loom reports as a
            // deadlock.
            while (got.len() as u64) < producers * each {
                if let Some(number) = inbox.pop() {
                    got.push(number);
                } else if inbox.prepare_park() {
                    signal.wait();
                    inbox.mark_unparked();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
            got.sort_unstable();
            assert!(
                inbox.is_empty() && got.into_iter().eq(0..producers * each),
                "each number comes once"
            );
        });
    }

    #[test]
    fn one_producer_loses_no_wake() {
        check_no_wake_lost(1, 2, None);
    }

    #[test]
    fn two_producers_lose_no_wake() {
        check_no_wake_lost(2, 1, Some(3));
    }

    #[test]
    fn full_ring_overflows_without_loss() {
        check_no_wake_lost(1, 4, Some(3));
        check_no_wake_lost(2, 2, Some(2));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Inbox, SLOTS};

    #[test]
    fn overflow_keeps_all_numbers_in_order() {
        let inbox = Inbox::new();
        let numbers = 0..SLOTS as u64 + 3;
        for round in 0..3 {
            assert!(inbox.is_empty() && inbox.pop().is_none(), "round {round}");
            assert!(numbers.clone().all(|number| !inbox.push(number)));
            let taken: Vec<u64> = std::iter::from_fn(|| inbox.pop()).collect();
            assert!(taken.into_iter().eq(numbers.clone()), "round {round}");
        }
    }

    #[test]
    fn parked_consumer_is_unparked_once() {
        let inbox = Inbox::new();
        assert!(inbox.prepare_park());
        assert!(inbox.push(1) && !inbox.push(2));
        assert_eq!((inbox.pop(), inbox.pop(), inbox.pop()), (Some(1), Some(2), None));
        assert!(inbox.prepare_park());
        inbox.mark_unparked();
        assert!(!inbox.push(3));
    }

    #[test]
    fn park_is_refused_with_pending_number() {
        let inbox = Inbox::new();
        assert!(inbox.prepare_park());
        assert!(inbox.push(1));
        assert!(!inbox.prepare_park());
        assert!(!inbox.push(2), "a refused park needs no unpark");
    }
}
