//! Interruption of rounds whose next tick is far in the future.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::subject::sliced_wait;

/// Wakers of the waiting loops, with the rounds to which they belong.
static WAITING: Mutex<Vec<(LongWait, Waker)>> = Mutex::new(Vec::new());

/// A round whose ticks are so far apart that an interrupt must end it before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait(u64);

/// An interrupt ended the wait for a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl LongWait {
    /// Registers a round. Returns `None` if the period is short.
    pub fn begin(period: Duration) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::applies(period).then(|| Self(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns whether an interrupt must not wait for the next tick of this period.
    pub fn applies(period: Duration) -> bool {
        period >= sliced_wait::MIN_LONG_PERIOD
    }

    /// Registers the waker of a loop. Ready if `stop` is set.
    pub fn poll_interrupted(self, stop: &AtomicBool, cx: &Context<'_>) -> Poll<Interrupted> {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|(round, waker)| *round == self && waker.will_wake(cx.waker())) {
            waiting.push((self, cx.waker().clone()));
        }
        drop(waiting);
        // Read the flag after registering the waker: an interrupt either wakes it or is seen here.
        if stop.load(Ordering::SeqCst) { Poll::Ready(Interrupted) } else { Poll::Pending }
    }

    /// Removes the wakers of the round.
    pub fn end(self) {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).retain(|(round, _)| *round != self);
    }
}

/// Wakes all waiting loops. Set their stop flags first.
pub fn wake_all() {
    let waiting = std::mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner));
    for (_, waker) in waiting {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn interrupts_wake_waiting_rounds() {
        assert_eq!(LongWait::begin(Duration::from_millis(999)), None);
        let rounds = [(); 2].map(|()| LongWait::begin(Duration::from_secs(1)).unwrap());
        let (stop, counts) =
            (AtomicBool::new(false), [(); 2].map(|()| Arc::new(WakeCounter(AtomicUsize::new(0)))));
        let wakers = counts.clone().map(Waker::from);
        for (round, waker) in rounds.iter().zip(&wakers) {
            let cx = Context::from_waker(waker);
            // A loop that is polled twice is woken once.
            assert_eq!(
                [(); 2].map(|()| round.poll_interrupted(&stop, &cx)),
                [Poll::Pending, Poll::Pending]
            );
        }
        rounds[0].end();
        stop.store(true, Ordering::SeqCst);
        wake_all();
        assert_eq!(counts.map(|c| c.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!(
            rounds[1].poll_interrupted(&stop, &Context::from_waker(&wakers[1])),
            Poll::Ready(Interrupted)
        );
        rounds[1].end();
    }
}
