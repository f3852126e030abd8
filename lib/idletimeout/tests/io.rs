//! Tests of the connection wrapper on a paused runtime.

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use idletimeout::{Elapsed, IdleIo, IdleTimeout, TokioClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter, ReadBuf, duplex};
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

/// After the error, no wait is pending, so the work after the write does not count.
#[tokio::test(start_paused = true)]
async fn failed_wait_is_over() {
    let (local, remote) = duplex(4);
    let mut io = pin!(IdleIo::new(local, IdleTimeout::with_clock(LENGTH, TokioClock)));
    assert_eq!(io.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(io.write(b"four").await.unwrap(), 4);
    sleep(LENGTH * 4 / 5).await;
    let start = Instant::now();
    assert_eq!(io.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), LENGTH);
    // The same after a write that failed.
    assert_eq!(io.write(b"more").await.unwrap_err().kind(), ErrorKind::TimedOut);
    let mut remote = pin!(remote);
    remote.write_all(b"x").await.unwrap();
    assert_eq!(io.read(&mut [0; 8]).await.unwrap(), 1);
    sleep(LENGTH * 4 / 5).await;
    let start = Instant::now();
    assert_eq!(io.write(b"more").await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), LENGTH);
}

/// A connection whose peer sends nothing. Every other operation is ready at once.
struct SilentPeer;

impl AsyncRead for SilentPeer {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncWrite for SilentPeer {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[derive(Clone, Copy, Debug)]
enum EmptyOperation {
    Flush,
    Shutdown,
    Write,
    WriteVectored,
    Read,
}

#[tokio::test(start_paused = true)]
async fn empty_operations_are_no_traffic() {
    use EmptyOperation::{Flush, Read, Shutdown, Write, WriteVectored};
    for operation in [Flush, Shutdown, Write, WriteVectored, Read] {
        let idle = IdleTimeout::with_clock(LENGTH, TokioClock);
        let mut connection = pin!(IdleIo::new(SilentPeer, idle));
        let start = Instant::now();
        for _ in 0..3 {
            let mut buffer = [0; 8];
            let read = tokio::time::timeout(ms(4), connection.read(&mut buffer)).await;
            if start.elapsed() >= LENGTH {
                let error = read.expect("the read ends").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                break;
            }
            match operation {
                Flush => connection.flush().await.unwrap(),
                Shutdown => connection.shutdown().await.unwrap(),
                Write => assert_eq!(connection.write(&[]).await.unwrap(), 0),
                WriteVectored => assert_eq!(connection.write_vectored(&[]).await.unwrap(), 0),
                Read => assert_eq!(connection.read(&mut []).await.unwrap(), 0),
            }
        }
        assert_eq!(start.elapsed(), LENGTH, "{operation:?}");
    }
}

/// A flush that sends what was written before ends the silence, also if it need not wait.
#[tokio::test(start_paused = true)]
async fn buffered_writes_move_when_flushed() {
    let idle = IdleTimeout::with_clock(LENGTH, TokioClock);
    let mut connection = pin!(IdleIo::new(SilentPeer, idle));
    let start = Instant::now();
    for operation in [true, false, false] {
        let read = tokio::time::timeout(ms(4), connection.read(&mut [0; 8])).await;
        assert!(read.is_err(), "the connection is not idle yet");
        if operation {
            assert_eq!(connection.write(b"abc").await.unwrap(), 3);
        } else {
            connection.flush().await.unwrap();
        }
    }
    // The first flush was at 8 ms. The second one had nothing to send.
    assert_eq!(connection.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), ms(8) + LENGTH);
}

/// A flush of a full buffer waits until the peer has read, and so something has moved.
#[tokio::test(start_paused = true)]
async fn delayed_flush_ends_the_silence() {
    let (local, mut remote) = duplex(1);
    let peer = tokio::spawn(async move {
        sleep(ms(9)).await;
        remote.read_exact(&mut [0; 3]).await.unwrap();
        std::future::pending::<()>().await;
    });
    let start = Instant::now();
    let local = BufWriter::new(local);
    let mut io = pin!(IdleIo::new(local, IdleTimeout::with_clock(LENGTH, TokioClock)));
    io.write_all(b"abc").await.unwrap();
    io.flush().await.unwrap();
    assert_eq!(start.elapsed(), ms(9));
    assert_eq!(io.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), ms(9) + LENGTH);
    peer.abort();
}
