//! The names that tests of other projects use, with our timers and clocks.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use osinterval::{OsInterval, Sleep};
use tokio::runtime::{Builder, Runtime};

/// `tokio::time`, with the timers of osinterval.
pub mod time {
    pub use osinterval::{
        MissedTickBehavior, OsInterval as Interval, Sleep, Timeout, interval, interval_at, sleep,
        sleep_until, timeout, timeout_at,
    };
    pub use tokio::time::{Duration, Instant, advance, pause, resume};
}

/// A private method of tokio-osinterval that its tests call.
pub trait NextDeadline {
    fn next_deadline(self, previous: Instant, now: Instant, period: Duration) -> Instant;
}

impl NextDeadline for osinterval::MissedTickBehavior {
    fn next_deadline(self, previous: Instant, now: Instant, period: Duration) -> Instant {
        previous + cadence::next(self, now - previous, period, Duration::ZERO).after
    }
}

/// nexus-async-rt, whose runtime is created from a world, with busypoll.
pub mod nexus {
    pub use busypoll::{CancellationToken, channel, spawn_boxed, yield_now};

    pub struct WorldBuilder;

    pub struct World;

    pub struct Runtime(busypoll::Runtime);

    impl WorldBuilder {
        pub fn new() -> Self {
            Self
        }

        pub fn build(self) -> World {
            World
        }
    }

    impl Runtime {
        pub fn new(_: &mut World) -> Self {
            Self(busypoll::Runtime::new().unwrap())
        }

        pub fn block_on<F: std::future::Future>(&mut self, future: F) -> F::Output {
            self.0.block_on(future)
        }
    }
}

/// `async_io::Timer`, with the timers of osinterval.
pub enum Timer {
    Once(Pin<Box<Sleep>>),
    Periodic(OsInterval),
}

/// Runs the driver of `Timer`, as async-io's own thread does. The tests poll timers on other threads.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

impl Timer {
    pub fn after(duration: Duration) -> Self {
        let _context = RUNTIME.enter();
        Self::Once(Box::pin(osinterval::sleep(duration)))
    }

    pub fn interval(period: Duration) -> Self {
        let _context = RUNTIME.enter();
        Self::Periodic(osinterval::interval_at(time::Instant::now() + period, period))
    }

    pub fn set_after(&mut self, duration: Duration) {
        let deadline = time::Instant::now() + duration;
        match self {
            Self::Once(sleep) => sleep.as_mut().reset(deadline),
            Self::Periodic(interval) => interval.reset_at(deadline),
        }
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Instant> {
        match &mut *self {
            Self::Once(sleep) => {
                ready!(sleep.as_mut().poll(context));
                Poll::Ready(sleep.deadline().into_std())
            }
            Self::Periodic(interval) => interval.poll_tick(context).map(|tick| tick.into_std()),
        }
    }
}

impl futures::Stream for Timer {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll(context).map(Some)
    }
}

/// quanta's clocks: tach on the time line of the OS clock, and the OS clock itself.
pub mod quanta {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    /// Zero of the nanoseconds below. No reading is earlier.
    static EPOCH: LazyLock<Instant> = LazyLock::new(|| Instant::now() - Duration::from_secs(1));

    fn nanoseconds(instant: Instant) -> u64 {
        instant.duration_since(*EPOCH).as_nanos() as u64
    }

    pub struct Reading(pub u64);

    /// A pair of readings of both clocks, from which later readings of tach are counted.
    pub struct Clock {
        start: tach::Instant,
        start_ns: u64,
    }

    impl Clock {
        pub fn new() -> Self {
            let start = tach::Instant::now();
            Self { start, start_ns: nanoseconds(start.to_std()) }
        }

        pub fn reset_timebase(&mut self) {
            *self = Self::new();
        }

        pub fn now(&self) -> Reading {
            Reading(self.start_ns + self.start.elapsed().as_nanos() as u64)
        }
    }

    #[derive(Default)]
    pub struct Monotonic;

    impl Monotonic {
        pub fn now(&self) -> u64 {
            nanoseconds(Instant::now())
        }
    }
}

/// The suite would prove nothing about a backend if another one was selected.
#[tokio::test]
async fn feature_selects_backend() {
    let backend = osinterval::interval(Duration::from_secs(1)).backend();
    assert_eq!(backend == osinterval::Backend::TokioSleep, cfg!(not(feature = "native")));
}
