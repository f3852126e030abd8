//! Deadlines in tokio's clock, from a reading of this clock or of another.

use std::ops::Sub;
use std::time::Duration;

use tokio::time::Instant;

/// How a variant gets a deadline `length` from now.
pub trait Deadlines: Send + 'static {
    fn new() -> Self;
    fn after(&mut self, length: Duration) -> Instant;
}

/// From tokio's own clock.
pub struct Direct;

impl Deadlines for Direct {
    fn new() -> Self {
        Self
    }

    #[inline]
    fn after(&mut self, length: Duration) -> Instant {
        Instant::now() + length
    }
}

/// A counter that knows the time between two of its readings.
pub trait Counter: Sub<Output = Duration> + Copy + Send + 'static {
    fn now() -> Self;
}

impl Counter for tach::Instant {
    #[inline]
    fn now() -> Self {
        Self::now()
    }
}

#[cfg(feature = "quanta")]
impl Counter for quanta::Instant {
    #[inline]
    fn now() -> Self {
        Self::now()
    }
}

/// A pair of readings leads from a counter to tokio's clock only for so long: its rate is not
/// exactly known.
const RENEWED: Duration = Duration::from_secs(1);

/// From a counter, by what it has advanced since it was last read together with tokio's clock.
pub struct Anchored<C> {
    tokio: Instant,
    counter: C,
}

impl<C: Counter> Deadlines for Anchored<C> {
    fn new() -> Self {
        // The counter first: a pause in between makes a deadline late, never early.
        let counter = C::now();
        Self { tokio: Instant::now(), counter }
    }

    #[inline]
    fn after(&mut self, length: Duration) -> Instant {
        let mut since = C::now() - self.counter;
        if since > RENEWED {
            *self = Self::new();
            since = Duration::ZERO;
        }
        self.tokio + since + length
    }
}
