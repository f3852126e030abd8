//! Measures the cost of the bridge to tokio: polling inside a tokio runtime, and a wake from its
//! thread.
//!
//! Run it with `cargo bench -p busypoll --features tokio-compat --bench bridge`. It prints medians
//! over alternating rounds. The difference between the first two values is the cost of the bridge.
#![allow(clippy::print_stdout, reason = "a measuring program prints")]
#![allow(clippy::disallowed_methods, reason = "a measuring program reads the clock")]

use std::time::Instant;

use busypoll::compat::with_tokio;
use busypoll::{Runtime, yield_now};

const POLLS: u32 = 20_000;
const MESSAGES: u32 = 2_000;

async fn polls() {
    for _ in 0..POLLS {
        yield_now().await;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> std::io::Result<()> {
    // Without the argument of `cargo bench`, a single round only tests the program.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 51 } else { 1 };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let mut runtime = Runtime::new()?;
    let mut ns = [const { Vec::new() }; 3];
    let mut per = |slot: usize, start: Instant, count: u32| {
        ns[slot].push(start.elapsed().as_nanos() as f64 / f64::from(count));
    };
    for _ in 0..rounds {
        let start = Instant::now();
        runtime.block_on(polls());
        per(0, start, POLLS);

        let start = Instant::now();
        runtime.block_on(with_tokio(tokio.handle(), polls()));
        per(1, start, POLLS);

        // A message to tokio's thread and back causes two wakes across threads.
        let (to_tokio, mut at_tokio) = tokio::sync::mpsc::channel::<u32>(1);
        let (to_busypoll, mut at_busypoll) = tokio::sync::mpsc::channel::<u32>(1);
        let echo = tokio.spawn(async move {
            while let Some(number) = at_tokio.recv().await {
                if to_busypoll.send(number).await.is_err() {
                    break;
                }
            }
        });
        let start = Instant::now();
        runtime.block_on(async {
            for number in 0..MESSAGES {
                to_tokio.send(number).await.expect("tokio's side is there");
                assert_eq!(at_busypoll.recv().await, Some(number));
            }
        });
        per(2, start, MESSAGES);
        drop(to_tokio);
        runtime.block_on(echo).expect("tokio's side ended well");
    }
    let names =
        ["a poll that wakes itself", "the same, inside tokio", "to tokio's thread and back"];
    println!("{:<28}{:>10}", "ns, median of rounds", "busypoll");
    for (name, values) in names.into_iter().zip(ns) {
        println!("{name:<28}{:>10.1}", median(values));
    }
    Ok(())
}
