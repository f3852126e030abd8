//! tokio's interval on a runtime of two threads, unchanged and with two options behind
//! `--cfg tokio_unstable`: the alternative timer, and the eager hand-off of the driver.
//! `scripts/results/publish.py tokio-unstable` builds and runs it.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::contender::{Contender, Round, run_on};
use crate::{quantile, rounds};

const VARIANTS: [&str; 4] = ["as it is", "alternative timer", "eager hand-off", "both"];
const PERIODS_US: [u64; 3] = [500, 2_000, 10_000];
/// Duration of a round.
const ROUND_DURATION: Duration = Duration::from_millis(500);

fn runtime(variant: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    if variant % 2 == 1 {
        builder.enable_alt_timer();
    }
    if variant / 2 == 1 {
        builder.enable_eager_driver_handoff();
    }
    builder.build().expect("a runtime")
}

pub fn compare() -> Value {
    let n = rounds(20);
    let mut random = SmallRng::seed_from_u64(5);
    let mut result = json!({ "rounds": n, "tokio": "behind --cfg tokio_unstable", "threads": 2 });
    for period_us in PERIODS_US {
        let period = Duration::from_micros(period_us);
        let ticks = (ROUND_DURATION.as_micros() / period.as_micros()) as u64;
        let mut kept: Vec<Vec<Round>> = VARIANTS.iter().map(|_| Vec::new()).collect();
        for _ in 0..n {
            let mut order: Vec<usize> = (0..VARIANTS.len()).collect();
            order.shuffle(&mut random);
            // All variants have the same phase, which determines the lateness on tokio's wheel.
            let phase = Duration::from_millis(1).mul_f64(random.random());
            for variant in order {
                kept[variant].push(run_on(
                    runtime(variant),
                    Contender::Tokio,
                    period,
                    ticks,
                    5,
                    phase,
                ));
            }
        }
        for (name, rounds) in VARIANTS.iter().zip(&kept) {
            let middle = |f: &dyn Fn(&Round) -> f64| {
                quantile(&mut rounds.iter().map(f).collect::<Vec<_>>(), 0.5)
            };
            result[format!("{period_us} us")][*name] = json!({
                "p50_ns": middle(&|r| r.lateness(0.5)), "p90_ns": middle(&|r| r.lateness(0.9)),
                "p99_ns": middle(&|r| r.lateness(0.99)), "cpu_ns_per_tick": middle(&Round::cpu_ns_per_tick),
            });
        }
    }
    result
}
