//! What a guard asks of the runtime's timers.

/// Who counts that.
pub trait Tally: Send + 'static {
    const IS_COUNTED: bool;
    /// A timer was made.
    fn timer_created();
    /// A timer was registered with the wheel: polled for the first time before it was due, or set
    /// to another time.
    fn timer_registered();
}

/// Nobody, where time is measured.
pub struct Uncounted;

impl Tally for Uncounted {
    const IS_COUNTED: bool = false;

    fn timer_created() {}

    fn timer_registered() {}
}
