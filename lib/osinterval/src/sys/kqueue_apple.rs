//! kqueue on macOS, iOS and their kin: deadlines are absolute, on the clock of `mach_absolute_time`
//! (which is the one below `std::time::Instant`), and critical, so that the kernel does not put
//! them off to serve them together with others.

use std::time::{Duration, Instant};

use crate::sys::kqueue_time::clock_ticks;

pub(crate) const KERNEL_PERIODIC: bool = true;
pub(super) const UNIT: (Duration, u32) =
    (Duration::from_nanos(1), libc::NOTE_NSECONDS | libc::NOTE_CRITICAL);
pub(super) const ABSOLUTE: Option<fn(Instant) -> (i64, u32)> = Some(|deadline| {
    let at = i64::try_from(mach_time(deadline)).unwrap_or(i64::MAX);
    (at, libc::NOTE_MACHTIME | libc::NOTE_ABSOLUTE | libc::NOTE_CRITICAL)
});

/// `mach_absolute_time` at `instant`, never less than the truth.
#[allow(deprecated, reason = "libc's declarations, so that no further crate is needed")]
fn mach_time(instant: Instant) -> u64 {
    use std::sync::OnceLock;

    struct Line {
        origin: Instant,
        ticks_at_origin: u64,
        numer: u32,
        denom: u32,
    }

    #[allow(clippy::disallowed_methods, reason = "pairing the clocks is reading them")]
    fn measure() -> Line {
        const READS: usize = 16;
        let mut base = libc::mach_timebase_info { numer: 0, denom: 0 };
        // SAFETY: the structure is ours, and the call fills it.
        unsafe { libc::mach_timebase_info(&mut base) };
        let (numer, denom) = (base.numer.max(1), base.denom.max(1));
        let origin = Instant::now();
        // Each pair bounds the ticks at the origin from above; a pause between its reads only makes
        // that bound loose.
        let bound = |_| {
            let since = origin.elapsed();
            // SAFETY: the call takes no argument and reads a clock.
            let now = unsafe { libc::mach_absolute_time() };
            let whole = u64::try_from(since.as_nanos() * u128::from(denom) / u128::from(numer))
                .unwrap_or(0);
            now.saturating_sub(whole)
        };
        let ticks_at_origin = (0..READS).map(bound).min().unwrap_or(u64::MAX);
        Line { origin, ticks_at_origin, numer, denom }
    }

    static LINE: OnceLock<Line> = OnceLock::new();
    let line = LINE.get_or_init(measure);
    match instant.checked_duration_since(line.origin) {
        Some(after) => {
            line.ticks_at_origin.saturating_add(clock_ticks(after, line.numer, line.denom))
        }
        // Before the first timer of the process: it fires at once.
        None => line.ticks_at_origin,
    }
}
