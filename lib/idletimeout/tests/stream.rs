//! Tests of the stream wrapper on a paused runtime.
#![cfg(feature = "stream")]

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use idletimeout::{IdleStream, IdleTimeout, TokioClock};
use tokio::time::{Instant, Sleep, sleep_until};

/// A stream that yields at the given milliseconds and then ends.
struct ScriptedStream {
    start: Instant,
    times_ms: VecDeque<u64>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stream for ScriptedStream {
    type Item = u64;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        let Some(&time_ms) = self.times_ms.front() else { return Poll::Ready(None) };
        let deadline = self.start + Duration::from_millis(time_ms);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        self.times_ms.pop_front();
        Poll::Ready(Some(time_ms))
    }
}

#[tokio::test(start_paused = true)]
async fn items_and_silences_are_ordered() {
    let start = Instant::now();
    let inner = ScriptedStream { start, times_ms: [3, 9, 35, 40].into(), sleep: None };
    let idle = IdleTimeout::with_clock(Duration::from_millis(10), TokioClock);
    let mut stream = pin!(IdleStream::new(inner, idle));
    let mut results = Vec::new();
    while let Some(item) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        results.push((start.elapsed().as_millis(), item.ok()));
    }
    assert_eq!(
        results,
        [(3, Some(3)), (9, Some(9)), (19, None), (29, None), (35, Some(35)), (40, Some(40))]
    );
}
