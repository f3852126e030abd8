//! Any number of intervals at the same time, each in a separate task: with one timer for all, with
//! tokio's wheel, or with one descriptor per interval.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use osinterval::{IntervalGroup, IntervalTimer, OsInterval};
use serde_json::{Value, json};

use crate::contender::cpu_time;
use crate::quantile;

const PERIOD: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq)]
enum IntervalKind {
    /// One timer, with slots of this many microseconds.
    Group(u64),
    Tokio,
    Shared,
    OneEach,
    /// A new sleep for each tick.
    SleepUntil,
}

const KINDS: [(IntervalKind, &str); 6] = [
    (IntervalKind::Tokio, "tokio::time::Interval"),
    (IntervalKind::Group(100), "IntervalGroup, slots of 100 us"),
    (IntervalKind::Group(250), "IntervalGroup, slots of 250 us"),
    (IntervalKind::Group(500), "IntervalGroup, slots of 500 us"),
    (IntervalKind::Shared, "OsInterval"),
    (IntervalKind::OneEach, "OsInterval, a timer each"),
];

/// The kinds that are compared at each number of intervals.
const COUNTED: [(IntervalKind, &str); 4] = [
    (IntervalKind::Shared, "shared"),
    (IntervalKind::OneEach, "own"),
    (IntervalKind::SleepUntil, "sleep_until"),
    (IntervalKind::Tokio, "tokio"),
];

/// A period in microseconds, and the numbers of intervals that are measured at it.
const COUNTS: [(u64, &[u32]); 3] = [
    (1_000, &[1, 10, 100]),
    (10_000, &[1, 10, 100, 500, 1_000, 10_000]),
    (100_000, &[1_000, 10_000]),
];

struct Outcome {
    cpu_ns_per_tick: f64,
    core_percent: f64,
    p50_ns: f64,
    p99_ns: f64,
}

#[derive(Clone, Copy)]
struct Crowd {
    count: u32,
    period: Duration,
    ticks: u32,
    /// Whether the phases are spread over the period.
    spread: bool,
}

fn round(kind: IntervalKind, crowd: Crowd) -> std::io::Result<Outcome> {
    let Crowd { count, period, ticks, spread } = crowd;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let late: Arc<Mutex<Vec<u64>>> =
        Arc::new(Mutex::new(Vec::with_capacity((count * ticks) as usize)));
    let cpu = runtime.block_on(async {
        let slot_us = if let IntervalKind::Group(slot_us) = kind { slot_us } else { 100 };
        let group = IntervalGroup::builder().resolution(Duration::from_micros(slot_us)).build()?;
        let start = tokio::time::Instant::now() + Duration::from_millis(50);
        let mut tasks = Vec::new();
        for i in 0..count {
            let first = if spread { start + period.mul_f64(phase(i)) } else { start };
            let late = Arc::clone(&late);
            let record = move |due: tokio::time::Instant| {
                let late_ns =
                    Instant::now().saturating_duration_since(due.into_std()).as_nanos() as u64;
                late.lock().expect("no panic").push(late_ns);
            };
            tasks.push(match kind {
                IntervalKind::Group(_) => {
                    let mut interval = group.interval_at(first, period);
                    tokio::spawn(async move {
                        for _ in 0..ticks {
                            record(interval.tick().await);
                        }
                    })
                }
                IntervalKind::Tokio => {
                    let mut interval = tokio::time::interval_at(first, period);
                    tokio::spawn(async move {
                        for _ in 0..ticks {
                            record(interval.tick().await);
                        }
                    })
                }
                IntervalKind::SleepUntil => tokio::spawn(async move {
                    for k in 0..ticks {
                        let due = first + period * k;
                        osinterval::sleep_until(due).await;
                        record(due);
                    }
                }),
                IntervalKind::Shared | IntervalKind::OneEach => {
                    let timer = match kind {
                        IntervalKind::OneEach => IntervalTimer::Own,
                        _ => IntervalTimer::Shared,
                    };
                    let builder = OsInterval::builder(period).start_at(first);
                    let mut interval = builder.timer(timer).build()?;
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
    let wall = started.elapsed();
    let mut late: Vec<f64> = late.lock().expect("no panic").iter().map(|&l| l as f64).collect();
    Ok(Outcome {
        cpu_ns_per_tick: cpu.as_nanos() as f64 / f64::from(count * ticks),
        core_percent: cpu.as_nanos() as f64 / wall.as_nanos() as f64 * 100.0,
        p50_ns: quantile(&mut late, 0.5),
        p99_ns: quantile(&mut late, 0.99),
    })
}

/// Returns the phase of an interval as a part of its period: multiples of the golden ratio, which
/// spread any number of intervals without order.
fn phase(index: u32) -> f64 {
    (f64::from(index) * 0.618_033_988_749_894_9).fract()
}

/// Compares the kinds of interval at each number of intervals and each period.
pub fn compare_counts() -> Value {
    /// The span of a round, unless it has few ticks.
    const SPAN_US: u64 = 300_000;
    /// Rounds of many intervals are shorter.
    const MAX_TICKS: u32 = 100_000;
    let n = crate::rounds(7);
    limit_descriptors(1 << 20);
    let mut table = Vec::new();
    for (period_us, counts) in COUNTS {
        for &count in counts {
            let ticks =
                (SPAN_US / period_us).clamp(5, u64::from((MAX_TICKS / count).max(5))) as u32;
            let period = Duration::from_micros(period_us);
            let crowd = Crowd { count, period, ticks, spread: true };
            let mut rounds: Vec<Vec<Outcome>> = COUNTED.iter().map(|_| Vec::new()).collect();
            for index in 0..n {
                for slot in 0..COUNTED.len() {
                    let i = (slot + index) % COUNTED.len();
                    rounds[i].push(round(COUNTED[i].0, crowd).expect("a round"));
                }
            }
            let median = |rounds: &[Outcome], value: &dyn Fn(&Outcome) -> f64| {
                quantile(&mut rounds.iter().map(value).collect::<Vec<_>>(), 0.5)
            };
            // Of the rounds next to each other, since the machine changes over time.
            let ratio = |i: usize, value: &dyn Fn(&Outcome) -> f64| {
                let pairs = rounds[0].iter().zip(&rounds[i]);
                quantile(&mut pairs.map(|(a, b)| value(a) / value(b)).collect::<Vec<_>>(), 0.5)
            };
            let mut row =
                json!({ "count": count, "period_us": period_us, "ticks": ticks, "rounds": n });
            for (i, (_, name)) in COUNTED.iter().enumerate() {
                row[name] = json!({
                    "p50_ns": median(&rounds[i], &|r| r.p50_ns),
                    "p99_ns": median(&rounds[i], &|r| r.p99_ns),
                    "cpu_ns_per_tick": median(&rounds[i], &|r| r.cpu_ns_per_tick),
                    "core_percent": median(&rounds[i], &|r| r.core_percent),
                    "shared_p50_ratio": ratio(i, &|r| r.p50_ns),
                    "shared_cpu_ratio": ratio(i, &|r| r.cpu_ns_per_tick),
                });
            }
            table.push(row);
        }
    }
    json!(table)
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
                let crowd = Crowd { count: 1_000, period: PERIOD, ticks: TICKS, spread };
                let outcome = round(KINDS[i].0, crowd).expect("a round");
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
        let crowd = Crowd { count: 10_000, period: PERIOD, ticks: 5, spread: true };
        result[name] = match round(kind, crowd) {
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
