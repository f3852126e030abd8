//! What one look of the gate costs: the statistics of all pairs so far, both percentiles.
//!
//! `cargo bench --bench look`. A gate takes at most one look at 400 pairs, between two rounds.

use divan::{Bencher, black_box};
use jitterstat::gate::decision::{Rules, look};
use jitterstat::gate::round::{Late, Pair, RoundValue};
use jitterstat::stats::signed_rank::SignedRank;

fn main() {
    divan::main();
}

/// Values without a generator: the multiples of an irrational number, from -1 to 1. Each side has
/// one of its own, so that no two differences are the same.
fn wobble(i: usize, irrational: f64) -> f64 {
    (i as f64 * irrational).fract() * 2.0 - 1.0
}

/// Of the golden and of the plastic ratio, their fractions.
const GOLDEN: f64 = 0.618_033_988_749_895;
const PLASTIC: f64 = 0.324_717_957_244_746;

fn pairs(n: usize) -> Vec<Pair> {
    let late = |ln: f64| Late { ln, ln_unstalled: ln };
    let side = |noise: f64| RoundValue {
        median: late(14e3_f64.ln() + 0.3 * noise),
        tail: late(48e3_f64.ln() + noise),
    };
    (0..n).map(|i| Pair { a: side(wobble(i, GOLDEN)), b: side(wobble(i, PLASTIC)) }).collect()
}

/// Everything between the values of the rounds and the outcome.
#[divan::bench(args = [50, 100, 200, 400])]
fn look_at_pairs(bencher: Bencher<'_, '_>, n: usize) {
    let (pairs, rules) = (pairs(n), Rules::new(500_000));
    bencher.bench_local(|| look(black_box(&pairs), &rules, false));
}

/// Of that, the exact distribution of the signed-rank statistic for one number of pairs.
#[divan::bench(args = [50, 100, 200, 400])]
fn distribution(n: usize) -> SignedRank {
    SignedRank::new(black_box(n))
}
