//! The cost of one look of the gate: the statistics of all pairs so far, for both percentiles.
//!
//! Run with `cargo bench --bench look`. A gate makes at most one look at 400 pairs, between two
//! rounds.

use divan::{Bencher, black_box};
use jitterstat::gate::decision::{Rules, look};
use jitterstat::gate::round::{Late, Pair, RoundValue};
use jitterstat::stats::signed_rank::SignedRank;

fn main() {
    divan::main();
}

/// Returns pseudo-random values between -1 and 1: the multiples of an irrational number. Each side
/// uses a different number, so that no two differences are equal.
fn wobble(i: usize, irrational: f64) -> f64 {
    (i as f64 * irrational).fract() * 2.0 - 1.0
}

/// Fractional parts of the golden ratio and of the plastic ratio.
const GOLDEN: f64 = 0.618_033_988_749_895;
const PLASTIC: f64 = 0.324_717_957_244_746;

fn pairs(n: usize) -> Vec<Pair> {
    let late = |ln: f64| Late { ln, ln_unstalled: ln };
    let side = |noise: f64| RoundValue {
        median: late(14e3_f64.ln() + 0.3 * noise),
        tail: late(48e3_f64.ln() + noise),
    };
    (0..n)
        .map(|i| Pair { base: side(wobble(i, GOLDEN)), candidate: side(wobble(i, PLASTIC)) })
        .collect()
}

/// Measures the path from the values of the rounds to the outcome.
#[divan::bench(args = [50, 100, 200, 400])]
fn look_at_pairs(bencher: Bencher<'_, '_>, n: usize) {
    let (pairs, rules) = (pairs(n), Rules::new(500_000));
    bencher.bench_local(|| look(black_box(&pairs), &rules, false));
}

/// Measures a part of it: the exact distribution of the signed-rank statistic for one number of
/// pairs.
#[divan::bench(args = [50, 100, 200, 400])]
fn distribution(n: usize) -> SignedRank {
    SignedRank::new(black_box(n))
}
