//! Compares the times of calls of two functions, one of which does one per cent more.
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
    let (old, new) = ([1; 300], [1; 303]);
    let started = Instant::now();
    let judged = CallComparison::new(0.005).run(
        || started.elapsed(),
        || hash(black_box(&old)),
        || hash(black_box(&new)),
    );
    // regressed: B is 1.0099 of A [1.0094, 1.0104], tolerated 1.0050; 50 pairs; 1.0052 would have been found
    println!("{judged}");
}
