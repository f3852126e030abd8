//! The stream wrapper, on a paused runtime.
#![cfg(feature = "stream")]

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use idletimeout::{IdleStream, IdleTimeout, TokioClock};
use tokio::time::{Instant, Sleep, sleep_until};

/// Yields at the given milliseconds, then ends.
struct At {
    start: Instant,
    times_ms: VecDeque<u64>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stream for At {
    type Item = u64;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        let Some(&time_ms) = self.times_ms.front() else { return Poll::Ready(None) };
        let at = self.start + Duration::from_millis(time_ms);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        self.times_ms.pop_front();
        Poll::Ready(Some(time_ms))
    }
}

#[tokio::test(start_paused = true)]
async fn items_and_silences_in_order() {
    let start = Instant::now();
    let inner = At { start, times_ms: [3, 9, 35, 40].into(), sleep: None };
    let idle = IdleTimeout::with_clock(Duration::from_millis(10), TokioClock);
    let mut stream = pin!(IdleStream::new(inner, idle));
    let mut seen = Vec::new();
    while let Some(item) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        seen.push((start.elapsed().as_millis(), item.ok()));
    }
    assert_eq!(
        seen,
        [(3, Some(3)), (9, Some(9)), (19, None), (29, None), (35, Some(35)), (40, Some(40))]
    );
}
