//! Tests of the channels: every value arrives once and in order, and waiting ends when the other
//! side is dropped.
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

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
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Pauses for up to some tens of microseconds after one message in four on average, so that either
/// side finds the channel empty or full at any moment of the other's wait.
struct RandomPauses(u64);

impl RandomPauses {
    fn pause(&mut self) {
        // Xorshift, by G. Marsaglia (2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if self.0.is_multiple_of(4) {
            let spins = (self.0 >> 32) % u64::from(scaled(2_000));
            (0..spins).for_each(|_| std::hint::spin_loop());
        }
    }
}

/// Sends numbered values from threads that pause, each through its half of a channel, and checks
/// that all arrive. Every third one is received without waiting if it is there.
macro_rules! check_paused_threads {
    ($runtime:ident, $senders:expr, $receiver:ident) => {{
        let mut threads = Vec::new();
        for (id, sender) in $senders.into_iter().enumerate() {
            threads.push(std::thread::spawn(move || {
                let (mut sender, mut pauses) = (sender, RandomPauses(0x9e37_79b9 + id as u64));
                let parking = busypoll::Parking::Park;
                let runtime = busypoll::Runtime::builder().parking(parking).build();
                runtime.unwrap().block_on(async {
                    for i in 0..scaled(1_000) {
                        // Only the sender of an spsc channel is borrowed mutably.
                        let sender = &mut sender;
                        sender.send((id, i)).await.unwrap();
                        pauses.pause();
                    }
                });
            }));
        }
        let mut next = vec![0; threads.len()];
        $runtime.block_on(async {
            for received in 1_u32.. {
                let value = match received % 3 {
                    0 => $receiver.try_recv().ok(),
                    _ => None,
                };
                let Some((id, i)) = (match value {
                    Some(value) => Some(value),
                    None => $receiver.recv().await,
                }) else {
                    break;
                };
                assert_eq!(i, next[id]);
                next[id] += 1;
            }
        });
        assert!(next.iter().all(|&count| count == scaled(1_000)), "{next:?}");
        for thread in threads {
            thread.join().unwrap();
        }
    }};
}

#[test]
fn paused_threads_lose_no_wake() {
    run_in_every_mode(|runtime| {
        // Through the first capacity every message waits.
        for capacity in [1, 7] {
            let (sender, mut receiver) = spsc::channel(capacity);
            check_paused_threads!(runtime, [sender], receiver);
            let (sender, mut receiver) = mpsc::channel(capacity);
            check_paused_threads!(runtime, [sender.clone(), sender], receiver);
        }
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

/// A value whose destructor panics once.
struct PanicOnDrop(bool);

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        if std::mem::take(&mut self.0) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

#[test]
fn panicking_value_ends_waiting_sends() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let (a, local_end) = local::channel(1);
            let (b, mpsc_end) = mpsc::channel(1);
            let (mut c, spsc_end) = spsc::channel(1);
            assert!(a.try_send(PanicOnDrop(true)).is_ok());
            assert!(b.try_send(PanicOnDrop(true)).is_ok());
            assert!(c.try_send(PanicOnDrop(true)).is_ok());
            let a = spawn_boxed(async move { a.send(PanicOnDrop(false)).await.is_err() });
            let b = spawn_boxed(async move { b.send(PanicOnDrop(false)).await.is_err() });
            let c = spawn_boxed(async move { c.send(PanicOnDrop(false)).await.is_err() });
            yield_now().await;
            yield_now().await;
            assert!(catch_unwind(AssertUnwindSafe(|| drop(local_end))).is_err());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(mpsc_end))).is_err());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(spsc_end))).is_err());
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
    assert!(send.poll(&mut Context::from_waker(&waker)).is_pending(), "the channel must be full");
}

type BoxedSend<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

#[test]
fn cancelled_sends_leave_no_wakers() {
    for sends in [scaled(1_000), scaled(100_000)] {
        check_successive_sends(sends);
        check_simultaneous_sends(sends);
    }
}

/// Cancels sends one after the other.
fn check_successive_sends(count: u32) {
    let held = Arc::new(());
    let (local, _local_end) = full_local();
    let (mpsc, _mpsc_end) = full_mpsc();
    let (mut spsc, _spsc_end) = full_spsc();
    for i in 0..count {
        poll_once(pin!(local.send(i)), &held);
        poll_once(pin!(mpsc.send(i)), &held);
        poll_once(pin!(spsc.send(i)), &held);
    }
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Cancels sends that wait at the same time.
fn check_simultaneous_sends(count: u32) {
    let held = Arc::new(());
    let (local, _local_end) = full_local();
    let (mpsc, _mpsc_end) = full_mpsc();
    let mut sends = box_sends(&local, &mpsc, count);
    for send in &mut sends {
        poll_once(send.as_mut(), &held);
    }
    assert_eq!(Arc::strong_count(&held), 1 + sends.len());
    // When another task polls a send again, the new waker replaces the old one.
    for send in &mut sends {
        poll_once(send.as_mut(), &held);
    }
    assert_eq!(Arc::strong_count(&held), 1 + sends.len());
    drop(sends);
    assert_eq!(Arc::strong_count(&held), 1);
}

fn full_local() -> (local::Sender<u32>, local::Receiver<u32>) {
    let (sender, receiver) = local::channel(1);
    sender.try_send(0).unwrap();
    (sender, receiver)
}

fn full_mpsc() -> (mpsc::Sender<u32>, mpsc::Receiver<u32>) {
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(0).unwrap();
    (sender, receiver)
}

fn full_spsc() -> (spsc::Sender<u32>, spsc::Receiver<u32>) {
    let (mut sender, receiver) = spsc::channel(1);
    sender.try_send(0).unwrap();
    (sender, receiver)
}

/// Returns `count` sends on each channel.
fn box_sends<'a>(
    local: &'a local::Sender<u32>,
    mpsc: &'a mpsc::Sender<u32>,
    count: u32,
) -> Vec<BoxedSend<'a>> {
    let mut sends: Vec<BoxedSend<'a>> = Vec::new();
    for i in 0..count {
        sends.push(Box::pin(async move { local.send(i).await.unwrap() }));
        sends.push(Box::pin(async move { mpsc.send(i).await.unwrap() }));
    }
    sends
}

/// Compares the cost of sends as a ratio of medians over alternating rounds, so that neither the
/// speed of the machine nor a disturbance matters.
#[cfg(not(miri))]
mod cost {
    #![allow(clippy::disallowed_methods, reason = "these tests measure the cost of sends")]

    use std::pin::pin;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{box_sends, full_local, full_mpsc, full_spsc, local, mpsc, poll_once, spsc};

    const PAST_SENDS: u32 = 100_000;
    /// Few enough that a fresh channel stays fresh, since these sends are cancelled as well.
    const TIMED_SENDS: u32 = 100;
    const ROUNDS: usize = 21;
    /// A search among the cancelled sends would cost several hundred times as much as a send.
    const MAX_COST_RATIO: u32 = 50;

    /// Compares cancelled sends on `tested` with those on fresh channels.
    fn compare_with_fresh<S, R>(
        name: &str,
        new_full: impl Fn() -> (S, R),
        cancel_send: impl Fn(&mut S),
        tested: &mut S,
    ) {
        let measure = |sender: &mut S| {
            let start = Instant::now();
            for _ in 0..TIMED_SENDS {
                cancel_send(sender);
            }
            start.elapsed()
        };
        let (mut fresh_costs, mut tested_costs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (mut fresh, _end) = new_full();
            fresh_costs.push(measure(&mut fresh));
            tested_costs.push(measure(tested));
        }
        let (fresh, tested) = (median(fresh_costs), median(tested_costs));
        assert!(
            tested <= fresh * MAX_COST_RATIO,
            "{name}: {TIMED_SENDS} sends take {tested:?}, and {fresh:?} on a fresh channel"
        );
    }

    fn median(mut costs: Vec<Duration>) -> Duration {
        costs.sort_unstable();
        costs[costs.len() / 2]
    }

    /// Compares a channel on which many sends were cancelled with fresh channels.
    fn compare_after_past_sends<S, R>(
        name: &str,
        new_full: impl Fn() -> (S, R),
        cancel_send: impl Fn(&mut S),
    ) {
        let (mut used, _end) = new_full();
        for _ in 0..PAST_SENDS {
            cancel_send(&mut used);
        }
        compare_with_fresh(name, new_full, cancel_send, &mut used);
    }

    #[test]
    fn cancelled_sends_stay_cheap_after_many() {
        let held = Arc::new(());
        let cancel_local = |sender: &mut local::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
        let cancel_mpsc = |sender: &mut mpsc::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
        let cancel_spsc = |sender: &mut spsc::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
        compare_after_past_sends("local", full_local, cancel_local);
        compare_after_past_sends("mpsc", full_mpsc, cancel_mpsc);
        compare_after_past_sends("spsc", full_spsc, cancel_spsc);
    }

    #[test]
    fn cancelled_sends_stay_cheap_among_waiters() {
        let held = Arc::new(());
        let (mut local, _local_end) = full_local();
        let (mut mpsc, _mpsc_end) = full_mpsc();
        let (local_clone, mpsc_clone) = (local.clone(), mpsc.clone());
        let mut sends = box_sends(&local_clone, &mpsc_clone, PAST_SENDS);
        for send in &mut sends {
            poll_once(send.as_mut(), &held);
        }
        let cancel_local = |sender: &mut local::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
        let cancel_mpsc = |sender: &mut mpsc::Sender<u32>| poll_once(pin!(sender.send(1)), &held);
        compare_with_fresh("local", full_local, cancel_local, &mut local);
        compare_with_fresh("mpsc", full_mpsc, cancel_mpsc, &mut mpsc);
    }
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
                let mut cancelled = pin!(sender.send(2));
                poll_once(cancelled.as_mut(), &held);
                assert_eq!(receiver.recv().await, Some(0));
            }
            waiting.await.unwrap().unwrap();
            assert_eq!(receiver.recv().await, Some(1));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        });
    });
}
