//! Tests of parking on an `io_uring`: it is used only on request, is never early, and reacts to the
//! same wakes as the other mechanism.
#![allow(clippy::disallowed_methods, reason = "tests read the clock to compare")]
mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use busypoll::time::{self, interval_at};
use busypoll::{ParkBackend, Parking, Runtime, channel, spawn_boxed};

/// Returns a runtime that parks on a ring, or `None` if no ring is available.
fn new_ring_runtime() -> Option<Runtime> {
    let runtime = Runtime::builder().parking(Parking::Park).park_on_io_uring(true).build().unwrap();
    (runtime.park_backend() == ParkBackend::IoUring).then_some(runtime)
}

#[test]
fn ring_requires_request_and_parking() {
    let backend = |parking, on| {
        Runtime::builder().parking(parking).park_on_io_uring(on).build().unwrap().park_backend()
    };
    assert_eq!(backend(Parking::Park, false), ParkBackend::Events);
    assert_eq!(backend(Parking::Spin, true), ParkBackend::Events);
    assert_eq!(Runtime::new().unwrap().park_backend(), ParkBackend::Events);
    if cfg!(any(not(target_os = "linux"), miri)) {
        assert_eq!(backend(Parking::Park, true), ParkBackend::Events);
    }
}

#[test]
fn ring_ticks_are_never_early() {
    let Some(mut runtime) = new_ring_runtime() else { return };
    runtime.block_on(async {
        let (start, period) = (Instant::now(), Duration::from_micros(100));
        let mut interval = interval_at(start, period);
        for k in 0..10_000 {
            let due = interval.tick().await;
            assert!(due == start + period * k && Instant::now() >= due, "tick {k}");
        }
    });
}

#[test]
fn remote_wake_ends_unlimited_park() {
    let Some(mut runtime) = new_ring_runtime() else { return };
    let (sender, mut receiver) = channel::mpsc::channel(4);
    let (back, echoed) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        for i in 0..2_000_u32 {
            // The wake arrives before the park, at its start, or long after it.
            if i % 3 > 0 {
                std::thread::sleep(Duration::from_micros(u64::from(i % 50)));
            }
            sender.try_send(i).unwrap();
            assert_eq!(echoed.recv(), Ok(i));
        }
    });
    runtime.block_on(async {
        for i in 0..2_000 {
            assert_eq!(receiver.recv().await, Some(i));
            back.send(i).unwrap();
        }
        assert_eq!(receiver.recv().await, None);
    });
    other.join().unwrap();
}

#[test]
fn timers_and_wakes_mix() {
    let Some(mut runtime) = new_ring_runtime() else { return };
    // The channel has space for all values, however long this thread is not running.
    let (sender, mut receiver) = channel::mpsc::channel(500);
    let (start, ticked) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        ticked.recv().unwrap();
        for i in 0..500_u32 {
            std::thread::sleep(Duration::from_micros(300));
            sender.try_send(i).unwrap();
        }
    });
    runtime.block_on(async {
        let ticks = Rc::new(Cell::new(0));
        let counted = Rc::clone(&ticks);
        let ticking = spawn_boxed(async move {
            loop {
                let begun = Instant::now();
                time::sleep(Duration::from_micros(170)).await;
                assert!(begun.elapsed() >= Duration::from_micros(170));
                counted.set(counted.get() + 1);
                // The values come after the first tick.
                let _ = start.send(());
            }
        });
        let mut next = 0;
        while let Some(i) = receiver.recv().await {
            assert_eq!(i, next);
            next += 1;
        }
        assert!(next == 500 && ticks.get() > 0);
        drop(ticking);
    });
    other.join().unwrap();
}

#[cfg(feature = "net")]
#[test]
fn more_sources_than_batch_all_wake() {
    use busypoll::io::UdpSocket;

    const SOCKETS: usize = 600;
    let Some(mut runtime) = new_ring_runtime() else { return };
    runtime.block_on(async {
        let any = "127.0.0.1:0".parse().unwrap();
        let mut waiting = Vec::new();
        let mut addresses = Vec::new();
        for _ in 0..SOCKETS {
            let socket = UdpSocket::bind(any).unwrap();
            addresses.push(socket.local_addr().unwrap());
            waiting.push(spawn_boxed(async move {
                let mut byte = [0];
                for expected in 0..3 {
                    let (n, _) = socket.recv_from(&mut byte).await.unwrap();
                    assert_eq!((n, byte[0]), (1, expected));
                }
            }));
        }
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for round in 0..3_u8 {
            // All datagrams have arrived before the runtime polls for events.
            for address in &addresses {
                sender.send_to(&[round], address).unwrap();
            }
            time::sleep(Duration::from_millis(20)).await;
        }
        for task in waiting {
            task.await.unwrap();
        }
    });
}

#[test]
fn short_lived_runtimes_can_park() {
    for _ in 0..300 {
        let Some(mut runtime) = new_ring_runtime() else { return };
        runtime.block_on(async { time::sleep(Duration::from_micros(10)).await });
    }
}
