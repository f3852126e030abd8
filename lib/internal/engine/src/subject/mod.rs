//! The subjects: everything that can be measured. Only this module depends on their types.
//!
//! A [`Subject`] creates a new [`Ticker`] for each round. The measuring loop is generic over the
//! subject. [`visit_by_name`] selects the subject outside the loop, so there is no boxed future and
//! no dynamic call between a wake-up and its time stamp.

mod behaviour;
mod busy_tokio;
mod busypoll_interval;
mod os_interval;
mod os_sleep;
pub mod script;
pub mod sliced_wait;
mod subject_info;
pub mod target;
mod thread_controls;
pub mod ticker;
mod tokio_timers;

use std::io;
use std::time::{Duration, Instant};

use crate::panics::catch_panic;

use ticker::{Schedule, Subject, Ticker, WaitKind};

pub use busypoll_interval::OnBusypoll;
pub use subject_info::{RuntimeKind, SubjectInfo};
pub use thread_controls::CONTROL_SLACK_NS;

/// An operation that is generic over the subject, with a method for each [`RuntimeKind`] that has a
/// loop.
pub trait Visitor {
    type Output;
    /// Visits a subject whose ticks are `Send`, since tokio's threads steal tasks from each other.
    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>;
    fn on_busypoll<S: OnBusypoll>(self) -> Self::Output;
    fn on_thread<S: Subject>(self) -> Self::Output;
}

macro_rules! subjects {
    ($($name:literal, $runtime:ident $kind:ty, $default:literal, $about:literal;)*) => {
        /// Every subject, in the order of `osjitter list`.
        pub const ALL: &[SubjectInfo] = &[$(SubjectInfo {
            name: $name,
            about: $about,
            runtime_kind: RuntimeKind::$runtime,
            default: $default,
        }),*];

        /// Calls the visitor with the subject called `name`. Returns `None` if there is none.
        pub fn visit_by_name<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            match name {
                $($name => Some(subjects!(@visit $runtime visitor $kind)),)*
                _ => None,
            }
        }
    };
    (@visit Tokio $visitor:ident $kind:ty) => { $visitor.on_tokio::<$kind>() };
    (@visit Busypoll $visitor:ident $kind:ty) => { $visitor.on_busypoll::<$kind>() };
    (@visit Thread $visitor:ident $kind:ty) => { $visitor.on_thread::<$kind>() };
}

subjects! {
    "os-interval", Tokio os_interval::OneShot<behaviour::Burst>, true,
        "OsInterval: a one-shot timer of the kernel, armed for each tick (Burst)";
    "os-interval-delay", Tokio os_interval::OneShot<behaviour::Delay>, false,
        "like os-interval, with missed-tick behaviour Delay";
    "os-interval-skip", Tokio os_interval::OneShot<behaviour::Skip>, false,
        "like os-interval, with missed-tick behaviour Skip";
    "os-interval-precise", Tokio os_interval::Precise<os_interval::DefaultShare>, true,
        "OsInterval in precise mode: wakes up early by a learnt time, then spins until the deadline";
    "os-interval-spin", Tokio os_interval::Precise<os_interval::WholePeriod>, false,
        "like os-interval-precise, without its limit of 20 % of a period: punctual at short periods";
    "os-interval-group", Tokio os_interval::Grouped, false,
        "an interval of an IntervalGroup: one timer for all intervals, in slots of 100 us";
    "os-sleep", Tokio os_sleep::PerTick<osinterval::Sleep>, false,
        "osinterval::sleep_until: a new Sleep for each tick, one timer for the whole runtime";
    "os-timeout", Tokio os_sleep::PerTick<osinterval::Timeout<std::future::Pending<()>>>, false,
        "osinterval::timeout_at around a future that never ends";
    "periodic-interval", Tokio os_interval::KernelPeriodic, true,
        "PeriodicInterval: a periodic timer of the kernel";
    "tokio-interval", Tokio tokio_timers::Interval<behaviour::Burst>, true,
        "tokio::time::Interval (Burst)";
    "tokio-interval-delay", Tokio tokio_timers::Interval<behaviour::Delay>, false,
        "like tokio-interval, with missed-tick behaviour Delay";
    "tokio-interval-skip", Tokio tokio_timers::Interval<behaviour::Skip>, false,
        "like tokio-interval, with missed-tick behaviour Skip";
    "tokio-sleep", Tokio tokio_timers::SleepPerTick, false,
        "tokio::time::sleep_until: a new Sleep for each tick";
    "tokio-sleep-reused", Tokio tokio_timers::SleepReused, true,
        "tokio::time::Sleep: one that is pinned and reset at each tick";
    "tokio-sleep-reused-boxed", Tokio tokio_timers::SleepReusedBoxed, false,
        "like tokio-sleep-reused, in a Pin<Box<Sleep>>";
    "tokio-timeout", Tokio tokio_timers::Timeout, true,
        "tokio::time::timeout_at around a future that never ends";
    "tokio-busy", Tokio busy_tokio::Yielding, false,
        "tokio without parking: a task that yields until the clock reaches the deadline";
    "tokio-busy-interval", Tokio busy_tokio::IntervalWithYieldingTask, false,
        "tokio::time::Interval on a runtime with a task that only yields: never parks, but keeps the timer wheel of 1 ms";
    "busypoll-interval", Busypoll busypoll_interval::Interval<busypoll_interval::Spinning>, false,
        "busypoll's interval on a runtime that spins and never parks";
    "busypoll-parked", Busypoll busypoll_interval::Interval<busypoll_interval::Parked>, false,
        "busypoll's interval on a runtime that parks until the next tick";
    "busypoll-io-uring", Busypoll busypoll_interval::Interval<busypoll_interval::ParkedOnIoUring>, false,
        "like busypoll-parked, in io_uring_enter (Linux 6.12)";
    "nanosleep", Thread thread_controls::Nanosleep, true,
        "control: a thread that sleeps (Linux: absolute clock_nanosleep with a timer slack of 1 ns)";
    "io-uring-wait", Thread thread_controls::IoUringWait, false,
        "control: a thread that waits in io_uring_enter until an absolute deadline (Linux 6.12)";
    "spin", Thread thread_controls::Spin, true,
        "control: a thread that spins on the kernel's clock";
}

/// Returns the control of a subject in a session of the gate: a bare thread that sleeps.
pub fn control_for(subject: &SubjectInfo) -> &'static SubjectInfo {
    let nanosleep =
        || ALL.iter().find(|e| e.name == "nanosleep").expect("nanosleep is in the table");
    if subject.runtime_kind == RuntimeKind::Script { &script::CONTROL } else { nanosleep() }
}

/// Creates a ticker to check whether a subject can run here.
///
/// # Errors
///
/// Returns the reason if the subject is unknown or cannot run.
pub fn check_available(name: &str) -> Result<(), String> {
    struct Check;
    impl Check {
        #[allow(
            clippy::disallowed_methods,
            reason = "a start for a ticker that is dropped at once"
        )]
        fn create<S: Subject>() -> io::Result<()> {
            let schedule = Schedule { start: Instant::now(), period: Duration::from_millis(1) };
            S::ticker(schedule).map(drop)
        }
    }
    impl Visitor for Check {
        type Output = io::Result<()>;
        fn on_tokio<S: Subject>(self) -> io::Result<()> {
            call_on_tokio(Self::create::<S>)
        }
        fn on_busypoll<S: OnBusypoll>(self) -> io::Result<()> {
            S::runtime()?.block_on(async { Self::create::<S>() })
        }
        fn on_thread<S: Subject>(self) -> io::Result<()> {
            Self::create::<S>()
        }
    }
    // A timer that cannot be created is reported by a panic if its interface has no error.
    let created = catch_panic(|| visit_by_name(name, Check));
    let created = created.map_err(|panic| panic.to_string())?.ok_or("unknown subject")?;
    created.map_err(|error| error.to_string())
}

/// Calls a function on a tokio runtime. It is not generic, so that tokio's runtime is compiled once.
fn call_on_tokio(function: fn() -> io::Result<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { function() })
}

/// Returns how the thread of a subject waits; `None` if it has no thread.
pub fn wait_kind(name: &str) -> Option<WaitKind> {
    struct KindOfWait;
    impl Visitor for KindOfWait {
        type Output = WaitKind;
        fn on_tokio<S: Subject>(self) -> WaitKind {
            S::WAIT_KIND
        }
        fn on_busypoll<S: OnBusypoll>(self) -> WaitKind {
            S::WAIT_KIND
        }
        fn on_thread<S: Subject>(self) -> WaitKind {
            S::WAIT_KIND
        }
    }
    visit_by_name(name, KindOfWait)
}

/// Returns whether a subject uses a whole core at any period.
pub fn spins(name: &str) -> bool {
    wait_kind(name) == Some(WaitKind::Spin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        struct KindOf;
        impl Visitor for KindOf {
            type Output = RuntimeKind;
            fn on_tokio<S: Subject>(self) -> RuntimeKind {
                RuntimeKind::Tokio
            }
            fn on_busypoll<S: OnBusypoll>(self) -> RuntimeKind {
                RuntimeKind::Busypoll
            }
            fn on_thread<S: Subject>(self) -> RuntimeKind {
                RuntimeKind::Thread
            }
        }
        for entry in ALL {
            assert_eq!(
                visit_by_name(entry.name, KindOf),
                Some(entry.runtime_kind),
                "{}",
                entry.name
            );
            assert_eq!(ALL.iter().filter(|e| e.name == entry.name).count(), 1);
        }
        assert_eq!(visit_by_name("no-such-subject", KindOf), None);
    }
}
