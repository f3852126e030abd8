//! Channels: everything arrives once, in order; waiting ends on either side's end.
mod common;

use busypoll::channel::{TryRecvError, TrySendError, local, mpsc, spsc};
use busypoll::{spawn_boxed, yield_now};
use common::{in_every_mode, scaled};

#[test]
fn local_keeps_order_and_waits_for_room() {
    in_every_mode(|runtime| {
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
fn local_try_ends_say_why() {
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
fn cross_thread_try_ends_say_why() {
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
    let (mut one, receiver) = spsc::channel(1);
    drop(receiver);
    assert_eq!(one.try_send(3), Err(TrySendError::Closed(3)));
    let (many, receiver) = mpsc::channel(1);
    drop(receiver);
    assert_eq!(many.try_send(3), Err(TrySendError::Closed(3)));
}

#[test]
fn spsc_from_one_runtime_to_another() {
    in_every_mode(|runtime| {
        let (mut sender, mut receiver) = spsc::channel(8);
        let thread = std::thread::spawn(move || {
            let mut runtime = busypoll::Runtime::builder().parking(busypoll::Parking::Park).build().unwrap();
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
fn mpsc_from_four_threads_each_in_order() {
    in_every_mode(|runtime| {
        let (sender, mut receiver) = mpsc::channel(16);
        let threads: Vec<_> = (0..4_usize)
            .map(|id| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let mut runtime = busypoll::Runtime::builder().parking(busypoll::Parking::Park).build().unwrap();
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
fn a_sender_that_waits_learns_that_the_receiver_went() {
    in_every_mode(|runtime| {
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
