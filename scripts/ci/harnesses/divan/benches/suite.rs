//! Benchmarks of divan. `WORK` is the length of one of them, in per cent.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

#[divan::bench(args = [100, 1000])]
fn sort(bencher: Bencher, count: usize) {
    let unsorted: Vec<usize> = (0..count).map(|index| index * 7919 % 1009).collect();
    println!("{count} numbers");
    let bencher = bencher.counter(ItemsCount::new(count)).with_inputs(|| unsorted.clone());
    bencher.bench_refs(|numbers| numbers.sort_unstable());
}

#[divan::bench(threads = [1, 2])]
fn work(bencher: Bencher) {
    let percent: u64 = std::env::var("WORK").map_or(100, |work| work.parse().unwrap());
    bencher.bench(|| (0..50 * percent).map(black_box).sum::<u64>());
}

/// It never calls the bencher.
#[divan::bench]
fn unused(_: Bencher) {}
