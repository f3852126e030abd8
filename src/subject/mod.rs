//! The things under test: the only place that knows them.
//!
//! A [`Subject`] makes a fresh [`Ticker`] for each round. The measuring loop is generic over it; the choice by name is
//! made once, by [`with`], outside the loop: nothing is boxed and nothing dispatched between wake-up and stamp.

mod bare;
mod behaviour;
mod busy;
mod os_interval;
mod tokio_timers;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The grid a ticker is to follow: tick k is due at `start + k * period`.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Deadline of tick 0.
    pub start: Instant,
    /// Spacing of the deadlines.
    pub period: Duration,
}

impl Schedule {
    /// Deadline of tick `k`: one multiplication from the start, so that no rounding adds up.
    pub fn deadline(&self, k: u64) -> Instant {
        let after_ns = self.period.as_nanos() * u128::from(k);
        self.start + Duration::from_nanos(u64::try_from(after_ns).unwrap_or(u64::MAX / 2))
    }

    /// The index whose deadline is `deadline`.
    pub fn index(&self, deadline: Instant) -> u64 {
        let after = deadline.saturating_duration_since(self.start).as_nanos();
        let period = self.period.as_nanos();
        u64::try_from((after + period / 2) / period).unwrap_or(u64::MAX)
    }
}

/// Which ticks of the grid a wake-up stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The last of them.
    pub tick: u64,
    /// How many, ending with `tick`.
    pub expirations: u64,
}

/// Something that ticks.
pub trait Ticker: 'static {
    /// What a wait returns; turned into a [`Booking`] only after the stamp.
    type Event;

    /// Prepares the next wait: what is not to be done again at each poll.
    fn begin(self: Pin<&mut Self>) {}

    /// Polls for the next tick. A bare thread's ticker blocks in here. The ticker is pinned for its whole round, so that
    /// a timer may live inside it. A poll and no future: whether the loop around it is `Send` then depends on the
    /// ticker alone, and the runtimes that ask for it are not the only ones.
    fn poll_wait(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Self::Event>>;

    /// Which ticks the event stands for.
    fn book(self: Pin<&mut Self>, event: Self::Event) -> Booking;

    /// What the ticks come from.
    fn backend(&self) -> String;
}

/// Where a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As a spawned task of a tokio runtime.
    Tokio,
    /// As a spawned task of a busypoll runtime that spins.
    Busypoll,
    /// On a bare thread.
    Thread,
}

/// A kind of ticker, chosen by name.
pub trait Subject: 'static {
    /// Whether its runtime parks until the tick is due, so that the end of the park says something about the tick.
    const PARKS_UNTIL_DUE: bool = true;
    /// What it makes.
    type Ticker: Ticker;

    /// Makes a fresh ticker, inside the runtime it will run on.
    fn ticker(schedule: Schedule) -> io::Result<Self::Ticker>;

    /// Makes several that tick at once; those that share something override it.
    fn tickers(schedules: &[Schedule]) -> io::Result<Vec<Self::Ticker>> {
        schedules.iter().map(|schedule| Self::ticker(*schedule)).collect()
    }
}

/// Something to be done with a subject, whose type is known only inside; one way for each [`Place`].
pub trait Visitor {
    /// What it results in.
    type Output;
    /// Does it with one that runs on tokio, whose threads hand tasks to each other.
    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>;
    /// Does it with one that runs on busypoll.
    fn on_busypoll<S: Subject>(self) -> Self::Output;
    /// Does it with one that runs on a bare thread.
    fn on_thread<S: Subject>(self) -> Self::Output;
}

macro_rules! subjects {
    ($($name:literal, $place:ident $kind:ty, $default:literal, $about:literal;)*) => {
        /// Every subject, in the order of `osjitter list`.
        pub const ALL: &[Entry] = &[$(Entry {
            name: $name,
            about: $about,
            place: Place::$place,
            default: $default,
        }),*];

        /// Hands the subject called `name` to the visitor; `None` if there is none of that name.
        pub fn with<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            match name {
                $($name => Some(subjects!(@visit $place visitor $kind)),)*
                _ => None,
            }
        }
    };
    (@visit Tokio $visitor:ident $kind:ty) => { $visitor.on_tokio::<$kind>() };
    (@visit Busypoll $visitor:ident $kind:ty) => { $visitor.on_busypoll::<$kind>() };
    (@visit Thread $visitor:ident $kind:ty) => { $visitor.on_thread::<$kind>() };
}

/// A line of the list of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Where it runs.
    pub place: Place,
    /// Whether a run without `--subject` takes it.
    pub default: bool,
}

subjects! {
    "os-interval", Tokio os_interval::OneShot<behaviour::Burst>, true,
        "OsInterval: a one-shot timer of the kernel, armed for each tick (Burst)";
    "os-interval-delay", Tokio os_interval::OneShot<behaviour::Delay>, false,
        "the same with missed-tick behaviour Delay";
    "os-interval-skip", Tokio os_interval::OneShot<behaviour::Skip>, false,
        "the same with missed-tick behaviour Skip";
    "os-interval-precise", Tokio os_interval::Precise, true,
        "OsInterval in its precise mode: awake a learnt lead before the deadline";
    "os-interval-group", Tokio os_interval::Grouped, false,
        "an interval of an IntervalGroup: one timer for all, slots of 100 us";
    "periodic-interval", Tokio os_interval::KernelPeriodic, true,
        "PeriodicInterval: a timer that the kernel arms again by itself";
    "tokio-interval", Tokio tokio_timers::Interval<behaviour::Burst>, true,
        "tokio::time::Interval (Burst)";
    "tokio-interval-delay", Tokio tokio_timers::Interval<behaviour::Delay>, false,
        "the same with missed-tick behaviour Delay";
    "tokio-interval-skip", Tokio tokio_timers::Interval<behaviour::Skip>, false,
        "the same with missed-tick behaviour Skip";
    "tokio-sleep", Tokio tokio_timers::SleepPerTick, false,
        "tokio::time::sleep_until, a Sleep made for each tick";
    "tokio-sleep-reused", Tokio tokio_timers::SleepReused, true,
        "one pinned Sleep, reset at each tick";
    "tokio-sleep-reused-boxed", Tokio tokio_timers::SleepReusedBoxed, false,
        "the same in a Pin<Box<Sleep>>";
    "tokio-timeout", Tokio tokio_timers::Timeout, true,
        "tokio::time::timeout_at around a future that never ends";
    "tokio-busy", Tokio busy::Yielding, false,
        "tokio that never parks: a task that yields until the clock has reached the deadline";
    "tokio-busy-interval", Tokio busy::IntervalBesideYielding, false,
        "tokio::time::Interval beside a task that only yields: no park, but the wheel's milliseconds";
    "busypoll-interval", Busypoll busy::Interval, false,
        "the interval of busypoll, our runtime that does not park, spinning";
    "nanosleep", Thread bare::Nanosleep, true,
        "control: a thread that sleeps (Linux: clock_nanosleep, absolute, timer slack 1 ns)";
    "spin", Thread bare::Spin, true,
        "control: a thread that spins on the kernel's clock";
}

/// Whether a subject can run here, by making one; the reason if not.
pub fn availability(name: &str) -> Result<(), String> {
    struct Try;
    impl Try {
        #[allow(clippy::disallowed_methods, reason = "a start for a ticker that is dropped at once")]
        fn make<S: Subject>() -> io::Result<()> {
            let schedule = Schedule { start: Instant::now(), period: Duration::from_millis(1) };
            S::ticker(schedule).map(drop)
        }
    }
    impl Visitor for Try {
        type Output = io::Result<()>;
        fn on_tokio<S: Subject>(self) -> io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { Self::make::<S>() })
        }
        fn on_busypoll<S: Subject>(self) -> io::Result<()> {
            busypoll::Runtime::new()?.block_on(async { Self::make::<S>() })
        }
        fn on_thread<S: Subject>(self) -> io::Result<()> {
            Self::make::<S>()
        }
    }
    with(name, Try).ok_or("no such subject")?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_its_own_inverse_and_never_slips() {
        #[allow(clippy::disallowed_methods, reason = "any instant will do")]
        let schedule = Schedule { start: Instant::now(), period: Duration::from_nanos(333_333) };
        for k in [0, 1, 2, 999, 10_000_000] {
            assert_eq!(schedule.index(schedule.deadline(k)), k);
            assert_eq!(schedule.deadline(k) - schedule.start, Duration::from_nanos(333_333 * k));
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        struct Found;
        impl Visitor for Found {
            type Output = Place;
            fn on_tokio<S: Subject>(self) -> Place {
                Place::Tokio
            }
            fn on_busypoll<S: Subject>(self) -> Place {
                Place::Busypoll
            }
            fn on_thread<S: Subject>(self) -> Place {
                Place::Thread
            }
        }
        for entry in ALL {
            assert_eq!(with(entry.name, Found), Some(entry.place), "{}", entry.name);
            assert_eq!(ALL.iter().filter(|e| e.name == entry.name).count(), 1);
        }
        assert_eq!(with("no-such-thing", Found), None);
    }
}
