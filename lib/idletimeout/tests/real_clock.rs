//! On the real clocks: never early, always woken, nothing allocated.

use std::future::pending;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use idletimeout::{IdleTimeout, TachClock};

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
async fn with_the_counter_it_is_never_early() {
    for length_us in [0, 10, 999, 1_000, 1_001, 2_500, 12_345] {
        let length = Duration::from_micros(length_us);
        let mut idle = pin!(IdleTimeout::new(length));
        for pause_us in [0, 700, 1_900] {
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
            let start = Instant::now();
            idle.as_mut().touch();
            assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
            assert!(start.elapsed() >= length, "{:?} of {length:?}", start.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_that_moves_between_tasks_wakes_the_one_that_polls_last() {
    let mut idle = Box::pin(IdleTimeout::new(Duration::from_millis(30)));
    for _ in 0..20 {
        let (give, back) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let soon = tokio::time::sleep(Duration::from_millis(2));
            let _ = idle.as_mut().guard(soon).await;
            give.send(idle).unwrap();
        });
        idle = back.await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(20), idle).await.expect("woken");
}

#[tokio::test]
async fn a_channel_loop_gets_every_message_then_the_silence() {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        for i in 0..10_000_u32 {
            sender.send(i).await.unwrap();
        }
        // Open, but silent.
        pending::<()>().await;
    });
    let mut idle = pin!(IdleTimeout::new(Duration::from_millis(50)));
    let mut got = Vec::new();
    while let Ok(message) = idle.as_mut().guard(receiver.recv()).await {
        got.extend(message);
    }
    // A stall of the machine may look like silence; what came until then is in order and complete.
    assert!(got.iter().copied().eq(0..got.len() as u32) && !got.is_empty());
}

#[test]
fn a_hundred_thousand_timeouts_are_touched_without_an_allocation() {
    const TIMEOUTS: usize = 100_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut idle: Vec<Pin<Box<IdleTimeout<TachClock>>>> =
            (0..TIMEOUTS).map(|_| Box::pin(IdleTimeout::new(Duration::from_secs(600)))).collect();
        // Registers every timer, and grows what tokio grows.
        for timeout in &mut idle {
            // Ready at its second poll: the timer is polled in between.
            assert_eq!(timeout.as_mut().guard(tokio::task::yield_now()).await, Ok(()));
        }
        let counted = allocation_counter::measure(|| {
            for timeout in &mut idle {
                timeout.as_mut().touch();
            }
        });
        assert_eq!(counted.count_total, 0);
    });
}
