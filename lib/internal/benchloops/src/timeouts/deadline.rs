//! Deadlines on tokio's clock, computed from a reading of that clock or of a counter.

use std::ops::Sub;
use std::time::Duration;

use tokio::time::Instant;

/// Computes deadlines on tokio's clock.
pub trait Deadlines: Send + 'static {
    fn new() -> Self;
    /// Returns the deadline `length` from now.
    fn after(&mut self, length: Duration) -> Instant;
}

/// Deadlines from tokio's clock.
pub struct Direct;

impl Deadlines for Direct {
    fn new() -> Self {
        Self
    }

    #[inline]
    /// Returns the deadline `length` from now.
    fn after(&mut self, length: Duration) -> Instant {
        Instant::now() + length
    }
}

/// A clock whose readings can be subtracted.
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

/// Maximum age of the pair of readings that relates a counter to tokio's clock.
///
/// The rate of the counter is not exactly known, so the relation gets worse with time.
const MAX_ANCHOR_AGE: Duration = Duration::from_secs(1);

/// Deadlines from a counter, by its advance since it was last read together with tokio's clock.
pub struct Anchored<C> {
    tokio: Instant,
    counter: C,
}

impl<C: Counter> Deadlines for Anchored<C> {
    fn new() -> Self {
        // The counter is read first: a pause between the readings makes deadlines late, never
        // early.
        let counter = C::now();
        Self { tokio: Instant::now(), counter }
    }

    #[inline]
    /// Returns the deadline `length` from now.
    fn after(&mut self, length: Duration) -> Instant {
        let mut since = C::now() - self.counter;
        if since > MAX_ANCHOR_AGE {
            *self = Self::new();
            since = Duration::ZERO;
        }
        self.tokio + since + length
    }
}
