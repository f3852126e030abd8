//! Tests of the `futures-io` traits of `TcpStream`.
#![cfg(all(feature = "futures-io", feature = "net"))]
mod common;

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;

use busypoll::io::{TcpListener, TcpStream};
use busypoll::spawn_boxed;
use common::{connect_and_reset, run_in_every_mode};
use futures_io::{AsyncRead, AsyncWrite};

/// Exchanges messages through the traits alone.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Vec<u8> {
    let parts = [IoSlice::new(b"from "), IoSlice::new(b"both")];
    let written =
        poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &parts)).await.unwrap();
    assert_eq!(written, 9);
    assert_eq!(poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"!")).await.unwrap(), 1);
    poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.unwrap();
    poll_fn(|cx| Pin::new(&mut stream).poll_close(cx)).await.unwrap();
    let mut got = Vec::new();
    loop {
        let mut buf = [0; 4];
        match poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buf)).await.unwrap() {
            0 => return got,
            n => got.extend_from_slice(&buf[..n]),
        }
    }
}

#[test]
fn streams_implement_futures_io_traits() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let addr = listener.local_addr().unwrap();
            let server =
                spawn_boxed(async move { exchange(listener.accept().await.unwrap().0).await });
            let stream = TcpStream::connect(addr).await.unwrap();
            assert_eq!(exchange(&stream).await, b"from both!");
            assert_eq!(server.await.unwrap(), b"from both!");
        });
    });
}

#[test]
fn reset_streams_close() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let mut stream = connect_and_reset().await;
            poll_fn(|cx| Pin::new(&mut &stream).poll_close(cx)).await.unwrap();
            poll_fn(|cx| Pin::new(&mut stream).poll_close(cx)).await.unwrap();
        });
    });
}
