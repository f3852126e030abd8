//! Clocks from the CPU counter: one instruction to read, trustworthy or replaced by the OS clock.
//!
//! A *count* is one raw reading. It becomes a time only afterwards, through two [`Anchor`]s, pairs of a count and the
//! operating system's clock: recording stays cheap, and no calibration stalls anybody.
//!
//! ```
//! use tach::{Anchor, Conversion};
//! let first = Anchor::take();
//! let count = tach::ordered_count();
//! std::thread::sleep(std::time::Duration::from_millis(1));
//! let last = Anchor::take();
//! let conversion = Conversion::between(&first, &last).expect("a millisecond lies between");
//! assert!(conversion.ns_since(count, first.std()) >= -(conversion.error_bound_ns() as i64));
//! ```
//!
//! An [`Instant`] has the surface of [`std::time::Instant`] over the same counts, for programs that read the clock far
//! more often than they look at the result:
//!
//! ```
//! let start = tach::Instant::now();
//! assert!(start.elapsed() < std::time::Duration::from_secs(60));
//! ```
//!
//! | | Reads | Order |
//! |---|---|---|
//! | [`Instant`] | the counter, one instruction | of one thread; the CPU may read it before earlier loads complete |
//! | [`OrderedInstant`] | the counter behind a load fence | no earlier load of this thread passes it |
//!
//! The counter is read only where it can be trusted: on `x86_64` it must be invariant (CPUID says so) and, on Linux, the
//! kernel itself must use it as its clock source; on `aarch64` the architecture promises one counter for all cores.
//! Elsewhere a count is nanoseconds of [`std::time::Instant`]; [`source`] tells which, and why.
#![deny(unsafe_code)]

mod anchor;
mod counter;
mod info;
mod instant;
mod source;
mod timeline;

pub use anchor::{Anchor, Conversion};
pub use info::{Info, info};
pub use instant::{Instant, OrderedInstant};
pub use source::{Source, WhyNotCounter, source, why_not_counter};

/// One reading of the counter; earlier loads may still be under way.
#[inline]
#[must_use]
pub fn count() -> u64 {
    match source() {
        Source::OsClock => source::os_clock_ns(),
        _ => counter::count(),
    }
}

/// One reading of the counter that no earlier load can pass: what a time stamp beside shared state needs.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    match source() {
        Source::OsClock => source::os_clock_ns(),
        _ => counter::ordered_count(),
    }
}
