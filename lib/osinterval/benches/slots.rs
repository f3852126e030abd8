//! What the slots of a group trade: 1,000 intervals of 10 ms, spread evenly, in slots of 100 us to
//! 1 ms; beside each, a thread that sleeps as often, for what a wake-up costs here at that rate,
//! and tokio's interval.
//!
//! `scripts/slots.sh` runs it and writes its table. Prints JSON; Linux only, where the kernel
//! counts a thread's wake-ups.
#![allow(clippy::print_stdout, reason = "a measuring program prints")]
#![allow(
    clippy::disallowed_methods,
    reason = "a measuring program reads the clock, and sleeps beside what it measures"
)]
#![allow(clippy::unwrap_used, reason = "a measuring program may panic")]

use std::time::{Duration, Instant};

use osinterval::IntervalGroup;

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

/// What this thread has used: time on a CPU, and voluntary switches, one for each time that it went
/// to sleep.
struct Used {
    cpu_ns: u64,
    switches: u64,
}

fn used() -> Used {
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/{file}")).unwrap();
    let cpu_ns = read("schedstat").split(' ').next().unwrap().parse().unwrap();
    let status = read("status");
    let switches =
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    Used { cpu_ns, switches: switches.trim().parse().unwrap() }
}

#[derive(Clone, Copy, Default)]
struct Round {
    wakeups: f64,
    cpu_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
}

fn round(contender: Contender) -> Round {
    let (round, mut late) = match contender {
        Contender::Nanosleep(us) => return nanosleep(Duration::from_micros(us)),
        Contender::Group(us) => crowd(Some(us)),
        Contender::Tokio => crowd(None),
    };
    late.sort_unstable();
    let at = |q: f64| late[(late.len() as f64 * q) as usize] as f64;
    Round { p50_ns: at(0.5), p99_ns: at(0.99), ..round }
}

fn difference(before: &Used) -> Round {
    let after = used();
    let (wakeups, cpu_ns) =
        ((after.switches - before.switches) as f64, (after.cpu_ns - before.cpu_ns) as f64);
    Round { wakeups, cpu_ns, ..Round::default() }
}

/// A task an interval, all on this thread.
fn crowd(slot_us: Option<u64>) -> (Round, Vec<u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let resolution = Duration::from_micros(slot_us.unwrap_or(1));
        let group = IntervalGroup::builder().resolution(resolution).build().unwrap();
        let start = tokio::time::Instant::now() + Duration::from_millis(30);
        let late = |due: tokio::time::Instant| {
            Instant::now().saturating_duration_since(due.into_std()).as_nanos() as u64
        };
        let tasks: Vec<_> = (0..INTERVALS)
            .map(|i| {
                let first = start + PERIOD * i / INTERVALS;
                let mut all = Vec::with_capacity(TICKS as usize);
                if slot_us.is_some() {
                    let mut interval = group.interval_at(first, PERIOD);
                    tokio::spawn(async move {
                        for _ in 0..TICKS {
                            all.push(late(interval.tick().await));
                        }
                        all
                    })
                } else {
                    let mut interval = tokio::time::interval_at(first, PERIOD);
                    tokio::spawn(async move {
                        for _ in 0..TICKS {
                            all.push(late(interval.tick().await));
                        }
                        all
                    })
                }
            })
            .collect();
        let before = used();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        (difference(&before), all)
    })
}

fn nanosleep(period: Duration) -> Round {
    let before = used();
    let start = Instant::now();
    let mut deadline = start;
    while deadline < start + PERIOD * TICKS {
        deadline += period;
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
    }
    difference(&before)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    // One round of each: as a test, and to try the script.
    let has = |flag: &str| std::env::args().any(|word| word == flag);
    let n_rounds = if has("--bench") && !has("--short") { ROUNDS } else { 1 };
    let slots = SLOTS_US.iter().flat_map(|&us| [Contender::Group(us), Contender::Nanosleep(us)]);
    let contenders: Vec<_> = slots.chain([Contender::Tokio]).collect();
    let mut rounds = vec![Vec::new(); contenders.len()];
    for n in 0..n_rounds {
        for i in 0..contenders.len() {
            // Another one begins each round, and what runs first and last takes turns.
            let i = (i * 5 + n * 3) % contenders.len();
            rounds[i].push(round(contenders[i]));
        }
    }
    let rows: Vec<_> = contenders
        .iter()
        .zip(&rounds)
        .map(|(contender, rounds)| {
            let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
            format!(
                r#"  "{}": {{"wakeups_per_s": {:.0}, "core_percent": {:.3}, "cpu_ns_per_wakeup": {:.0}, "p50_ns": {:.0}, "p99_ns": {:.0}}}"#,
                contender.name(),
                of(|r| r.wakeups) / (PERIOD * TICKS).as_secs_f64(),
                of(|r| r.cpu_ns) / (PERIOD * TICKS).as_nanos() as f64 * 100.0,
                of(|r| r.cpu_ns / r.wakeups),
                of(|r| r.p50_ns),
                of(|r| r.p99_ns),
            )
        })
        .collect();
    println!("{{\n{}\n}}", rows.join(",\n"));
}
