//! What a poll, a task's life and a channel's send and receive cost, in busypoll and in nexus-async-rt.
//!
//! Both are measured by the same code, in turns within one process, `ROUNDS` times; the table gives medians over rounds
//! in nanoseconds an operation, and the ratio.
//!
//! `cargo run --release -p peer-dispatch` in scripts/peers.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measuring program reads the clock and prints")]

use std::time::Instant;

const ROUNDS: usize = 25;
const OPS: u32 = 100_000;

fn per_op(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(OPS)
}

macro_rules! side {
    ($name:ident, $runtime:ident, $run:ident, $make:expr) => {
        mod $name {
            use super::*;
            use ::$runtime as rt;

            async fn self_wakes() -> f64 {
                let start = Instant::now();
                let mut left = OPS;
                let _ = rt::spawn_boxed(std::future::poll_fn(move |cx| {
                    if left == 0 {
                        return std::task::Poll::Ready(());
                    }
                    left -= 1;
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                }))
                .await;
                per_op(start)
            }

            async fn lives() -> f64 {
                let start = Instant::now();
                for i in 0..OPS {
                    let _ = std::hint::black_box(rt::spawn_slab(async move { i }).await);
                }
                per_op(start)
            }

            macro_rules! channel {
                ($channel:ident) => {{
                    #[allow(unused_mut)]
                    let (mut sender, mut receiver) = rt::channel::$channel::channel::<u64>(64);
                    let start = Instant::now();
                    for i in 0..OPS {
                        let _ = std::hint::black_box(sender.try_send(u64::from(i)));
                        let _ = std::hint::black_box(receiver.try_recv());
                    }
                    per_op(start)
                }};
            }

            async fn all() -> [f64; 5] {
                [self_wakes().await, lives().await, channel!(local), channel!(mpsc), channel!(spsc)]
            }

            pub fn round() -> [f64; 5] {
                $make(|runtime: &mut rt::Runtime| runtime.$run(all()))
            }
        }
    };
}

side!(ours, busypoll, block_on, |f: fn(&mut rt::Runtime) -> [f64; 5]| {
    f(&mut rt::Runtime::builder().slab(256, 64).build().expect("the kernel gives an event queue"))
});
side!(theirs, nexus_async_rt, block_on_busy, |f: fn(&mut rt::Runtime) -> [f64; 5]| {
    let mut world = nexus_rt::WorldBuilder::new().build();
    // SAFETY: the slab goes straight into the one runtime of this thread, as its constructor asks.
    let slab = unsafe { nexus_slab::byte::unbounded::Slab::<256>::with_chunk_capacity(64) };
    f(&mut rt::Runtime::builder(&mut world).slab_unbounded(slab).build())
});

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut rounds = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            rounds.0.push(ours::round());
            rounds.1.push(theirs::round());
        } else {
            rounds.1.push(theirs::round());
            rounds.0.push(ours::round());
        }
    }
    println!("{:<28}{:>10}{:>16}{:>8}", "ns an operation, median", "busypoll", "nexus-async-rt", "ratio");
    let names = ["self-wake, poll", "spawn to join, slab", "local send+recv", "mpsc send+recv", "spsc send+recv"];
    for (i, name) in names.into_iter().enumerate() {
        let (a, b) = (median(rounds.0.iter().map(|r| r[i]).collect()), median(rounds.1.iter().map(|r| r[i]).collect()));
        println!("{name:<28}{a:>10.1}{b:>16.1}{:>8.2}", a / b);
    }
}
