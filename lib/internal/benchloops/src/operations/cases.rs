//! The operations that are measured, and the runtimes that support them.

use std::time::Duration;

use clap::ValueEnum;

/// An operation of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// from one task's poll to the next one's, 256 tasks ready: no wake in it
    Dispatch,
    /// a spawned task that wakes itself: wake, queue and poll
    SelfWake,
    /// spawn, one poll, end and join of a task on the heap, 64 at a time
    LifeBoxed,
    /// the same in preallocated memory
    LifeSlab,
    /// try_send and try_recv within the thread
    ChannelLocal,
    /// the same, many senders, any threads
    ChannelMpsc,
    /// the same, one sender, any thread
    ChannelSpsc,
    /// a message of a stream from another thread, the runtime awake
    StreamMpsc,
    /// the same, one sender
    StreamSpsc,
    /// from wake on another thread to the task's poll, the runtime awake
    WakeBusy,
    /// the same, the runtime asleep
    WakeParked,
    /// from try_send on another thread to the receiver, the runtime asleep
    MessageParked,
    /// a turn in which nothing is ready, with a socket watched
    IdleTurn,
    /// the same, with a timer that is not due
    IdleTurnTimer,
    /// a task that wakes itself, polled inside a tokio runtime of other threads
    TokioBridge,
}

impl Operation {
    /// Returns whether each occurrence has a time stamp of its own.
    pub fn is_timed_per_event(self) -> bool {
        self.event_interval().is_some()
    }

    /// Returns the minimum time between two events.
    ///
    /// The time is long enough for the runtime to fall asleep, if the operation requires that.
    pub fn event_interval(self) -> Option<Duration> {
        match self {
            Self::WakeBusy => Some(Duration::from_micros(2)),
            Self::WakeParked | Self::MessageParked => Some(Duration::from_micros(100)),
            _ => None,
        }
    }
}

/// A runtime whose operations are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchRuntime {
    Busypoll,
    Tokio,
}

impl BenchRuntime {
    /// Returns why the runtime does not support an operation, or `None` if it does.
    pub fn missing_reason(self, operation: Operation) -> Option<&'static str> {
        match (self, operation) {
            (Self::Tokio, Operation::LifeSlab) => Some("its tasks are on the heap"),
            (Self::Tokio, Operation::ChannelLocal) => Some("its channels are for any thread"),
            (Self::Tokio, Operation::ChannelSpsc | Operation::StreamSpsc) => {
                Some("its channel has many senders")
            }
            (Self::Tokio, Operation::IdleTurnTimer) => {
                Some("its wheel is looked at in every turn as it is")
            }
            (Self::Tokio, Operation::TokioBridge) => Some("it needs no bridge to itself"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_unique_names_and_runtimes() {
        let name = |operation: &Operation| {
            operation.to_possible_value().map(|value| value.get_name().to_owned())
        };
        let operations = Operation::value_variants();
        for (i, a) in operations.iter().enumerate() {
            assert!(
                BenchRuntime::value_variants().iter().any(|s| s.missing_reason(*a).is_none()),
                "{a:?}"
            );
            assert!(operations[..i].iter().all(|b| name(b) != name(a)), "{a:?}");
        }
    }
}
