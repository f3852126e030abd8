//! Many intervals at the same time, each in a separate task: with one timer for all, with tokio's
//! wheel, or with one descriptor per interval.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use osinterval::{IntervalGroup, OsInterval};
use serde_json::{Value, json};

use crate::contender::cpu_time;
use crate::quantile;

const PERIOD: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq)]
enum IntervalKind {
    /// One timer, with slots of this many microseconds.
    Group(u64),
    Tokio,
    OneEach,
}

const KINDS: [(IntervalKind, &str); 5] = [
    (IntervalKind::Tokio, "tokio::time::Interval"),
    (IntervalKind::Group(100), "IntervalGroup, slots of 100 us"),
    (IntervalKind::Group(250), "IntervalGroup, slots of 250 us"),
    (IntervalKind::Group(500), "IntervalGroup, slots of 500 us"),
    (IntervalKind::OneEach, "OsInterval each"),
];

struct Outcome {
    cpu_ns_per_tick: f64,
    p50_ns: f64,
    p99_ns: f64,
}

fn round(kind: IntervalKind, count: u32, ticks: u32, spread: bool) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let late: Arc<Mutex<Vec<u64>>> =
        Arc::new(Mutex::new(Vec::with_capacity((count * ticks) as usize)));
    let cpu = runtime.block_on(async {
        let slot_us = if let IntervalKind::Group(slot_us) = kind { slot_us } else { 100 };
        let group = IntervalGroup::builder().resolution(Duration::from_micros(slot_us)).build()?;
        let start = tokio::time::Instant::now() + Duration::from_millis(50);
        let mut tasks = Vec::new();
        for i in 0..count {
            let first = if spread { start + PERIOD * i / count } else { start };
            let late = Arc::clone(&late);
            let record = move |due: tokio::time::Instant| {
                let late_ns =
                    Instant::now().saturating_duration_since(due.into_std()).as_nanos() as u64;
                late.lock().expect("no panic").push(late_ns);
            };
            tasks.push(match kind {
                IntervalKind::Group(_) => {
                    let mut interval = group.interval_at(first, PERIOD);
                    tokio::spawn(async move {
                        for _ in 0..ticks {
                            record(interval.tick().await);
                        }
                    })
                }
                IntervalKind::Tokio => {
                    let mut interval = tokio::time::interval_at(first, PERIOD);
                    tokio::spawn(async move {
                        for _ in 0..ticks {
                            record(interval.tick().await);
                        }
                    })
                }
                IntervalKind::OneEach => {
                    let mut interval = OsInterval::builder(PERIOD).start_at(first).build()?;
                    tokio::spawn(async move {
                        for _ in 0..ticks {
                            record(interval.tick().await);
                        }
                    })
                }
            });
        }
        let before = cpu_time();
        for task in tasks {
            task.await.map_err(std::io::Error::other)?;
        }
        std::io::Result::Ok(cpu_time() - before)
    })?;
    let mut late: Vec<f64> = late.lock().expect("no panic").iter().map(|&l| l as f64).collect();
    Ok(Outcome {
        cpu_ns_per_tick: cpu.as_nanos() as f64 / f64::from(count * ticks),
        p50_ns: quantile(&mut late, 0.5),
        p99_ns: quantile(&mut late, 0.99),
    })
}

/// Compares a thousand intervals of 10 ms, first spread over the period, then in one phase.
pub fn compare() -> Value {
    let n = crate::rounds(9);
    const TICKS: u32 = 100;
    limit_descriptors(4_096);
    let mut result = json!({ "rounds": n });
    for (spread, phases) in [(true, "spread"), (false, "one phase")] {
        let mut cpu: Vec<Vec<f64>> = vec![Vec::new(); KINDS.len()];
        let mut p50 = cpu.clone();
        let mut p99 = cpu.clone();
        for index in 0..n {
            // The order rotates with each round.
            for slot in 0..KINDS.len() {
                let i = (slot + index) % KINDS.len();
                let outcome = round(KINDS[i].0, 1_000, TICKS, spread).expect("a round");
                cpu[i].push(outcome.cpu_ns_per_tick);
                p50[i].push(outcome.p50_ns);
                p99[i].push(outcome.p99_ns);
            }
        }
        let ratio = |i: usize| {
            quantile(&mut cpu[i].iter().zip(&cpu[0]).map(|(a, b)| a / b).collect::<Vec<_>>(), 0.5)
        };
        let ratios: Vec<f64> = (0..KINDS.len()).map(ratio).collect();
        for (i, (_, name)) in KINDS.iter().enumerate() {
            result[phases][name] = json!({
                "cpu_ns_per_tick": quantile(&mut cpu[i], 0.5), "cpu_against_tokio": ratios[i],
                "p50_ns": quantile(&mut p50[i], 0.5), "p99_ns": quantile(&mut p99[i], 0.5),
            });
        }
    }
    result
}

/// Runs ten thousand intervals with a limit of about a thousand descriptors.
pub fn many_under_a_limit() -> Value {
    limit_descriptors(1_024);
    let mut result = json!({});
    for (kind, name) in KINDS {
        result[name] = match round(kind, 10_000, 5, true) {
            Ok(outcome) => json!({ "p50_ns": outcome.p50_ns }),
            Err(error) => json!({ "error": error.to_string() }),
        };
    }
    result
}

fn limit_descriptors(limit: u64) {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a structure of ours.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut now);
        now.rlim_cur = limit.min(now.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &now);
    }
}
