//! Tests of the tokio bridge: tokio's futures run in busypoll, tokio's threads wake its tasks, and
//! its streams implement tokio's traits.
#![cfg(feature = "tokio-compat")]
mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use busypoll::compat::with_tokio;
use busypoll::{spawn_boxed, time};
use common::run_in_every_mode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn start_tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn tokio_timers_and_sockets_run_here() {
    run_in_every_mode(|runtime| {
        let tokio = start_tokio();
        let handle = tokio.handle();
        let thread = std::thread::current().id();
        runtime.block_on(async {
            let echo = with_tokio(handle, async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let addr = listener.local_addr().unwrap();
                // This task runs on tokio's own thread.
                let client = tokio::spawn(async move {
                    assert_ne!(std::thread::current().id(), thread);
                    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
                    stream.write_all(b"ping").await.unwrap();
                    let mut got = [0; 4];
                    stream.read_exact(&mut got).await.unwrap();
                    got
                });
                let (mut stream, _) = listener.accept().await.unwrap();
                assert_eq!(std::thread::current().id(), thread);
                let mut got = [0; 4];
                stream.read_exact(&mut got).await.unwrap();
                stream.write_all(&got).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
                client.await.unwrap()
            });
            let here = spawn_boxed(time::sleep(Duration::from_millis(1)));
            assert_eq!(&echo.await, b"ping");
            here.await.unwrap();
        });
    });
}

#[test]
fn tokio_channels_need_no_bridge() {
    run_in_every_mode(|runtime| {
        let tokio = start_tokio();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
        let task = tokio.spawn(async move {
            for i in 0..500 {
                sender.send(i).await.unwrap();
            }
            "sent"
        });
        runtime.block_on(async {
            for i in 0..500 {
                assert_eq!(receiver.recv().await, Some(i));
            }
            assert_eq!(receiver.recv().await, None);
            assert_eq!(task.await.unwrap(), "sent");
        });
    });
}

#[test]
fn future_is_dropped_inside_tokio() {
    struct ContextProbe(Rc<Cell<bool>>);
    impl Drop for ContextProbe {
        fn drop(&mut self) {
            self.0.set(tokio::runtime::Handle::try_current().is_ok());
        }
    }
    run_in_every_mode(|runtime| {
        let tokio = start_tokio();
        let inside = Rc::new(Cell::new(false));
        let probe = ContextProbe(Rc::clone(&inside));
        let future = with_tokio(tokio.handle(), async move {
            let _probe = probe;
            std::future::pending::<()>().await;
        });
        assert!(
            runtime
                .block_on(async { time::timeout(Duration::from_millis(1), future).await })
                .is_err()
        );
        assert!(inside.get());
        assert!(tokio::runtime::Handle::try_current().is_err(), "the context was left");
    });
}

#[test]
#[cfg(feature = "net")]
fn streams_implement_tokio_traits() {
    use busypoll::io::{TcpListener, TcpStream};
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let addr = listener.local_addr().unwrap();
            let server = spawn_boxed(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut text = String::new();
                AsyncReadExt::read_to_string(&mut stream, &mut text).await.unwrap();
                text
            });
            let mut stream = TcpStream::connect(addr).await.unwrap();
            AsyncWriteExt::write_all(&mut stream, b"to the end").await.unwrap();
            AsyncWriteExt::flush(&mut stream).await.unwrap();
            AsyncWriteExt::shutdown(&mut stream).await.unwrap();
            assert_eq!(server.await.unwrap(), "to the end");
        });
    });
}

#[test]
#[cfg(all(feature = "net", not(miri)))]
fn reset_streams_shut_down() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let mut stream = common::connect_and_reset().await;
            AsyncWriteExt::shutdown(&mut stream).await.unwrap();
        });
    });
}

#[test]
fn channels_and_tokens_work_on_tokio() {
    use busypoll::CancellationToken;
    use busypoll::channel::mpsc;
    let tokio = start_tokio();
    let (sender, mut receiver) = mpsc::channel(4);
    let token = CancellationToken::new();
    let child = token.child_token();
    let waits =
        tokio.spawn(async move { child.run_until_cancelled(std::future::pending::<()>()).await });
    let sends = tokio.spawn(async move {
        for i in 0..500 {
            sender.send(i).await.unwrap();
        }
    });
    tokio.block_on(async {
        for i in 0..500 {
            assert_eq!(receiver.recv().await, Some(i));
        }
        assert_eq!(receiver.recv().await, None);
        sends.await.unwrap();
        token.cancel();
        assert_eq!(waits.await.unwrap(), None);
    });
}
