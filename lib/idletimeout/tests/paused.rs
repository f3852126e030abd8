//! Tests of the default clock while tokio's is paused, next to tokio's own timeout.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use idletimeout::{Elapsed, IdleTimeout};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, advance, sleep, timeout};

const LENGTH: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3_600);

/// Sends messages for 24 hours, after pauses of up to 30 s.
fn spawn_sender() -> Receiver<u64> {
    let (sender, receiver) = channel(1);
    tokio::spawn(async move {
        let end = Instant::now() + 24 * HOUR;
        for k in 0_u64.. {
            sleep(Duration::from_millis(k * 7_919 % 30_011)).await;
            if Instant::now() > end || sender.send(k).await.is_err() {
                break;
            }
        }
    });
    receiver
}

/// Receives all messages. Returns when each came, and when each timeout ended.
async fn receive_all<C: idletimeout::Clock>(idle: IdleTimeout<C>) -> Vec<(Duration, Option<u64>)> {
    let (start, mut receiver, mut idle) = (Instant::now(), spawn_sender(), pin!(idle));
    let mut log = Vec::new();
    loop {
        match idle.as_mut().guard(receiver.recv()).await {
            Ok(None) => return log,
            received => log.push((start.elapsed(), received.ok().flatten())),
        }
    }
}

async fn receive_all_with_tokio() -> Vec<(Duration, Option<u64>)> {
    let (start, mut receiver) = (Instant::now(), spawn_sender());
    let mut log = Vec::new();
    loop {
        match tokio::time::timeout(LENGTH, receiver.recv()).await {
            Ok(None) => return log,
            received => log.push((start.elapsed(), received.ok().flatten())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn paused_day_matches_tokio() {
    let expected = receive_all_with_tokio().await;
    let actual = receive_all(IdleTimeout::new(LENGTH)).await;
    assert!(expected.len() > 5_000, "{} events", expected.len());
    let first_difference = actual.iter().zip(&expected).find(|(a, b)| a != b);
    assert_eq!(first_difference, None);
    assert_eq!(actual.len(), expected.len());
}

#[tokio::test(start_paused = true)]
async fn paused_timeout_registers_one_timer() {
    let start = Instant::now();
    let mut idle = pin!(IdleTimeout::new(LENGTH));
    assert_eq!(idle.as_mut().await.to_string(), "idle timeout elapsed");
    assert_eq!((start.elapsed(), idle.registrations()), (LENGTH, 1));
    assert_eq!(idle.idle_for(), Duration::ZERO);
    advance(LENGTH / 2).await;
    assert_eq!(idle.idle_for(), LENGTH / 2);
}

#[tokio::test(start_paused = true)]
async fn touches_postpone_on_paused_clock() {
    for slack in [0.0, 0.1] {
        let start = Instant::now();
        let mut idle = pin!(IdleTimeout::new(LENGTH).slack(slack));
        for _ in 0..100 {
            let wait = idle.as_mut().guard(sleep(LENGTH - Duration::from_millis(500)));
            assert_eq!(wait.await, Ok(()));
            idle.as_mut().touch();
        }
        let last = Instant::now();
        idle.as_mut().await;
        assert!(last.elapsed() >= LENGTH && last.elapsed() <= LENGTH + LENGTH.mul_f64(slack));
        assert!(start.elapsed() > 95 * LENGTH);
    }
}

#[tokio::test]
async fn timeout_made_before_pause_follows() {
    let start = Instant::now();
    let mut idle = pin!(IdleTimeout::new(LENGTH));
    tokio::time::pause();
    let before_pause = start.elapsed();
    assert!(idle.as_mut().guard(pending::<()>()).await.is_err());
    // The silence began at some time before the pause.
    let rounding = Duration::from_millis(2);
    assert!(start.elapsed() >= LENGTH && start.elapsed() < LENGTH + before_pause + rounding);
    // Further silences have their exact length.
    let start = Instant::now();
    idle.as_mut().await;
    assert!(start.elapsed() >= LENGTH && start.elapsed() < LENGTH + Duration::from_millis(2));
}

/// The stamp of the touch is not on tokio's clock, so the timeout is late once.
#[tokio::test]
async fn touch_after_pause_never_fires_early() {
    let mut idle = pin!(IdleTimeout::new(LENGTH));
    tokio::time::pause();
    advance(LENGTH - Duration::from_secs(1)).await;
    idle.as_mut().touch();
    let touched = Instant::now();
    let _: Elapsed = idle.as_mut().await;
    assert!(touched.elapsed() >= LENGTH);
    assert!(touched.elapsed() <= 2 * LENGTH);
}

#[tokio::test(start_paused = true)]
async fn maximum_length_never_fires() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    for slack in [0.0, 0.1, 1.0] {
        for length in [Duration::MAX, Duration::MAX - Duration::from_secs(1)] {
            let mut idle = pin!(IdleTimeout::new(length).slack(slack));
            assert!(timeout(YEAR, idle.as_mut()).await.is_err());
            idle.as_mut().set_length(length);
            assert!(timeout(YEAR, idle.as_mut()).await.is_err());
        }
    }
}
