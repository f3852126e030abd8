//! Metered intervals as streams, with the feature `stream`.
#![cfg(all(feature = "stream", not(loom)))]
#![allow(clippy::disallowed_methods, reason = "the test makes its own deadlines")]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tickmeter::{Meter, Ticker};

const PERIOD: Duration = Duration::from_millis(1);

/// A ticker whose ticks have come already, and are pending at every second poll.
struct ScriptedTicker {
    next: Instant,
    is_ready: bool,
}

impl Ticker for ScriptedTicker {
    type Tick = Instant;

    fn poll_tick(&mut self, _: &mut Context<'_>) -> Poll<Instant> {
        self.is_ready = !self.is_ready;
        if !self.is_ready {
            return Poll::Pending;
        }
        let tick = self.next;
        self.next += PERIOD;
        Poll::Ready(tick)
    }

    fn deadline(tick: &Instant) -> Option<(Instant, u64)> {
        Some((*tick, 1))
    }

    fn period(&self) -> Duration {
        PERIOD
    }
}

#[test]
fn stream_items_are_metered() {
    let start = Instant::now();
    let ticker = ScriptedTicker { next: start, is_ready: false };
    let mut ticks = Meter::register("stream", PERIOD).unwrap().wrap(ticker);
    assert_eq!(ticks.size_hint(), (usize::MAX, None));
    let mut cx = Context::from_waker(Waker::noop());
    for tick in 0..5 {
        let item = Pin::new(&mut ticks).poll_next(&mut cx);
        assert_eq!(item, Poll::Ready(Some(start + PERIOD * tick)));
        assert_eq!(Pin::new(&mut ticks).poll_next(&mut cx), Poll::Pending);
    }
    let snapshot = ticks.meter().snapshot();
    assert_eq!((snapshot.ticks, snapshot.skipped, snapshot.work.count()), (5, 0, 4));
}
