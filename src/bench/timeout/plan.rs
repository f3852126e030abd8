//! The plan of `osjitter bench timeout`.

use std::time::Duration;

use crate::bench::timeout::subject;
use crate::bench::timeout::subject::{BASELINE, Clock};
use crate::scenario::{MAX_WORKERS, Runtime, chosen, within};
use crate::text::units;

/// Batches of a round: enough for percentiles over batches, few enough that a clock reading between them is nothing.
pub const BATCHES: u64 = 10;
/// Rounds unless told otherwise.
pub const DEFAULT_ROUNDS: u64 = 20;
const DEFAULT_ROUND_TIME: Duration = Duration::from_millis(10);
const MAX_ROUNDS: u64 = 10_000;
const ROUND_TIMES: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(10)];
const LENGTHS: [Duration; 2] = [Duration::from_micros(10), Duration::from_secs(10)];
const MAX_CAPACITY: u64 = 1_000_000;
const MAX_TIMERS: u64 = 100_000;
/// The least share of messages that do not come.
const MAX_MESSAGES_PER_FIRE: f64 = 10_000.0;
/// A bench longer than this is a slip of the keyboard.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Tokio's wheel turns once in this time.
const WHEEL: Duration = Duration::from_millis(1);

/// What the messages are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Two tasks and a bounded channel between them.
    Channel(Runtime),
    /// Nothing but what a message makes a variant do; nothing is polled.
    Rearm,
    /// Every message is there at the first poll.
    Ready,
    /// No message is there at the first poll; every one is at the second.
    Pending,
    /// The same, with a message future of 16 KiB that is moved into the wait.
    Moved,
    /// So many timeouts at once, each armed and polled in turn.
    Timers(usize),
    /// One in so many messages never comes; 0 for none.
    Fire(u64),
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Channel(Runtime::CurrentThread) => f.write_str("channel-current-thread"),
            Self::Channel(Runtime::MultiThread(_)) => f.write_str("channel-multi-thread"),
            Self::Rearm => f.write_str("rearm"),
            Self::Ready => f.write_str("ready"),
            Self::Pending => f.write_str("pending"),
            Self::Moved => f.write_str("moved"),
            Self::Timers(n) => write!(f, "timers:{n}"),
            Self::Fire(0) => f.write_str("fire:0%"),
            Self::Fire(every) => write!(f, "fire:{}%", 100.0 / *every as f64),
        }
    }
}

/// A workload with a length of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What the messages are like.
    pub workload: Workload,
    /// Length of the timeout.
    pub length: Duration,
}

impl Cell {
    /// Unique within a plan.
    pub fn id(&self) -> String {
        format!("{}@{}", self.workload, units::short(self.length))
    }

    /// The runtime it runs on.
    pub fn runtime(&self) -> Runtime {
        if let Workload::Channel(runtime) = self.workload { runtime } else { Runtime::CurrentThread }
    }
}

/// A variant and the clock it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Name of the variant.
    pub variant: &'static str,
    /// Its clock.
    pub clock: Clock,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the order.
    pub seed: u64,
    /// Rounds.
    pub rounds: u64,
    /// Aim for one variant in one round.
    pub round_time: Duration,
    /// Of the channel.
    pub capacity: usize,
    /// The workloads.
    pub cells: Vec<Cell>,
    /// The variants; the baseline is the first.
    pub combinations: Vec<Combination>,
}

/// What was asked for, as it was written.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub workload: Vec<String>,
    pub variant: Vec<String>,
    pub clock: Vec<String>,
    pub length: Vec<String>,
    pub timers: Vec<u64>,
    pub fire: Vec<String>,
    pub capacity: u64,
    pub rounds: u64,
    pub round_time: Option<String>,
    pub seed: u64,
}

/// Names of the workloads on the command line.
pub const WORKLOADS: [(&str, &str); 8] = [
    ("channel-multi-thread", "a channel between two tasks, on as many workers as there are CPUs"),
    ("channel-current-thread", "the same on one thread"),
    ("rearm", "what a message makes the timeout do, and nothing else"),
    ("ready", "every message is there at the first poll"),
    ("pending", "no message is there at the first poll, every one at the second"),
    ("moved", "the same with a message future of 16 KiB, moved into the wait"),
    ("timers", "many timeouts at once, each armed and polled in turn (--timers)"),
    ("fire", "a share of the messages never comes (--fire)"),
];

/// A valid plan, or the sentence that says why not.
pub fn build(options: &Options) -> Result<Plan, String> {
    let rounds = within("rounds", options.rounds, MAX_ROUNDS)?;
    let capacity = within("as capacity of the channel", options.capacity, MAX_CAPACITY)? as usize;
    let round_time = match &options.round_time {
        Some(text) => units::duration_within("a round time", text, ROUND_TIMES)?,
        None => DEFAULT_ROUND_TIME,
    };
    for &n in &options.timers {
        within("timers", n, MAX_TIMERS)?;
    }
    let plan = Plan {
        seed: options.seed,
        rounds,
        round_time,
        capacity,
        cells: cells(options)?,
        combinations: combinations(options)?,
    };
    let expected = expected(&plan);
    if expected > LONGEST {
        return Err(format!("this would take {:.0} hours; ask for less", expected.as_secs_f64() / 3600.0));
    }
    Ok(plan)
}

fn cells(options: &Options) -> Result<Vec<Cell>, String> {
    let names = chosen("workload", &options.workload, &WORKLOADS.map(|(name, _)| name))?;
    let lengths: Vec<Duration> =
        options.length.iter().map(|l| units::duration_within("a timeout", l, LENGTHS)).collect::<Result<_, _>>()?;
    let fires = if options.fire.is_empty() { vec![100, 1] } else { shares(&options.fire)? };
    let timers = if options.timers.is_empty() { vec![1, 1_000, MAX_TIMERS] } else { options.timers.clone() };
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().min(MAX_WORKERS));
    let mut cells = Vec::new();
    let mut add = |workload: Workload, default: &[Duration]| {
        let lengths = if lengths.is_empty() { default } else { &lengths };
        for &length in lengths {
            let cell = Cell { workload, length };
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
    };
    let [shortest, longest] = LENGTHS;
    for name in names {
        match name {
            "channel-multi-thread" => add(Workload::Channel(Runtime::MultiThread(workers)), &[longest]),
            "channel-current-thread" => add(Workload::Channel(Runtime::CurrentThread), &[longest]),
            "rearm" => add(Workload::Rearm, &[longest]),
            "ready" => add(Workload::Ready, &[longest]),
            "pending" => add(Workload::Pending, &[longest, WHEEL, shortest]),
            "moved" => add(Workload::Moved, &[longest]),
            "timers" => timers.iter().for_each(|&n| add(Workload::Timers(n as usize), &[longest])),
            _ => fires.iter().for_each(|&every| add(Workload::Fire(every), &[WHEEL])),
        }
    }
    Ok(cells)
}

/// Shares in per cent, as one in so many.
fn shares(texts: &[String]) -> Result<Vec<u64>, String> {
    let read = |text: &String| {
        let percent: f64 = text.trim().trim_end_matches('%').trim().parse().ok()?;
        let every = 100.0 / percent;
        match percent {
            0.0 => Some(0),
            p if (0.0..=100.0).contains(&p) && every <= MAX_MESSAGES_PER_FIRE => Some(every.round() as u64),
            _ => None,
        }
    };
    texts.iter().map(|t| read(t).ok_or(format!("no share {t:?}; use 0 or from 0.01% to 100%"))).collect()
}

fn combinations(options: &Options) -> Result<Vec<Combination>, String> {
    let names: Vec<&'static str> = subject::ALL.iter().map(|e| e.name).collect();
    let variants = chosen("variant", &options.variant, &names)?;
    let clocks = match options.clock.as_slice() {
        [] => vec!["tokio", "tach"],
        patterns => chosen("clock", patterns, &Clock::ALL.map(Clock::name))?,
    };
    // Whoever names both means the combination; whoever names one takes what there is of the other.
    let meant = !options.variant.is_empty() && !options.clock.is_empty();
    let mut combinations = vec![Combination { variant: BASELINE, clock: Clock::Tokio }];
    let mut refused = Vec::new();
    for variant in variants.into_iter().filter(|v| *v != BASELINE) {
        for clock in Clock::ALL.into_iter().filter(|c| clocks.contains(&c.name())) {
            match subject::refusal(variant, clock) {
                None => combinations.push(Combination { variant, clock }),
                Some(reason) => refused.push(format!("{variant} cannot take the clock {}: {reason}", clock.name())),
            }
        }
    }
    let nothing_left = combinations.len() == 1 && !refused.is_empty();
    if !refused.is_empty() && (meant || nothing_left) {
        return Err(refused.join("; "));
    }
    Ok(combinations)
}

/// How long it takes, about: set-up, warm-up and the counted run included.
pub fn expected(plan: &Plan) -> Duration {
    const SET_UP: Duration = Duration::from_millis(1);
    const TIMER_SET_UP: Duration = Duration::from_nanos(500);
    let mut total = Duration::ZERO;
    for cell in &plan.cells {
        let mut once = plan.round_time.mul_f64(1.0 + 1.0 / BATCHES as f64) + SET_UP;
        match cell.workload {
            Workload::Timers(n) => once += TIMER_SET_UP * u32::try_from(n).unwrap_or(u32::MAX),
            // One in each batch, at least, and it takes until the wheel turns.
            Workload::Fire(1..) => once = once.max((cell.length + WHEEL) * (BATCHES as u32 + 1)),
            _ => {}
        }
        // Finding the length of a batch and counting are as long as a round each, about.
        let rounds = u32::try_from(plan.rounds + 2).unwrap_or(u32::MAX);
        total = total.saturating_add(once.saturating_mul(rounds).saturating_mul(plan.combinations.len() as u32));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { capacity: 1, rounds: DEFAULT_ROUNDS, ..Options::default() }
    }

    #[test]
    fn the_default_takes_every_workload_and_ends_within_90_seconds() {
        let plan = build(&options()).unwrap();
        for (name, _) in WORKLOADS {
            assert!(plan.cells.iter().any(|c| c.id().starts_with(name)), "{name}");
        }
        assert_eq!(plan.combinations.len(), 10);
        assert!(expected(&plan) < Duration::from_secs(80), "{:?}", expected(&plan));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let both = |variant: &str, clock: &str| Options {
            variant: vec![variant.into()],
            clock: vec![clock.into()],
            ..options()
        };
        let error = |o: Options| build(&o).unwrap_err();
        assert!(error(both("timeout", "tach")).contains("timeout cannot take the clock tach: tokio::time::timeout"));
        assert!(error(both("idle-timeout", "quanta")).contains("no error bound"));
        assert!(error(both("slumber", "tokio")).contains("there are baseline, timeout"));
        assert!(error(Options { length: vec!["1us".into()], ..options() }).contains("outside 10us to 10s"));
        assert!(error(Options { timers: vec![100_001], ..options() }).contains("100000"));
        assert!(error(Options { fire: vec!["101%".into()], ..options() }).contains("101%"));
        assert!(error(Options { capacity: 0, ..options() }).contains("capacity"));
        assert!(error(Options { rounds: 10_000, round_time: Some("10s".into()), ..options() }).contains("hours"));
    }

    #[test]
    fn a_clock_alone_takes_the_variants_that_can_have_it() {
        let plan = build(&Options { clock: vec!["tach".into()], ..options() }).unwrap();
        assert_eq!(plan.combinations.len(), 5);
        assert_eq!(plan.combinations[0].variant, BASELINE);
    }
}
