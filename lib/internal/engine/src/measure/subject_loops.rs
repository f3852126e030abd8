//! The loops of each subject, which are compiled for its type.

use std::io;

use crate::measure::endless_loop::{EndlessLoop, tick_on_busypoll, tick_on_thread, tick_on_tokio};
use crate::measure::executor::{run_on_busypoll, run_on_thread, run_on_tokio};
use crate::measure::tick_loop::{RawRound, RoundSetup};
use crate::subject::ticker::{Subject, Ticker};
use crate::subject::{Busypoll, OnBusypoll, RuntimeKind, SubjectInfo, Thread, Tokio};
use crate::subject::{
    bare_threads, behaviour, busy_tokio, busypoll_interval, os_interval, per_tick, tokio_timers,
};

/// The loops of a subject. They are called once for a round or a probe; nothing in them is called
/// through a pointer between a wake-up and its time stamp.
pub struct SubjectLoops {
    pub run_round: fn(RoundSetup) -> io::Result<RawRound>,
    pub run_endlessly: fn(EndlessLoop) -> io::Result<()>,
}

/// tokio's threads steal tasks from each other, so the ticks are `Send`.
impl<S: Subject<Ticker: Ticker<Event: Send> + Send>> Tokio<S> {
    const LOOPS: SubjectLoops =
        SubjectLoops { run_round: run_on_tokio::<S>, run_endlessly: tick_on_tokio::<S> };
}

impl<S: OnBusypoll> Busypoll<S> {
    const LOOPS: SubjectLoops =
        SubjectLoops { run_round: run_on_busypoll::<S>, run_endlessly: tick_on_busypoll::<S> };
}

impl<S: Subject> Thread<S> {
    const LOOPS: SubjectLoops =
        SubjectLoops { run_round: run_on_thread::<S>, run_endlessly: tick_on_thread::<S> };
}

macro_rules! subject_loops {
    ($({ name: $name:literal, $($_:tt)* } $runtime:ident $implementation:ty;)*) => {
        &[$(($name, $runtime::<$implementation>::LOOPS)),*]
    };
}

const LOOPS: &[(&str, SubjectLoops)] = files::with_subject_rows!(subject_loops);

impl SubjectLoops {
    /// Returns the loops of a subject; `None` if its rounds are read from a file.
    pub fn find(subject: &SubjectInfo) -> Option<&'static Self> {
        if subject.runtime_kind == RuntimeKind::Script {
            return None;
        }
        LOOPS.iter().find(|(name, _)| *name == subject.name).map(|(_, loops)| loops)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::measure::round::RoundRequest;
    use crate::scenario::{Length, ScenarioArgs};
    use crate::subject::ticker::Schedule;

    /// The type of an added subject.
    struct AddedTicker(Schedule);

    impl Subject for AddedTicker {
        type Ticker = Self;

        fn ticker(schedule: Schedule) -> io::Result<Self> {
            Ok(Self(schedule))
        }
    }

    impl Ticker for AddedTicker {
        type Event = ();

        #[allow(clippy::disallowed_methods, reason = "a ticker that sleeps until its deadline")]
        fn poll_wait(self: Pin<&mut Self>, next: u64, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            let deadline = self.0.deadline(next);
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
            Poll::Ready(Ok(()))
        }

        fn backend(&self) -> String {
            "added".to_owned()
        }
    }

    /// The whole table and a row for the added type.
    const WITH_ADDED: &[(&str, SubjectLoops)] = files::with_subject_rows! {
        subject_loops { name: "added", ..COMPETITOR } Thread AddedTicker;
    };

    static ADDED: SubjectInfo = SubjectInfo { name: "added", ..*files::subjects::SLEEPING_CONTROL };

    #[test]
    fn row_and_type_add_a_subject() {
        assert!(SubjectLoops::find(&ADDED).is_none(), "it is not in the table of the program");
        let (name, loops) = WITH_ADDED.last().unwrap();
        assert_eq!((*name, WITH_ADDED.len()), (ADDED.name, LOOPS.len() + 1));
        let args = ScenarioArgs {
            subjects: vec![&ADDED],
            length: Some(Length::Ticks(5)),
            round_ticks: Some(5),
            periods: vec![Duration::from_millis(1)],
            ..ScenarioArgs::default()
        };
        let (scenario, stop) = (args.single_scenario().unwrap(), Arc::default());
        let request = RoundRequest {
            scenario: &scenario,
            index: 0,
            slot: 0,
            ticks: 5,
            phase: Duration::ZERO,
            start: None,
            run_on: 0,
            stop: &stop,
            profiler: None,
            late_watch: None,
            settings: None,
        };
        let round = request.measure_subject(ADDED.wait_kind, loops.run_round).unwrap();
        assert_eq!(round.backend.as_deref(), Some("added"));
        assert_eq!(round.instances[0].samples.lateness_ns.len(), 5);
    }
}
