//! Rounds that wait for a tick that is far off, and an interrupt that must not wait with them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::subject::sliced_wait;

/// Who is to be woken, and of which round.
static WAITING: Mutex<Vec<(LongWait, Waker)>> = Mutex::new(Vec::new());

/// A round whose ticks are so far apart that an interrupt ends it before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait(u64);

/// A round was to end before its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl LongWait {
    /// `None` where the next tick comes soon enough.
    pub fn begin(period: Duration) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        (period >= sliced_wait::MIN_LONG_PERIOD).then(|| Self(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Leaves the waker to the interrupt; ready if that has come.
    pub fn or_interrupted(self, stop: &AtomicBool, cx: &Context<'_>) -> Poll<Interrupted> {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|(round, waker)| *round == self && waker.will_wake(cx.waker())) {
            waiting.push((self, cx.waker().clone()));
        }
        drop(waiting);
        // After the waker is there: it is woken, or sees the flag.
        if stop.load(Ordering::SeqCst) { Poll::Ready(Interrupted) } else { Poll::Pending }
    }

    /// Nothing of it is left to wake.
    pub fn end(self) {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).retain(|(round, _)| *round != self);
    }
}

/// Wakes what waits, which then looks at the flag that it was given: set that first.
pub fn wake_all() {
    let waiting = std::mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner));
    waiting.into_iter().for_each(|(_, waker)| waker.wake());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_interrupt_wakes_what_waits_and_nothing_that_has_ended() {
        assert_eq!(LongWait::begin(Duration::from_millis(999)), None);
        let rounds = [(); 2].map(|()| LongWait::begin(Duration::from_secs(1)).unwrap());
        let (stop, counts) =
            (AtomicBool::new(false), [(); 2].map(|()| Arc::new(Counts(AtomicUsize::new(0)))));
        let wakers = counts.clone().map(Waker::from);
        for (round, waker) in rounds.iter().zip(&wakers) {
            let cx = Context::from_waker(waker);
            // However often it is polled, it is woken once.
            assert_eq!(
                [(); 2].map(|()| round.or_interrupted(&stop, &cx)),
                [Poll::Pending, Poll::Pending]
            );
        }
        rounds[0].end();
        stop.store(true, Ordering::SeqCst);
        wake_all();
        assert_eq!(counts.map(|c| c.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!(
            rounds[1].or_interrupted(&stop, &Context::from_waker(&wakers[1])),
            Poll::Ready(Interrupted)
        );
        rounds[1].end();
    }
}
