//! Tests of the channels: every value arrives once and in order, and waiting ends when the other
//! side is dropped.
mod common;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
#[cfg(not(miri))]
use std::time::Instant;

use busypoll::channel::{TryRecvError, TrySendError, local, mpsc, spsc};
use busypoll::{spawn_boxed, yield_now};
use common::{run_in_every_mode, scaled};

#[test]
fn local_keeps_order_and_waits() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (sender, mut receiver) = local::channel(2);
            let other = sender.clone();
            let tasks = [(sender, 0), (other, 1000)].map(|(sender, base)| {
                spawn_boxed(async move {
                    for i in 0..100 {
                        sender.send(base + i).await.unwrap();
                    }
                })
            });
            let mut got = Vec::new();
            while let Some(value) = receiver.recv().await {
                got.push(value);
            }
            for task in tasks {
                task.await.unwrap();
            }
            let (low, high): (Vec<i32>, Vec<i32>) = got.into_iter().partition(|v| *v < 1000);
            assert_eq!(low, (0..100).collect::<Vec<_>>());
            assert_eq!(high, (1000..1100).collect::<Vec<_>>());
        });
    });
}

#[test]
fn local_try_errors_are_specific() {
    let (sender, mut receiver) = local::channel(1);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    let last = sender.clone();
    drop((sender, last));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    let (sender, receiver) = local::channel(1);
    drop(receiver);
    assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
}

#[test]
fn cross_thread_try_errors_are_specific() {
    let (mut sender, mut receiver) = spsc::channel(1);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    drop(sender);
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Err(TryRecvError::Closed)));
    let (sender, mut receiver) = mpsc::channel(1);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    drop(sender);
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Err(TryRecvError::Closed)));
    let (mut spsc_sender, receiver) = spsc::channel(1);
    drop(receiver);
    assert_eq!(spsc_sender.try_send(3), Err(TrySendError::Closed(3)));
    let (mpsc_sender, receiver) = mpsc::channel(1);
    drop(receiver);
    assert_eq!(mpsc_sender.try_send(3), Err(TrySendError::Closed(3)));
}

/// Without an ordering in the receiver, a weakly ordered CPU may show the end of a channel before
/// the last values. Miri finds this within a few seeds.
#[test]
fn values_before_last_sender_drop_arrive() {
    /// Receives values until the channel is closed, without waiting.
    fn count(mut try_recv: impl FnMut() -> Result<u32, TryRecvError>) -> u32 {
        let mut next = 0;
        loop {
            match try_recv() {
                Ok(value) => {
                    assert_eq!(value, next);
                    next += 1;
                }
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Closed) => return next,
            }
        }
    }
    for _ in 0..scaled(200) {
        let (mut sender, mut receiver) = spsc::channel(4);
        let thread =
            std::thread::spawn(move || (0..3).for_each(|value| sender.try_send(value).unwrap()));
        assert_eq!(count(|| receiver.try_recv()), 3);
        thread.join().unwrap();

        let (sender, mut receiver) = mpsc::channel(4);
        let thread =
            std::thread::spawn(move || (0..3).for_each(|value| sender.try_send(value).unwrap()));
        assert_eq!(count(|| receiver.try_recv()), 3);
        thread.join().unwrap();
    }
}

#[test]
fn spsc_connects_two_runtimes() {
    run_in_every_mode(|runtime| {
        let (mut sender, mut receiver) = spsc::channel(8);
        let thread = std::thread::spawn(move || {
            let mut runtime =
                busypoll::Runtime::builder().parking(busypoll::Parking::Park).build().unwrap();
            runtime.block_on(async {
                for i in 0..scaled(4_000) {
                    sender.send(i).await.unwrap();
                }
            });
        });
        runtime.block_on(async {
            for i in 0..scaled(4_000) {
                assert_eq!(receiver.recv().await, Some(i));
            }
            assert_eq!(receiver.recv().await, None);
        });
        thread.join().unwrap();
    });
}

#[test]
fn mpsc_keeps_order_per_thread() {
    run_in_every_mode(|runtime| {
        let (sender, mut receiver) = mpsc::channel(16);
        let threads: Vec<_> = (0..4_usize)
            .map(|id| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let mut runtime = busypoll::Runtime::builder()
                        .parking(busypoll::Parking::Park)
                        .build()
                        .unwrap();
                    runtime.block_on(async {
                        for i in 0..scaled(3_000) {
                            sender.send((id, i)).await.unwrap();
                        }
                    });
                })
            })
            .collect();
        drop(sender);
        runtime.block_on(async {
            let mut next = [0; 4];
            while let Some((id, i)) = receiver.recv().await {
                assert_eq!(i, next[id]);
                next[id] += 1;
            }
            assert_eq!(next, [scaled(3_000); 4]);
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn dropped_receiver_ends_waiting_sends() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (a, local_end) = local::channel(1);
            let (b, mpsc_end) = mpsc::channel(1);
            let (mut c, spsc_end) = spsc::channel(1);
            a.try_send(0).unwrap();
            b.try_send(0).unwrap();
            c.try_send(0).unwrap();
            let a = spawn_boxed(async move { a.send(1).await.is_err() });
            let b = spawn_boxed(async move { b.send(1).await.is_err() });
            let c = spawn_boxed(async move { c.send(1).await.is_err() });
            yield_now().await;
            yield_now().await;
            drop((local_end, mpsc_end, spsc_end));
            assert!(a.await.unwrap() && b.await.unwrap() && c.await.unwrap());
        });
    });
}

/// A waker that is identified by the `Arc` it owns.
struct Holder(#[allow(dead_code, reason = "counted, not read")] Arc<()>);

impl Wake for Holder {
    fn wake(self: Arc<Self>) {}
}

/// Polls a send that has to wait, with a waker that owns a clone of `held`.
fn poll_once(send: Pin<&mut (impl Future + ?Sized)>, held: &Arc<()>) {
    let waker = Waker::from(Arc::new(Holder(Arc::clone(held))));
    assert!(send.poll(&mut Context::from_waker(&waker)).is_pending(), "there is no room");
}

#[test]
fn cancelled_sends_leave_no_wakers() {
    for sends in [scaled(1_000), scaled(100_000)] {
        check_cancelled_sends(sends);
    }
}

fn check_cancelled_sends(count: u32) {
    let held = Arc::new(());
    let (local, _local_end) = local::channel(1);
    let (mpsc, _mpsc_end) = mpsc::channel(1);
    let (mut spsc, _spsc_end) = spsc::channel(1);
    local.try_send(0).unwrap();
    mpsc.try_send(0).unwrap();
    spsc.try_send(0).unwrap();
    for i in 0..count {
        poll_once(pin!(local.send(i)), &held);
        poll_once(pin!(mpsc.send(i)), &held);
        poll_once(pin!(spsc.send(i)), &held);
    }
    assert_eq!(Arc::strong_count(&held), 1, "one after the other");

    let mut sends: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    let (local, mpsc) = (&local, &mpsc);
    for i in 0..count {
        sends.push(Box::pin(async move { local.send(i).await.unwrap() }));
        sends.push(Box::pin(async move { mpsc.send(i).await.unwrap() }));
    }
    sends.iter_mut().for_each(|send| poll_once(send.as_mut(), &held));
    assert_eq!(Arc::strong_count(&held), 1 + sends.len());
    // When another task polls a send again, the new waker replaces the old one.
    sends.iter_mut().for_each(|send| poll_once(send.as_mut(), &held));
    assert_eq!(Arc::strong_count(&held), 1 + sends.len());
    drop(sends);
    assert_eq!(Arc::strong_count(&held), 1, "all at once");
}

/// As a ratio of medians, taken in turn: how fast the machine is does not matter, nor what else it
/// does.
#[cfg(not(miri))]
#[test]
#[allow(clippy::disallowed_methods, reason = "what is compared is what sends cost")]
fn cancelled_sends_stay_cheap() {
    const MANY: u32 = 100_000;
    /// Few, since these are given up as well, and the fresh channel is to stay fresh.
    const SENDS: u32 = 100;
    const ROUNDS: usize = 21;
    /// A search among those that were given up is several hundred times as dear as a send.
    const MOST: u32 = 50;

    /// Gives sends up on fresh channels, and as many on the other one.
    fn compare<S, R>(
        what: &str,
        full: impl Fn() -> (S, R),
        give_up: impl Fn(&mut S),
        other: &mut S,
    ) {
        let cost = |sender: &mut S| {
            let start = Instant::now();
            (0..SENDS).for_each(|_| give_up(sender));
            start.elapsed()
        };
        let cost_of_fresh = || {
            let (mut sender, _end) = full();
            cost(&mut sender)
        };
        let costs: (Vec<_>, Vec<_>) = (0..ROUNDS).map(|_| (cost_of_fresh(), cost(other))).unzip();
        let [fresh, other] = [costs.0, costs.1].map(|mut costs| {
            costs.sort_unstable();
            costs[ROUNDS / 2]
        });
        assert!(
            other <= fresh * MOST,
            "{what}: {SENDS} sends take {other:?}, on a fresh channel {fresh:?}"
        );
    }

    fn compare_with_past<S, R>(what: &str, full: impl Fn() -> (S, R), give_up: impl Fn(&mut S)) {
        let (mut past, _end) = full();
        (0..MANY).for_each(|_| give_up(&mut past));
        compare(&format!("{what}, many given up"), full, give_up, &mut past);
    }

    let held = Arc::new(());
    let full_local = || {
        let (sender, receiver) = local::channel(1);
        sender.try_send(0).unwrap();
        (sender, receiver)
    };
    let full_mpsc = || {
        let (sender, receiver) = mpsc::channel(1);
        sender.try_send(0).unwrap();
        (sender, receiver)
    };
    let full_spsc = || {
        let (mut sender, receiver) = spsc::channel(1);
        sender.try_send(0).unwrap();
        (sender, receiver)
    };
    let give_up_local = |sender: &mut local::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
    let give_up_mpsc = |sender: &mut mpsc::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
    let give_up_spsc = |sender: &mut spsc::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
    compare_with_past("local", full_local, give_up_local);
    compare_with_past("mpsc", full_mpsc, give_up_mpsc);
    compare_with_past("spsc", full_spsc, give_up_spsc);

    // Those that are not given up make one no dearer either.
    let (mut local, _local_end) = full_local();
    let (mut mpsc, _mpsc_end) = full_mpsc();
    let (other_local, other_mpsc) = (&local.clone(), &mpsc.clone());
    let mut sends: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for i in 0..MANY {
        sends.push(Box::pin(async move { other_local.send(i).await.unwrap() }));
        sends.push(Box::pin(async move { other_mpsc.send(i).await.unwrap() }));
    }
    sends.iter_mut().for_each(|send| poll_once(send.as_mut(), &held));
    compare("local, many wait", full_local, give_up_local, &mut local);
    compare("mpsc, many wait", full_mpsc, give_up_mpsc, &mut mpsc);
}

#[test]
fn cancelled_send_takes_no_slot() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let held = Arc::new(());
            let (sender, mut receiver) = mpsc::channel(1);
            sender.try_send(0).unwrap();
            let waiting = {
                let sender = sender.clone();
                spawn_boxed(async move { sender.send(1).await })
            };
            yield_now().await;
            {
                let mut given_up = pin!(sender.send(2));
                poll_once(given_up.as_mut(), &held);
                assert_eq!(receiver.recv().await, Some(0));
            }
            waiting.await.unwrap().unwrap();
            assert_eq!(receiver.recv().await, Some(1));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        });
    });
}
