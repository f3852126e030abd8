//! Measures the cost and the lateness of a group by the length of its slots.
//!
//! A group has 1,000 intervals of 10 ms, spread evenly, in slots of 100 us to 1 ms. Each length is
//! compared with a thread that sleeps as often, which shows the cost of a wake-up at that rate, and
//! all are compared with tokio's interval.
//!
//! `scripts/results/publish.py slots` runs this program, which prints JSON, and writes the table. Only Linux counts
//! the wake-ups of a thread, so it does nothing on other systems.
#![allow(clippy::print_stdout, reason = "a measuring program prints")]
#![allow(clippy::disallowed_methods, reason = "a measuring program reads the clock and sleeps")]
#![allow(clippy::unwrap_used, reason = "a measuring program may panic")]

use std::time::{Duration, Instant};

use osinterval::{GroupInterval, IntervalGroup};

const INTERVALS: u32 = 1_000;
const PERIOD: Duration = Duration::from_millis(10);
const TICKS: u32 = 100;
const ROUNDS: usize = 7;
const SLOTS_US: [u64; 6] = [100, 150, 250, 400, 600, 1_000];

#[derive(Clone, Copy)]
enum Contender {
    Group(u64),
    Nanosleep(u64),
    Tokio,
}

impl Contender {
    fn name(self) -> String {
        match self {
            Self::Group(us) => format!("group-{us}us"),
            Self::Nanosleep(us) => format!("nanosleep-{us}us"),
            Self::Tokio => "tokio".to_owned(),
        }
    }
}

/// The resource usage of this thread.
struct Usage {
    cpu_ns: u64,
    /// Voluntary switches: one for each time that the thread went to sleep.
    switches: u64,
}

fn read_usage() -> Usage {
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/{file}")).unwrap();
    let cpu_ns = read("schedstat").split(' ').next().unwrap().parse().unwrap();
    let status = read("status");
    let switches =
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    Usage { cpu_ns, switches: switches.trim().parse().unwrap() }
}

/// The results of one round.
#[derive(Clone, Copy, Default)]
struct Round {
    wakeups: f64,
    cpu_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
}

fn measure_round(contender: Contender) -> Round {
    let (round, mut late) = match contender {
        Contender::Nanosleep(us) => return measure_nanosleep(Duration::from_micros(us)),
        Contender::Group(us) => measure_intervals(Some(us)),
        Contender::Tokio => measure_intervals(None),
    };
    late.sort_unstable();
    let quantile = |q: f64| late[(late.len() as f64 * q) as usize] as f64;
    Round { p50_ns: quantile(0.5), p99_ns: quantile(0.99), ..round }
}

/// A round with the usage since `before`.
fn round_since(before: &Usage) -> Round {
    let after = read_usage();
    Round {
        wakeups: (after.switches - before.switches) as f64,
        cpu_ns: (after.cpu_ns - before.cpu_ns) as f64,
        ..Round::default()
    }
}

fn lateness_ns(due: tokio::time::Instant) -> u64 {
    Instant::now().saturating_duration_since(due.into_std()).as_nanos() as u64
}

/// Runs each interval in a task, all on this thread: those of a group with slots of this length, or
/// tokio's. Returns the usage and the lateness of each tick.
fn measure_intervals(slot_us: Option<u64>) -> (Round, Vec<u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let resolution = Duration::from_micros(slot_us.unwrap_or(1));
        let group = IntervalGroup::builder().resolution(resolution).build().unwrap();
        let start = tokio::time::Instant::now() + Duration::from_millis(30);
        let mut tasks = Vec::new();
        for i in 0..INTERVALS {
            let first = start + PERIOD * i / INTERVALS;
            let late = Vec::with_capacity(TICKS as usize);
            tasks.push(if slot_us.is_some() {
                tokio::spawn(record_group_ticks(group.interval_at(first, PERIOD), late))
            } else {
                tokio::spawn(record_tokio_ticks(tokio::time::interval_at(first, PERIOD), late))
            });
        }
        let before = read_usage();
        let mut late = Vec::new();
        for task in tasks {
            late.extend(task.await.unwrap());
        }
        (round_since(&before), late)
    })
}

async fn record_group_ticks(mut interval: GroupInterval, mut late: Vec<u64>) -> Vec<u64> {
    for _ in 0..TICKS {
        late.push(lateness_ns(interval.tick().await));
    }
    late
}

async fn record_tokio_ticks(mut interval: tokio::time::Interval, mut late: Vec<u64>) -> Vec<u64> {
    for _ in 0..TICKS {
        late.push(lateness_ns(interval.tick().await));
    }
    late
}

/// Sleeps for each period in turn, for as long as the intervals tick.
fn measure_nanosleep(period: Duration) -> Round {
    let before = read_usage();
    let start = Instant::now();
    let mut deadline = start;
    while deadline < start + PERIOD * TICKS {
        deadline += period;
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
    }
    round_since(&before)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of one value of the rounds.
fn median_by(rounds: &[Round], value: impl Fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(value))
}

fn format_row(contender: Contender, rounds: &[Round]) -> String {
    let time = PERIOD * TICKS;
    format!(
        r#"  "{}": {{"wakeups_per_s": {:.0}, "core_percent": {:.3}, "cpu_ns_per_wakeup": {:.0}, "p50_ns": {:.0}, "p99_ns": {:.0}}}"#,
        contender.name(),
        median_by(rounds, |round| round.wakeups) / time.as_secs_f64(),
        median_by(rounds, |round| round.cpu_ns) / time.as_nanos() as f64 * 100.0,
        median_by(rounds, |round| round.cpu_ns / round.wakeups),
        median_by(rounds, |round| round.p50_ns),
        median_by(rounds, |round| round.p99_ns),
    )
}

fn main() {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    // One round of each as a test, and with `--short` to try the script.
    let has_flag = |flag: &str| std::env::args().any(|word| word == flag);
    let n_rounds = if has_flag("--bench") && !has_flag("--short") { ROUNDS } else { 1 };
    let slots = SLOTS_US.iter().flat_map(|&us| [Contender::Group(us), Contender::Nanosleep(us)]);
    let contenders: Vec<_> = slots.chain([Contender::Tokio]).collect();
    let mut rounds = vec![Vec::new(); contenders.len()];
    for n in 0..n_rounds {
        for i in 0..contenders.len() {
            // Rotates the order, so that contenders take turns at running first and last.
            let i = (i * 5 + n * 3) % contenders.len();
            rounds[i].push(measure_round(contenders[i]));
        }
    }
    let results = contenders.iter().zip(&rounds);
    let rows: Vec<_> = results.map(|(&contender, rounds)| format_row(contender, rounds)).collect();
    println!("{{\n{}\n}}", rows.join(",\n"));
}
