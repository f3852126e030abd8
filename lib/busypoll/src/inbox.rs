//! What another thread sees of a runtime: a queue, and whether it must be woken.
//!
//! The protocol is that of every sleeping consumer. A producer first makes its item visible, then looks whether the
//! consumer is parked; the consumer first says that it parks, then looks whether there is an item. Every access to the
//! flag is a read-modify-write that acquires and releases, so all of them form one chain: a producer's either comes
//! before the consumer's, which then sees the item, or after it, and then the producer, or another one that came
//! between, finds the flag up and wakes. Only that one makes the system call, so a storm of wakes costs one.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(loom))]
use crossbeam_queue::SegQueue as Queue;
#[cfg(loom)]
use model::Queue;

#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: Queue<T>,
    parked: AtomicBool,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self { queue: Queue::new(), parked: AtomicBool::new(false) }
    }

    /// Adds an item. True if the consumer is parked and it is up to the caller to unpark it.
    #[must_use]
    pub(crate) fn push(&self, item: T) -> bool {
        self.queue.push(item);
        self.parked.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.queue.pop()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Says that the consumer parks. False if there is an item: then it must not.
    #[must_use]
    pub(crate) fn prepare_park(&self) -> bool {
        self.parked.swap(true, Ordering::AcqRel);
        if self.is_empty() {
            return true;
        }
        self.unparked();
        false
    }

    /// Says that the consumer is awake again, by whatever cause.
    pub(crate) fn unparked(&self) {
        self.parked.swap(false, Ordering::AcqRel);
    }
}

#[cfg(loom)]
mod model {
    //! A stand-in for the queue, whose own correctness is its crate's affair.
    use loom::sync::Mutex;
    use std::collections::VecDeque;

    #[derive(Debug)]
    pub(crate) struct Queue<T>(Mutex<VecDeque<T>>);

    impl<T> Queue<T> {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(VecDeque::new()))
        }
        pub(crate) fn push(&self, item: T) {
            self.0.lock().unwrap().push_back(item);
        }
        pub(crate) fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }
        pub(crate) fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }
        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Inbox;
    use loom::sync::{Arc, Condvar, Mutex};

    /// Stands for the eventfd: keeps a signal until it is waited for.
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

    fn consume(producers: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        // With two producers the unbounded model does not end within minutes.
        model.preemption_bound = preemptions;
        model.check(move || {
            let inbox = Arc::new(Inbox::new());
            let signal = Arc::new(Signal(Mutex::new(false), Condvar::new()));
            let threads: Vec<_> = (0..producers)
                .map(|i| {
                    let (inbox, signal) = (Arc::clone(&inbox), Arc::clone(&signal));
                    loom::thread::spawn(move || {
                        if inbox.push(i) {
                            signal.raise();
                        }
                    })
                })
                .collect();
            let mut got = 0;
            // A lost wake would leave the consumer in `wait` for ever, which loom reports as a deadlock.
            while got < producers {
                if inbox.pop().is_some() {
                    got += 1;
                } else if inbox.prepare_park() {
                    signal.wait();
                    inbox.unparked();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(inbox.is_empty());
        });
    }

    #[test]
    fn no_wake_is_lost_with_one_producer() {
        consume(1, None);
    }

    #[test]
    fn no_wake_is_lost_with_two_producers() {
        consume(2, Some(3));
    }
}
