//! Tests of wakers: used from any thread, after the end of the task, repeatedly, and in a storm.
#![allow(
    clippy::disallowed_methods,
    reason = "the other thread sleeps, so that the runtime is idle when it wakes"
)]
mod common;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use busypoll::{spawn_boxed, spawn_slab, yield_now};
use common::{run_in_every_mode, scaled};

#[derive(Default)]
struct Flag {
    set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Flag {
    fn raise(&self) {
        self.set.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            *self.waker.lock().unwrap() = Some(cx.waker().clone());
            if self.set.swap(false, Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[test]
fn plain_thread_wakes_root_and_tasks() {
    run_in_every_mode(|runtime| {
        let flags: [Arc<Flag>; 3] = Default::default();
        let remote_flags = flags.clone();
        let thread = std::thread::spawn(move || {
            for flag in remote_flags {
                std::thread::sleep(Duration::from_millis(20));
                flag.raise();
            }
        });
        let [root, boxed, slab] = flags;
        runtime.block_on(async {
            root.wait().await;
            spawn_boxed(async move { boxed.wait().await }).await.unwrap();
            spawn_slab(async move { slab.wait().await }).await.unwrap();
        });
        thread.join().unwrap();
    });
}

#[test]
fn alternating_threads_lose_no_wake() {
    run_in_every_mode(|runtime| {
        const TURNS: u32 = scaled(500);
        let ping = Arc::new(Flag::default());
        let pong = Arc::new(AtomicU32::new(0));
        let (ping2, pong2) = (Arc::clone(&ping), Arc::clone(&pong));
        let thread = std::thread::spawn(move || {
            for turn in 0..TURNS {
                ping2.raise();
                while pong2.load(Ordering::Acquire) <= turn {
                    std::thread::yield_now();
                }
            }
        });
        runtime.block_on(async {
            for turn in 1..=TURNS {
                ping.wait().await;
                pong.store(turn, Ordering::Release);
            }
        });
        thread.join().unwrap();
    });
}

#[test]
fn thread_wake_storm_starves_no_task() {
    run_in_every_mode(|runtime| {
        let polls = Arc::new(AtomicU32::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = std::sync::mpsc::channel::<Waker>();
        let threads: Vec<_> = {
            let counted = Arc::clone(&polls);
            let over = Arc::clone(&stop);
            let stormed = runtime.spawn_boxed(poll_fn(move |cx| {
                if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                    for _ in 0..8 {
                        send.send(cx.waker().clone()).unwrap();
                    }
                }
                if over.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
            }));
            runtime.block_on(yield_now());
            drop(stormed);
            (0..8)
                .map(|_| {
                    let waker = receive.recv().unwrap();
                    let stop = Arc::clone(&stop);
                    std::thread::spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            waker.wake_by_ref();
                            std::thread::yield_now();
                        }
                        waker.wake_by_ref();
                    })
                })
                .collect()
        };
        runtime.block_on(async {
            for _ in 0..scaled(50) {
                busypoll::time::sleep(Duration::from_micros(300)).await;
            }
            while polls.load(Ordering::Relaxed) < scaled(100) {
                yield_now().await;
            }
            stop.store(true, Ordering::Relaxed);
        });
        for thread in threads {
            thread.join().unwrap();
        }
        // The last wake of each thread follows the stop flag and must not be lost.
        assert!(runtime.drain(Duration::from_secs(300)).is_complete());
    });
}

#[test]
fn waker_outlives_task_and_runtime() {
    run_in_every_mode(|runtime| {
        let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
        runtime.block_on(async {
            for _ in 0..3 {
                let kept = Arc::clone(&kept);
                spawn_boxed(poll_fn(move |cx| {
                    kept.lock().unwrap().push(cx.waker().clone());
                    Poll::Ready(())
                }))
                .await
                .unwrap();
            }
            for waker in kept.lock().unwrap().iter() {
                waker.wake_by_ref();
            }
            // The entries are in use again, and the old wakers must not reach the new tasks.
            let polls = std::rc::Rc::new(std::cell::Cell::new(0));
            let counted = std::rc::Rc::clone(&polls);
            let task = spawn_boxed(poll_fn(move |_| {
                counted.set(counted.get() + 1);
                Poll::<()>::Pending
            }));
            yield_now().await;
            kept.lock().unwrap().iter().for_each(Waker::wake_by_ref);
            yield_now().await;
            yield_now().await;
            assert_eq!(polls.get(), 1);
            task.abort();
        });
        let replaced = std::mem::replace(runtime, busypoll::Runtime::new().unwrap());
        drop(replaced);
        let wakers = std::mem::take(&mut *kept.lock().unwrap());
        std::thread::spawn(move || wakers.into_iter().for_each(Waker::wake)).join().unwrap();
    });
}

/// Records the threads on which values were dropped.
struct DropRecorder(Arc<Mutex<Vec<std::thread::ThreadId>>>);

impl Drop for DropRecorder {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(std::thread::current().id());
    }
}

#[test]
fn futures_drop_on_runtime_thread() {
    run_in_every_mode(|runtime| {
        let drop_threads: Arc<Mutex<Vec<_>>> = Arc::default();
        let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let task = |polls: u32| {
            let recorder = DropRecorder(Arc::clone(&drop_threads));
            let kept = Arc::clone(&kept);
            let mut remaining = polls;
            poll_fn(move |cx| {
                let _owned = &recorder;
                kept.lock().unwrap().push(cx.waker().clone());
                remaining = remaining.saturating_sub(1);
                if remaining == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        runtime.block_on(async {
            let (boxed, slab) = (spawn_boxed(task(1)), spawn_slab(task(1)));
            let (aborted, detached) = (spawn_slab(task(u32::MAX)), spawn_boxed(task(u32::MAX)));
            boxed.await.unwrap();
            slab.await.unwrap();
            yield_now().await;
            aborted.abort();
            drop(detached);
            yield_now().await;
            yield_now().await;
        });
        // One task remains, whose wakers another thread keeps and calls while the runtime is
        // dropped.
        let stop = Arc::new(AtomicBool::new(false));
        let holder = {
            let (kept, stop) = (Arc::clone(&kept), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    kept.lock().unwrap().iter().for_each(Waker::wake_by_ref);
                    std::thread::yield_now();
                }
                let wakers = std::mem::take(&mut *kept.lock().unwrap());
                drop(wakers);
            })
        };
        let replaced = std::mem::replace(runtime, busypoll::Runtime::new().unwrap());
        drop(replaced);
        stop.store(true, Ordering::Relaxed);
        holder.join().unwrap();
        assert_eq!(*drop_threads.lock().unwrap(), [std::thread::current().id(); 4]);
    });
}
