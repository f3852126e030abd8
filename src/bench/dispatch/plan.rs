//! The plan of `osjitter bench dispatch`.

use std::time::Duration;

use crate::scenario::{chosen, within};
use crate::text::units;

/// Batches of a round: enough for percentiles over batches, few enough that a stamp between them is nothing.
pub const BATCHES: u64 = 20;
const ROUNDS: u64 = 25;
const QUICK_ROUNDS: u64 = 5;
const MAX_ROUNDS: u64 = 10_000;
const ROUND_TIME: Duration = Duration::from_millis(10);
const QUICK_ROUND_TIME: Duration = Duration::from_millis(2);
const ROUND_TIMES: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(10)];
/// A bench longer than this is a slip of the keyboard.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Something that a runtime does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Dispatch,
    SelfWake,
    LifeBoxed,
    LifeSlab,
    ChannelLocal,
    ChannelMpsc,
    ChannelSpsc,
    StreamMpsc,
    StreamSpsc,
    WakeBusy,
    WakeParked,
    MessageParked,
    IdleTurn,
    IdleTurnTimer,
    TokioBridge,
}

impl Operation {
    /// All, in the order of tables.
    pub const ALL: [Self; 15] = [
        Self::Dispatch,
        Self::SelfWake,
        Self::LifeBoxed,
        Self::LifeSlab,
        Self::ChannelLocal,
        Self::ChannelMpsc,
        Self::ChannelSpsc,
        Self::StreamMpsc,
        Self::StreamSpsc,
        Self::WakeBusy,
        Self::WakeParked,
        Self::MessageParked,
        Self::IdleTurn,
        Self::IdleTurnTimer,
        Self::TokioBridge,
    ];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::SelfWake => "self-wake",
            Self::LifeBoxed => "life-boxed",
            Self::LifeSlab => "life-slab",
            Self::ChannelLocal => "channel-local",
            Self::ChannelMpsc => "channel-mpsc",
            Self::ChannelSpsc => "channel-spsc",
            Self::StreamMpsc => "stream-mpsc",
            Self::StreamSpsc => "stream-spsc",
            Self::WakeBusy => "wake-busy",
            Self::WakeParked => "wake-parked",
            Self::MessageParked => "message-parked",
            Self::IdleTurn => "idle-turn",
            Self::IdleTurnTimer => "idle-turn-timer",
            Self::TokioBridge => "tokio-bridge",
        }
    }

    /// What it is.
    pub fn about(self) -> &'static str {
        match self {
            Self::Dispatch => "from one task's poll to the next one's, 256 tasks ready: no wake in it",
            Self::SelfWake => "a spawned task that wakes itself: wake, queue and poll",
            Self::LifeBoxed => "spawn, one poll, end and join of a task on the heap, 64 at a time",
            Self::LifeSlab => "the same in preallocated memory",
            Self::ChannelLocal => "try_send and try_recv within the thread",
            Self::ChannelMpsc => "the same, many senders, any threads",
            Self::ChannelSpsc => "the same, one sender, any thread",
            Self::StreamMpsc => "a message of a stream from another thread, the runtime awake",
            Self::StreamSpsc => "the same, one sender",
            Self::WakeBusy => "from wake on another thread to the task's poll, the runtime awake",
            Self::WakeParked => "the same, the runtime asleep",
            Self::MessageParked => "from try_send on another thread to the receiver, the runtime asleep",
            Self::IdleTurn => "a turn in which nothing is ready, with a socket watched",
            Self::IdleTurnTimer => "the same, with a timer that is not due",
            Self::TokioBridge => "a task that wakes itself, polled inside a tokio runtime of other threads",
        }
    }

    /// Whether each occurrence is stamped by itself.
    pub fn by_event(self) -> bool {
        self.gap().is_some()
    }

    /// From one event to the next, at least: where the runtime is to be asleep, it is by then.
    pub fn gap(self) -> Option<Duration> {
        match self {
            Self::WakeBusy => Some(Duration::from_micros(2)),
            Self::WakeParked | Self::MessageParked => Some(Duration::from_micros(100)),
            _ => None,
        }
    }
}

/// A runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Busypoll,
    Tokio,
}

impl Side {
    /// All, in the order of tables.
    pub const ALL: [Self; 2] = [Self::Busypoll, Self::Tokio];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busypoll => "busypoll",
            Self::Tokio => "tokio",
        }
    }

    /// Why it has no such operation, if it has none.
    pub fn lacks(self, operation: Operation) -> Option<&'static str> {
        match (self, operation) {
            (Self::Tokio, Operation::LifeSlab) => Some("its tasks are on the heap"),
            (Self::Tokio, Operation::ChannelLocal) => Some("its channels are for any thread"),
            (Self::Tokio, Operation::ChannelSpsc | Operation::StreamSpsc) => Some("its channel has many senders"),
            (Self::Tokio, Operation::IdleTurnTimer) => Some("its wheel is looked at in every turn as it is"),
            (Self::Tokio, Operation::TokioBridge) => Some("it needs no bridge to itself"),
            _ => None,
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the order.
    pub seed: u64,
    /// Rounds.
    pub rounds: u64,
    /// Aim for one operation on one runtime in one round.
    pub round_time: Duration,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// What was asked for, as it was written.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub operation: Vec<String>,
    pub rounds: Option<u64>,
    pub round_time: Option<String>,
    pub quick: bool,
    pub seed: u64,
}

/// A valid plan, or the sentence that says why not.
pub fn build(options: &Options) -> Result<Plan, String> {
    let (rounds, round_time) = if options.quick { (QUICK_ROUNDS, QUICK_ROUND_TIME) } else { (ROUNDS, ROUND_TIME) };
    let names = chosen("operation", &options.operation, &Operation::ALL.map(Operation::name))?;
    let plan = Plan {
        seed: options.seed,
        rounds: within("rounds", options.rounds.unwrap_or(rounds), MAX_ROUNDS)?,
        round_time: match &options.round_time {
            Some(text) => units::duration_within("a round time", text, ROUND_TIMES)?,
            None => round_time,
        },
        operations: Operation::ALL.into_iter().filter(|o| names.contains(&o.name())).collect(),
    };
    let expected = expected(&plan);
    if expected > LONGEST {
        return Err(format!("this would take {:.0} hours; ask for less", expected.as_secs_f64() / 3600.0));
    }
    Ok(plan)
}

/// Every operation on every runtime that has it.
pub fn cells(plan: &Plan) -> impl Iterator<Item = (Operation, Side)> {
    let sides = |operation| Side::ALL.into_iter().filter(move |s: &Side| s.lacks(operation).is_none());
    plan.operations.iter().flat_map(move |&o| sides(o).map(move |s| (o, s)))
}

/// How long it takes, about: set-up, warm-up and finding the length of a batch included.
pub fn expected(plan: &Plan) -> Duration {
    const SET_UP: Duration = Duration::from_micros(300);
    let once = plan.round_time.mul_f64(1.0 + 1.0 / BATCHES as f64) + SET_UP;
    let rounds = u32::try_from(plan.rounds + 1).unwrap_or(u32::MAX);
    once.saturating_mul(rounds).saturating_mul(u32::try_from(cells(plan).count()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_takes_every_operation_and_ends_within_ten_seconds_and_quick_within_one() {
        let plan = build(&Options::default()).unwrap();
        assert_eq!(plan.operations, Operation::ALL);
        assert!(expected(&plan) < Duration::from_secs(10), "{:?}", expected(&plan));
        let quick = build(&Options { quick: true, ..Options::default() }).unwrap();
        assert!(expected(&quick) < Duration::from_secs(1), "{:?}", expected(&quick));
    }

    #[test]
    fn every_operation_has_a_runtime_and_a_name_of_its_own() {
        for (i, a) in Operation::ALL.into_iter().enumerate() {
            assert!(Side::ALL.into_iter().any(|s| s.lacks(a).is_none()), "{a:?}");
            assert!(Operation::ALL[..i].iter().all(|b| b.name() != a.name()), "{a:?}");
        }
    }

    #[test]
    fn what_is_said_wins_over_quick() {
        let options = Options { quick: true, rounds: Some(7), operation: vec!["wake-*".into()], ..Options::default() };
        let plan = build(&options).unwrap();
        assert_eq!((plan.rounds, plan.round_time), (7, QUICK_ROUND_TIME));
        assert_eq!(plan.operations, [Operation::WakeBusy, Operation::WakeParked]);
    }
}
