//! kqueue on macOS, iOS and related systems.
//!
//! Deadlines are absolute, on the clock of `mach_absolute_time`, which `std::time::Instant` uses.
//! They are critical, so that the kernel does not postpone them to serve them together with others.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::sys::kqueue_time::{clock_ticks, is_whole_ticks};

pub(super) const UNIT: (Duration, u32) =
    (Duration::from_nanos(1), libc::NOTE_NSECONDS | libc::NOTE_CRITICAL);
pub(super) const ABSOLUTE: Option<fn(Instant) -> (i64, u32)> = Some(absolute_time);

pub(super) fn absolute_time(deadline: Instant) -> (i64, u32) {
    let time = i64::try_from(mach_time(deadline)).unwrap_or(i64::MAX);
    (time, libc::NOTE_MACHTIME | libc::NOTE_ABSOLUTE | libc::NOTE_CRITICAL)
}

pub(crate) fn can_repeat(period: Duration) -> bool {
    let line = clock_line();
    is_whole_ticks(period, line.numer, line.denom)
}

/// Returns an upper bound of `mach_absolute_time` at `instant`.
fn mach_time(instant: Instant) -> u64 {
    let line = clock_line();
    match instant.checked_duration_since(line.origin) {
        Some(after) => {
            line.ticks_at_origin.saturating_add(clock_ticks(after, line.numer, line.denom))
        }
        // A time before the first timer of the process has passed, so the timer fires at once.
        None => line.ticks_at_origin,
    }
}

fn clock_line() -> &'static ClockLine {
    static LINE: OnceLock<ClockLine> = OnceLock::new();
    LINE.get_or_init(ClockLine::measure)
}

/// The relation between `Instant` and the ticks of `mach_absolute_time`.
struct ClockLine {
    origin: Instant,
    /// An upper bound of the ticks at the origin.
    ticks_at_origin: u64,
    /// A tick is `numer / denom` nanoseconds.
    numer: u32,
    denom: u32,
}

#[allow(deprecated, reason = "libc's declarations, so that no further crate is needed")]
impl ClockLine {
    #[allow(clippy::disallowed_methods, reason = "the clocks have to be read to be paired")]
    fn measure() -> Self {
        const PAIRS: usize = 16;
        let mut base = libc::mach_timebase_info { numer: 0, denom: 0 };
        // SAFETY: the structure is ours, and the call fills it.
        unsafe { libc::mach_timebase_info(&mut base) };
        let (numer, denom) = (base.numer.max(1), base.denom.max(1));
        let mut line = Self { origin: Instant::now(), ticks_at_origin: u64::MAX, numer, denom };
        for _ in 0..PAIRS {
            line.ticks_at_origin = line.ticks_at_origin.min(line.bound_ticks_at_origin());
        }
        line
    }

    /// Reads both clocks for an upper bound of the ticks at the origin. A pause between the reads
    /// only makes the bound loose.
    fn bound_ticks_at_origin(&self) -> u64 {
        let since = self.origin.elapsed().as_nanos();
        // SAFETY: the call takes no argument and reads a clock.
        let now = unsafe { libc::mach_absolute_time() };
        let whole = u64::try_from(since * u128::from(self.denom) / u128::from(self.numer));
        now.saturating_sub(whole.unwrap_or(0))
    }
}
