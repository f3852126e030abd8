//! Tests of the sockets: all data arrives, all waiting tasks are woken, and dropped sockets are
//! deregistered.
#![cfg(feature = "net")]
#![allow(clippy::disallowed_methods, reason = "another thread acts while the runtime is idle")]
mod common;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use busypoll::io::{IoHandle, TcpListener, TcpStream, UdpSocket};
use busypoll::{Runtime, spawn_boxed, time, yield_now};
use common::run_in_every_mode;

fn any_address() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn connect_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(any_address()).unwrap();
    let connecting = spawn_boxed(TcpStream::connect(listener.local_addr().unwrap()));
    let (accepted, peer) = listener.accept().await.unwrap();
    let connected = connecting.await.unwrap().unwrap();
    assert_eq!(connected.local_addr().unwrap(), peer);
    assert_eq!(connected.peer_addr().unwrap(), accepted.local_addr().unwrap());
    (accepted, connected)
}

#[test]
fn connections_echo_sent_bytes() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let listener = TcpListener::bind(any_address()).unwrap();
            let addr = listener.local_addr().unwrap();
            let server = spawn_boxed(async move {
                for _ in 0..20 {
                    let (stream, _) = listener.accept().await.unwrap();
                    drop(spawn_boxed(async move {
                        let mut buf = [0; 512];
                        loop {
                            match stream.read(&mut buf).await.unwrap() {
                                0 => break,
                                n => stream.write_all(&buf[..n]).await.unwrap(),
                            }
                        }
                    }));
                }
            });
            let clients: Vec<_> = (0..20_u8)
                .map(|id| {
                    spawn_boxed(async move {
                        let stream = TcpStream::connect(addr).await.unwrap();
                        stream.set_nodelay(true).unwrap();
                        for round in 0..50_u8 {
                            let sent = [id, round, id ^ round];
                            stream.write_all(&sent).await.unwrap();
                            let mut got = [0; 3];
                            stream.read_exact(&mut got).await.unwrap();
                            assert_eq!(got, sent);
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            server.await.unwrap();
        });
    });
}

#[test]
fn large_transfer_arrives_whole() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            const SIZE: usize = 8 << 20;
            let (reader, writer) = connect_pair().await;
            let sending = spawn_boxed(async move {
                let data: Vec<u8> = (0..SIZE).map(|i| (i % 251) as u8).collect();
                writer.write_all(&data).await.unwrap();
                writer.shutdown(std::net::Shutdown::Write).unwrap();
                // The stream is kept alive, so that the reader sees the end because of the
                // shutdown.
                writer
            });
            let mut total = 0;
            let mut buf = vec![0; 64 << 10];
            loop {
                let n = reader.read(&mut buf).await.unwrap();
                if n == 0 {
                    break;
                }
                assert!(
                    buf[..n].iter().enumerate().all(|(i, byte)| *byte == ((total + i) % 251) as u8)
                );
                total += n;
            }
            assert_eq!(total, SIZE);
            drop(sending.await.unwrap());
        });
    });
}

#[test]
fn socket_event_wakes_idle_runtime() {
    run_in_every_mode(|runtime| {
        let listener = std::net::TcpListener::bind(any_address()).unwrap();
        let addr = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(10));
                stream.write_all(b"x").unwrap();
            }
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            rest
        });
        runtime.block_on(async {
            let stream = TcpStream::connect(addr).await.unwrap();
            for _ in 0..3 {
                let mut byte = [0];
                assert_eq!(stream.peek(&mut byte).await.unwrap(), 1);
                stream.read_exact(&mut byte).await.unwrap();
            }
            stream.write_all(b"bye").await.unwrap();
        });
        assert_eq!(thread.join().unwrap(), b"bye");
    });
}

#[test]
fn timers_and_sockets_wait_together() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (accepted, connected) = connect_pair().await;
            let mut byte = [0];
            for _ in 0..20 {
                let waited =
                    time::timeout(Duration::from_micros(700), accepted.read(&mut byte)).await;
                assert!(waited.is_err(), "there was nothing to read");
            }
            // The cancelled reads have consumed nothing.
            connected.write_all(b"a").await.unwrap();
            let read =
                time::timeout(Duration::from_secs(300), accepted.read(&mut byte)).await.unwrap();
            assert_eq!((read.unwrap(), byte), (1, *b"a"));
        });
    });
}

#[test]
fn connecting_without_listener_is_refused() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            // The stream keeps the port from other processes, and its listener is gone.
            let (accepted, _connected) = connect_pair().await;
            let addr = accepted.local_addr().unwrap();
            let error = TcpStream::connect(addr).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        });
    });
}

#[test]
fn two_tasks_share_one_stream() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (accepted, connected) = connect_pair().await;
            let (accepted, connected) = (Rc::new(accepted), Rc::new(connected));
            let tasks = [(&accepted, 1), (&connected, 2)].map(|(stream, mark)| {
                let (reads, writes) = (Rc::clone(stream), Rc::clone(stream));
                let reader = spawn_boxed(async move {
                    let mut buf = vec![0; 1 << 20];
                    reads.read_exact(&mut buf).await.unwrap();
                    assert!(buf.iter().all(|byte| *byte == 3 - mark));
                });
                let writer =
                    spawn_boxed(
                        async move { writes.write_all(&vec![mark; 1 << 20]).await.unwrap() },
                    );
                [reader, writer]
            });
            for task in tasks.into_iter().flatten() {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn one_socket_wakes_all_tasks() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let socket = Rc::new(UdpSocket::bind(any_address()).unwrap());
            let addr = socket.local_addr().unwrap();
            let tasks: Vec<_> = (0..5)
                .map(|_| {
                    let socket = Rc::clone(&socket);
                    spawn_boxed(async move { socket.recv_from(&mut [0; 8]).await.unwrap().0 })
                })
                .collect();
            yield_now().await;
            let sender = UdpSocket::bind(any_address()).unwrap();
            for _ in 0..5 {
                assert_eq!(sender.send_to(b"four", addr).await.unwrap(), 4);
            }
            for task in tasks {
                assert_eq!(task.await.unwrap(), 4);
            }
        });
    });
}

#[test]
fn datagrams_keep_boundaries() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (a, b) =
                (UdpSocket::bind(any_address()).unwrap(), UdpSocket::bind(any_address()).unwrap());
            a.connect(b.local_addr().unwrap()).unwrap();
            b.connect(a.local_addr().unwrap()).unwrap();
            assert_eq!(b.try_recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let echo = spawn_boxed(async move {
                let mut buf = [0; 64];
                for _ in 0..100 {
                    let n = b.recv(&mut buf).await.unwrap();
                    b.send(&buf[..n]).await.unwrap();
                }
            });
            for size in 0..100 {
                let sent = vec![7; size % 64];
                assert_eq!(a.send(&sent).await.unwrap(), sent.len());
                let mut buf = [0; 64];
                let n = a.recv(&mut buf).await.unwrap();
                assert_eq!(buf[..n], sent[..]);
            }
            echo.await.unwrap();
        });
    });
}

#[test]
fn dropped_socket_is_deregistered() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let handle = IoHandle::current();
            assert_eq!(handle.registered(), 0);
            for _ in 0..100 {
                let (accepted, connected) = connect_pair().await;
                assert_eq!(handle.registered(), 2);
                let waits = spawn_boxed(async move { accepted.read(&mut [0; 1]).await });
                yield_now().await;
                waits.abort();
                yield_now().await;
                yield_now().await;
                assert_eq!(handle.registered(), 1);
                drop(connected);
                assert_eq!(handle.registered(), 0);
            }
        });
    });
}

#[test]
fn cancelled_operation_leaves_no_waker() {
    struct Nothing;
    impl std::task::Wake for Nothing {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (accepted, _connected) = connect_pair().await;
            let listener = TcpListener::bind(any_address()).unwrap();
            let counted = std::sync::Arc::new(Nothing);
            for _ in 0..1_000 {
                // Each iteration uses a new waker, as combinators do.
                let waker = std::task::Waker::from(std::sync::Arc::clone(&counted));
                let mut cx = std::task::Context::from_waker(&waker);
                let mut buf = [0; 1];
                let (mut read, mut accept) =
                    (std::pin::pin!(accepted.read(&mut buf)), std::pin::pin!(listener.accept()));
                let mut readable = std::pin::pin!(accepted.readable());
                assert!(read.as_mut().poll(&mut cx).is_pending());
                assert!(accept.as_mut().poll(&mut cx).is_pending());
                assert!(readable.as_mut().poll(&mut cx).is_pending());
            }
            assert_eq!(std::sync::Arc::strong_count(&counted), 1);
        });
    });
}

#[test]
#[cfg(unix)]
fn as_fd_refers_to_the_socket() {
    use std::os::fd::AsFd;
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (accepted, _connected) = connect_pair().await;
            let same = std::net::TcpStream::from(accepted.as_fd().try_clone_to_owned().unwrap());
            assert_eq!(same.local_addr().unwrap(), accepted.local_addr().unwrap());
            same.set_nodelay(true).unwrap();
            assert!(accepted.nodelay().unwrap());
        });
    });
}

#[test]
fn constructors_panic_outside_runtime() {
    let panics = |constructor: fn()| std::panic::catch_unwind(constructor).is_err();
    assert!(panics(|| drop(TcpListener::bind(any_address()))));
    assert!(panics(|| drop(UdpSocket::bind(any_address()))));
    assert!(panics(|| drop(IoHandle::current())));
}

#[test]
fn socket_outlives_runtime() {
    let mut first = Runtime::new().unwrap();
    let (accepted, connected) = first.block_on(connect_pair());
    // A task of the first runtime waits when the runtime is dropped, and is dropped with it.
    let stream = Rc::new(accepted);
    let waiting = Rc::clone(&stream);
    drop(first.spawn_boxed(async move { waiting.read(&mut [0; 1]).await }));
    first.block_on(yield_now());
    drop(first);
    let mut second = Runtime::new().unwrap();
    second.block_on(async {
        let mut byte = [0];
        let error = stream.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        assert_eq!(stream.readable().await.unwrap_err().kind(), ErrorKind::NotConnected);
        // Operations that need not wait still work.
        connected.writable().await.unwrap();
        assert_eq!(connected.write(b"z").await.unwrap(), 1);
        while stream.try_read(&mut byte).is_err() {
            yield_now().await;
        }
        assert_eq!(byte, *b"z");
        // The same is true of one that would have blocked before.
        assert_eq!(connected.write(b"y").await.unwrap(), 1);
        while stream.read(&mut byte).await.is_err() {
            yield_now().await;
        }
        assert_eq!(byte, *b"y");
    });
}

#[test]
fn dropped_runtime_ends_foreign_waits() {
    // A socket of one runtime is awaited in another runtime of the same thread.
    let mut first = Runtime::new().unwrap();
    let (accepted, _connected) = first.block_on(connect_pair());
    let mut second = Runtime::new().unwrap();
    let task =
        second.spawn_boxed(async move { accepted.read(&mut [0; 1]).await.map_err(|e| e.kind()) });
    second.block_on(yield_now());
    second.block_on(yield_now());
    assert!(!task.is_finished());
    drop(first);
    assert_eq!(second.block_on(task).unwrap(), Err(ErrorKind::NotConnected));
}

#[test]
fn greedy_peer_does_not_starve_tasks() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let socket = UdpSocket::bind(any_address()).unwrap();
            let addr = socket.local_addr().unwrap();
            let turns = Rc::new(Cell::new(0_u32));
            let counter = Rc::clone(&turns);
            let counting = spawn_boxed(async move {
                loop {
                    counter.set(counter.get() + 1);
                    yield_now().await;
                }
            });
            // Each operation is ready at once. Without a budget, no other task would run in
            // between.
            for _ in 0..500 {
                socket.send_to(b"x", addr).await.unwrap();
                socket.recv_from(&mut [0; 1]).await.unwrap();
            }
            assert!(
                turns.get() >= 7,
                "{} turns of the other task within 1,000 operations",
                turns.get()
            );
            counting.abort();
        });
    });
}

#[test]
fn events_are_polled_every_n_turns() {
    const EVERY: u32 = 500;
    let mut runtime = Runtime::builder().io_every_turns(EVERY).build().unwrap();
    runtime.block_on(async {
        let socket = UdpSocket::bind(any_address()).unwrap();
        let sender = UdpSocket::bind(any_address()).unwrap();
        let addr = socket.local_addr().unwrap();
        let received = Rc::new(Cell::new(0));
        let counted = Rc::clone(&received);
        let task = spawn_boxed(async move {
            loop {
                socket.recv_from(&mut [0; 1]).await.unwrap();
                counted.set(counted.get() + 1);
            }
        });
        for _ in 0..3 {
            yield_now().await;
        }
        let mut waits = Vec::new();
        for round in 0..20 {
            sender.send_to(b"x", addr).await.unwrap();
            let mut turns = 0;
            // The root is polled once in each turn.
            poll_fn(|cx| {
                if received.get() > round {
                    return Poll::Ready(());
                }
                turns += 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            waits.push(turns);
        }
        // A busy kernel may deliver a datagram after the next poll.
        assert!(waits.iter().any(|&turns| turns <= EVERY + 2), "{waits:?}");
        assert!(waits.iter().any(|&turns| turns > EVERY / 4), "{waits:?}");
        task.abort();
    });
}

#[test]
fn repeated_short_calls_poll_events() {
    let mut runtime = Runtime::builder().io_every_turns(50).build().unwrap();
    let (task, sender, addr) = runtime.block_on(async {
        let socket = UdpSocket::bind(any_address()).unwrap();
        let addr = socket.local_addr().unwrap();
        let task = spawn_boxed(async move { socket.recv_from(&mut [0; 4]).await.unwrap().0 });
        yield_now().await;
        (task, UdpSocket::bind(any_address()).unwrap(), addr)
    });
    assert_eq!(sender.try_send_to(b"four", addr).unwrap(), 4);
    // A busy kernel may deliver the datagram later than the first poll.
    while !task.is_finished() {
        runtime.block_on(yield_now());
        assert!(runtime.turns() < 1_000_000_000, "events are not polled");
    }
    assert_eq!(runtime.block_on(task).unwrap(), 4);
}

#[test]
fn spinning_thread_polls_events_sparingly() {
    let mut runtime = Runtime::builder().io_every_turns(10).build().unwrap();
    let spin = |runtime: &mut Runtime| {
        let before =
            (runtime.turns(), runtime.block_on(async { IoHandle::current().event_polls() }));
        runtime.block_on(async {
            for _ in 0..1_000 {
                yield_now().await;
            }
            // The runtime is also idle for a while.
            time::sleep(Duration::from_micros(500)).await;
        });
        let polls = runtime.block_on(async { IoHandle::current().event_polls() }) - before.1;
        (runtime.turns() - before.0, polls)
    };
    let (turns, polls) = spin(&mut runtime);
    assert!(turns > 1_000);
    assert_eq!(polls, 0);
    let socket = runtime.block_on(async { UdpSocket::bind(any_address()).unwrap() });
    let (turns, polls) = spin(&mut runtime);
    assert!((polls * 10).abs_diff(turns) <= 30, "{polls} polls in {turns} turns");
    drop(socket);
    assert_eq!(spin(&mut runtime).1, 0);
}

#[test]
fn event_time_marks_last_poll() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let before = std::time::Instant::now();
            assert_eq!(IoHandle::current().event_time(), None);
            let (accepted, connected) = connect_pair().await;
            let task = spawn_boxed(async move {
                accepted.read(&mut [0; 1]).await.unwrap();
                IoHandle::current().event_time().unwrap()
            });
            yield_now().await;
            let sent = std::time::Instant::now();
            connected.write_all(b"x").await.unwrap();
            let stamped = task.await.unwrap();
            assert!(stamped >= sent && sent >= before && stamped <= std::time::Instant::now());
        });
    });
}
