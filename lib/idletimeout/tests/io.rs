//! Tests of the connection wrapper on a paused runtime.

use std::io::ErrorKind;
use std::pin::pin;
use std::time::Duration;

use idletimeout::{Elapsed, IdleIo, IdleTimeout, TokioClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep};

const LENGTH: Duration = Duration::from_millis(10);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[tokio::test(start_paused = true)]
async fn reads_fail_after_each_silence() {
    let (local, mut remote) = duplex(64);
    let peer = tokio::spawn(async move {
        for pause in [4, 9, 35] {
            sleep(ms(pause)).await;
            remote.write_all(b"x").await.unwrap();
        }
    });
    let start = Instant::now();
    let mut io = pin!(IdleIo::new(local, IdleTimeout::with_clock(LENGTH, TokioClock)));
    let mut results = Vec::new();
    loop {
        let result = io.read(&mut [0; 8]).await;
        results.push((start.elapsed().as_millis(), result.as_ref().ok().copied()));
        match result {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                assert!(error.get_ref().is_some_and(|inner| inner.is::<Elapsed>()));
            }
        }
    }
    assert_eq!(
        results,
        [
            (4, Some(1)),
            (13, Some(1)),
            (23, None),
            (33, None),
            (43, None),
            (48, Some(1)),
            (48, Some(0))
        ]
    );
    peer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn blocked_write_fails_after_silence() {
    let (local, _remote) = duplex(4);
    let mut io = pin!(IdleIo::new(local, IdleTimeout::with_clock(LENGTH, TokioClock)));
    let start = Instant::now();
    assert_eq!(io.write(b"four bytes and more").await.unwrap(), 4);
    assert_eq!(io.write(b"more").await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), LENGTH);
}

/// One timeout covers both directions in one task, as in a connection that waits for a request
/// while it sends a long response.
#[tokio::test(start_paused = true)]
async fn writes_keep_reads_alive() {
    let (local, mut remote) = duplex(1);
    tokio::spawn(async move {
        // Reads a byte every 6 ms, five times, and writes nothing.
        for _ in 0..5 {
            sleep(ms(6)).await;
            remote.read_u8().await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    let start = Instant::now();
    let io = IdleIo::new(local, IdleTimeout::with_clock(LENGTH, TokioClock));
    let (mut reader, mut writer) = tokio::io::split(Box::pin(io));
    let reading = async { reader.read_u8().await.unwrap_err().kind() };
    let writing = async {
        for _ in 0..5 {
            writer.write_all(b"y").await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let kind = tokio::select! {
        kind = reading => kind,
        () = writing => unreachable!(),
    };
    assert_eq!(kind, ErrorKind::TimedOut);
    // The fifth byte was written when the fourth had been read.
    assert_eq!(start.elapsed(), ms(24) + LENGTH);
}

#[tokio::test(start_paused = true)]
async fn work_between_reads_is_ignored() {
    let (local, mut remote) = duplex(64);
    remote.write_all(b"x").await.unwrap();
    let mut io = pin!(IdleIo::new(local, IdleTimeout::with_clock(LENGTH, TokioClock)));
    assert_eq!(io.read(&mut [0; 8]).await.unwrap(), 1);
    sleep(LENGTH * 5).await;
    let start = Instant::now();
    assert_eq!(io.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), LENGTH);
    assert_eq!(io.as_mut().idle().length(), LENGTH);
}
