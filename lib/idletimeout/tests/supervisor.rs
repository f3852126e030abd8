//! The program of the book's page about tests.
//!
//! It has an interval and an idle timeout, and its test uses a sleep as well.

use std::{pin::pin, time::Duration};

use idletimeout::IdleTimeout;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::Instant;

/// Sends heartbeats until nothing has come from the peer for 10 s. Returns their number.
async fn supervise(mut messages: Receiver<&'static str>) -> u32 {
    let mut heartbeats = osinterval::interval(Duration::from_secs(1));
    let mut idle = pin!(IdleTimeout::new(Duration::from_secs(10)));
    let mut sent = 0;
    loop {
        tokio::select! {
            _ = heartbeats.tick() => sent += 1,
            message = idle.as_mut().guard(messages.recv()) => match message {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return sent,
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silent_peer_is_given_up() {
    let (sender, messages) = channel(1);
    let start = Instant::now();
    let supervisor = tokio::spawn(supervise(messages));
    for _ in 0..720 {
        osinterval::sleep(Duration::from_millis(4_990)).await;
        sender.send("alive").await.expect("the supervisor listens");
    }
    assert_eq!(supervisor.await.expect("no panic"), 3_603);
    // 720 pauses, and the silence.
    assert_eq!(start.elapsed(), Duration::from_millis(720 * 4_990 + 10_000));
}
