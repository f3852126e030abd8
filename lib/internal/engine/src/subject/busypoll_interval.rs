//! The interval of `busypoll`, with different behaviours of its runtime until a tick is due.

use std::io;
use std::marker::PhantomData;
use std::time::Instant;

use busypoll::{ParkBackend, Parking, Runtime};

use crate::subject::ticker::{Schedule, Subject, Ticker, poll_wait_of_interval};

/// A subject that runs on a busypoll runtime.
pub trait OnBusypoll: Subject {
    /// Creates the runtime.
    fn runtime() -> io::Result<Runtime>;
}

/// Behaviour of a runtime while no task is ready.
pub trait IdleBehaviour: 'static {
    const BACKEND: &'static str;
    fn runtime() -> io::Result<Runtime>;
}

/// The runtime checks its timers in every turn.
pub struct Spinning;

impl IdleBehaviour for Spinning {
    const BACKEND: &'static str = "busypoll, spinning";

    fn runtime() -> io::Result<Runtime> {
        Runtime::new()
    }
}

/// The runtime waits for events and the next deadline with a system call of every kernel.
pub struct Parked;

impl IdleBehaviour for Parked {
    const BACKEND: &'static str = "busypoll, parked";

    fn runtime() -> io::Result<Runtime> {
        Runtime::builder().parking(Parking::Park).build()
    }
}

/// The runtime waits in `io_uring_enter`. It is not available on every kernel.
pub struct ParkedOnIoUring;

impl IdleBehaviour for ParkedOnIoUring {
    const BACKEND: &'static str = "busypoll, parked in io_uring_enter";

    fn runtime() -> io::Result<Runtime> {
        let runtime = Runtime::builder().parking(Parking::Park).park_on_io_uring(true).build()?;
        if runtime.park_backend() == ParkBackend::IoUring {
            return Ok(runtime);
        }
        let reason = "io_uring cannot wait for a deadline here: it needs Linux 6.12, permission to create a ring, and a clock without the offset of a time namespace";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }
}

/// An interval of a runtime with the idle behaviour `I`.
pub struct Interval<I>(busypoll::time::Interval, PhantomData<fn() -> I>);

impl<I: IdleBehaviour> OnBusypoll for Interval<I> {
    fn runtime() -> io::Result<Runtime> {
        I::runtime()
    }
}

impl<I: IdleBehaviour> Subject for Interval<I> {
    // busypoll has no hook at the end of a park.
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self(busypoll::time::interval_at(schedule.start, schedule.period), PhantomData))
    }
}

impl<I: IdleBehaviour> Ticker for Interval<I> {
    poll_wait_of_interval!(0, Instant);

    fn backend(&self) -> String {
        I::BACKEND.to_owned()
    }
}
