//! Counting of a guard's operations on timers.

/// Counter of a guard's operations on timers.
pub trait Tally: Send + 'static {
    const IS_COUNTED: bool;
    /// Counts a new timer.
    fn timer_created();
    /// Counts a registration with the timer wheel: the first poll before the deadline, or a change
    /// of the deadline.
    fn timer_registered();
}

/// Counts nothing, for loops that are timed.
pub struct Uncounted;

impl Tally for Uncounted {
    const IS_COUNTED: bool = false;

    fn timer_created() {}

    fn timer_registered() {}
}
