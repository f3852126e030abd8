//! Compares the times of calls of a function with two inputs, one of which is 1.7 % longer.
//!
//!     cargo run --release --example one-per-cent
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use jitterstat::gate::calls::CallComparison;
use std::hint::black_box;
use std::time::Instant;

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn main() {
    let inputs = [&[1; 480][..], &[1; 488]];
    // Both closures come from one expression, so that both sides execute the same instructions.
    let [old, new] = inputs.map(|bytes| move || hash(black_box(bytes)));
    let started = Instant::now();
    let judged = CallComparison::new(0.005).run(|| started.elapsed(), old, new);
    // regressed: B is 1.0184 of A [1.0172, 1.0190], tolerated 1.0050; 50 pairs; 1.0045 would have been found
    println!("{judged}");
}
