//! The interval of `busypoll`, by what its runtime does until a tick is due.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use busypoll::{ParkBackend, Parking, Runtime};

use crate::subject::ticker::{Schedule, Subject, Ticker, WaitKind};

/// A subject that has to run on a certain kind of busypoll runtime.
pub trait OnBusypoll: Subject {
    fn runtime() -> io::Result<Runtime>;
}

/// What a runtime does while nothing is ready.
pub trait Idle: 'static {
    const WAIT_KIND: WaitKind;
    const BACKEND: &'static str;
    fn runtime() -> io::Result<Runtime>;
}

/// It looks at its timers in every turn.
pub struct Spinning;

impl Idle for Spinning {
    const WAIT_KIND: WaitKind = WaitKind::Spins;
    const BACKEND: &'static str = "busypoll, spinning";

    fn runtime() -> io::Result<Runtime> {
        Runtime::new()
    }
}

/// It waits for events and the next deadline, in the way that every kernel has.
pub struct Parked;

impl Idle for Parked {
    const WAIT_KIND: WaitKind = WaitKind::Timer;
    const BACKEND: &'static str = "busypoll, parked";

    fn runtime() -> io::Result<Runtime> {
        Runtime::builder().parking(Parking::Park).build()
    }
}

/// It waits in `io_uring_enter`, or cannot be had.
pub struct ParkedOnIoUring;

impl Idle for ParkedOnIoUring {
    const WAIT_KIND: WaitKind = WaitKind::Timer;
    const BACKEND: &'static str = "busypoll, parked in io_uring_enter";

    fn runtime() -> io::Result<Runtime> {
        let runtime = Runtime::builder().parking(Parking::Park).park_on_io_uring(true).build()?;
        if runtime.park_backend() == ParkBackend::IoUring {
            return Ok(runtime);
        }
        let reason =
            "no io_uring that waits for a deadline: it takes Linux 6.12 and the right to make one";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }
}

/// An interval of a runtime that idles like that.
pub struct Interval<I>(busypoll::time::Interval, PhantomData<fn() -> I>);

impl<I: Idle> OnBusypoll for Interval<I> {
    fn runtime() -> io::Result<Runtime> {
        I::runtime()
    }
}

impl<I: Idle> Subject for Interval<I> {
    // It has no hook to stamp the end of a park.
    const PARKS_UNTIL_DUE: bool = false;
    const WAIT_KIND: WaitKind = I::WAIT_KIND;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self(busypoll::time::interval_at(schedule.start, schedule.period), PhantomData))
    }
}

impl<I: Idle> Ticker for Interval<I> {
    type Event = Instant;

    #[inline]
    fn poll_wait(
        mut self: Pin<&mut Self>,
        _: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Instant>> {
        self.0.poll_tick(cx).map(Ok)
    }

    fn backend(&self) -> String {
        I::BACKEND.to_owned()
    }
}
