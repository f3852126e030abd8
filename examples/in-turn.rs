//! Compares two functions of one program, like a test. Fails if the tail of the new one is longer.
//!
//!     cargo run --release --example in-turn
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;

fn old(i: u32) {
    black_box((0..2_000 + i % 7).map(black_box).sum::<u32>());
}

fn new(i: u32) {
    let mut sum = 0;
    for x in 0..2_000 + i % 7 {
        sum += black_box(x);
    }
    black_box(sum);
}

use jitterstat::gate::in_turn::InTurn;
use jitterstat::stats::quantile::nearest_rank;
use std::time::Instant;

fn p99_ns(handle: impl Fn(u32)) -> f64 {
    let timed = |i| {
        let started = Instant::now();
        handle(i);
        started.elapsed().as_nanos() as i64
    };
    let mut samples: Vec<i64> = (0..1000).map(timed).collect();
    samples.sort_unstable();
    nearest_rank(&samples, 0.99).expect("a thousand samples") as f64
}

// In a project, this function is a `#[test]`.
fn tail_is_not_longer() {
    let judged = InTurn::lower_is_better(0.20).run(|| p99_ns(old), || p99_ns(new));
    // pass: B is 1.000 of A [0.968, 1.041], tolerated 1.200; 200 pairs; 1.179 would have been found
    println!("{judged}");
    judged.assert_no_regression();
}

fn main() {
    tail_is_not_longer();
}
