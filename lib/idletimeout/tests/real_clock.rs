//! Tests on the real clocks: timeouts never fire early, wake their task, and allocate nothing.

use std::future::pending;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use idletimeout::{IdleTimeout, TachClock};

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
async fn counter_timeouts_never_fire_early() {
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
async fn last_polling_task_is_woken() {
    let mut idle = Box::pin(IdleTimeout::new(Duration::from_millis(30)));
    for _ in 0..20 {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let message = tokio::time::sleep(Duration::from_millis(2));
            let _ = idle.as_mut().guard(message).await;
            sender.send(idle).unwrap();
        });
        idle = receiver.await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(300), idle).await.expect("expected a wake-up");
}

#[tokio::test]
async fn channel_loop_ends_in_silence() {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        for i in 0..10_000_u32 {
            sender.send(i).await.unwrap();
        }
        // The channel remains open without further messages.
        pending::<()>().await;
    });
    let mut received = vec![receiver.recv().await.unwrap()];
    let mut idle = pin!(IdleTimeout::new(Duration::from_millis(50)));
    while let Ok(message) = idle.as_mut().guard(receiver.recv()).await {
        received.extend(message);
    }
    // A stall of the machine may look like silence. The messages before it are ordered and
    // complete.
    assert!(received.iter().copied().eq(0..received.len() as u32));
}

#[test]
fn touching_timeouts_allocates_nothing() {
    const TIMEOUTS: usize = 100_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let length = Duration::from_secs(600);
        let mut timeouts: Vec<Pin<Box<IdleTimeout<TachClock>>>> =
            (0..TIMEOUTS).map(|_| Box::pin(IdleTimeout::new(length))).collect();
        // This registers every timer, and lets tokio allocate its memory.
        for timeout in &mut timeouts {
            // The future is ready at its second poll, so the timer is polled in between.
            assert_eq!(timeout.as_mut().guard(tokio::task::yield_now()).await, Ok(()));
        }
        let allocations = allocation_counter::measure(|| {
            for timeout in &mut timeouts {
                timeout.as_mut().touch();
            }
        });
        assert_eq!(allocations.count_total, 0);
    });
}
