//! The representation of an instant in 64 bits, and the arithmetic on it.
//!
//! An instant that was read is a count. The sum of an instant and a duration is not a reading, and
//! there may be no count for it: it may be earlier than the counter's start, or so far in the
//! future that its count depends on a rate that is not exact enough yet. A sum is therefore stored
//! as exact nanoseconds from the start of the line. To compare it with a count, the count is
//! converted.

use std::cmp::Ordering;
use std::time::Duration;

use crate::anchor::Anchor;
use crate::os::OsInstant;
use crate::reading::{self, MAX_COUNT, OS_CLOCK_ORIGIN, ordered_count};
use crate::source::Source;
use crate::timeline::TIMELINE;

/// The bit that is set in a sum and in no count.
const SUM_BIT: u64 = MAX_COUNT + 1;
/// The first sum.
const FIRST_SUM: u64 = SUM_BIT;
/// The last sum.
const LAST_SUM: u64 = u64::MAX;
/// The start of the line within the range of sums: 146 years from either end.
const LINE_START: i64 = 1 << 62;

/// Returns the count of a reading; `None` for a sum.
#[inline]
fn as_count(repr: u64) -> Option<u64> {
    (repr & SUM_BIT == 0).then_some(repr)
}

/// Returns the sum at `ns` nanoseconds from the start of the line; `None` if it is out of range.
fn sum_from_ns(ns: i64) -> Option<u64> {
    let offset = ns.checked_add(LINE_START)?;
    (offset >= 0).then_some(SUM_BIT | offset as u64)
}

/// Returns the nanoseconds from the start of the line to an instant.
pub(crate) fn to_ns(repr: u64) -> i64 {
    let Some(count) = as_count(repr) else { return (repr & !SUM_BIT) as i64 - LINE_START };
    match reading::source() {
        // The counts of the OS clock are nanoseconds already, so they need no line and have no
        // error.
        Source::OsClock => {
            i64::try_from(i128::from(count) - i128::from(OS_CLOCK_ORIGIN)).unwrap_or(i64::MAX)
        }
        _ => TIMELINE.ns_at(count, ordered_count, Anchor::take),
    }
}

/// Returns the count of an instant. For a sum, this is the first count that is not earlier than
/// the sum, and an estimate while the sum is in the future.
pub(crate) fn to_count(repr: u64) -> u64 {
    as_count(repr).unwrap_or_else(|| count_at(to_ns(repr)).min(MAX_COUNT))
}

/// Returns the count at `ns` nanoseconds from the start of the line.
fn count_at(ns: i64) -> u64 {
    match reading::source() {
        Source::OsClock => OS_CLOCK_ORIGIN.saturating_add_signed(ns),
        _ => {
            // The first conversion creates the line.
            let _ = to_ns(ordered_count());
            TIMELINE.count_at(ns)
        }
    }
}

/// Compares two instants. A sum and a count are compared by their nanoseconds; within the same
/// nanosecond the sum is earlier.
#[inline]
pub(crate) fn cmp(a: u64, b: u64) -> Ordering {
    if (a ^ b) & SUM_BIT == 0 { a.cmp(&b) } else { to_ns(a).cmp(&to_ns(b)).then(b.cmp(&a)) }
}

/// Creates a duration. Most are shorter than a second and need no division.
#[inline]
fn duration_from_ns(ns: u64) -> Duration {
    if ns < 1_000_000_000 { Duration::new(0, ns as u32) } else { Duration::from_nanos(ns) }
}

/// Returns the time since `earlier` by the clock that `read` reads; zero if `earlier` is in the
/// future.
#[inline]
pub(crate) fn elapsed(earlier: u64, read: impl FnOnce() -> u64) -> Duration {
    // The conversion of the earlier count follows the reading, where it overlaps with it. Before the
    // reading, a fence would wait for it.
    let now = read();
    let piece = TIMELINE.newest();
    let earlier_ns = piece.checked_ns_at(earlier).or_else(|| TIMELINE.earlier_ns_at(earlier));
    match earlier_ns.zip(piece.checked_ns_at(now)) {
        Some((earlier_ns, now_ns)) if earlier_ns <= now_ns => {
            duration_from_ns(now_ns.abs_diff(earlier_ns))
        }
        _ => checked_duration_between(earlier, now).unwrap_or_default(),
    }
}

/// Returns the time from `earlier` to `later`; zero if they are in the opposite order.
#[inline]
pub(crate) fn duration_between(earlier: u64, later: u64) -> Duration {
    elapsed(earlier, || later)
}

/// Returns the time from `earlier` to `later`; `None` if they are in the opposite order.
pub(crate) fn checked_duration_between(earlier: u64, later: u64) -> Option<Duration> {
    if (earlier ^ later) & SUM_BIT == 0 && later < earlier {
        return None;
    }
    // The later instant is converted first, since that may add the piece that both are on.
    let later_ns = to_ns(later);
    let earlier_ns = to_ns(earlier);
    if later_ns >= earlier_ns {
        Some(Duration::from_nanos(later_ns.abs_diff(earlier_ns)))
    } else {
        None
    }
}

/// Returns the instant `duration` after another; `None` if it is out of range.
pub(crate) fn checked_add(repr: u64, duration: Duration) -> Option<u64> {
    if duration.is_zero() {
        return Some(repr);
    }
    sum_from_ns(to_ns(repr).checked_add(i64::try_from(duration.as_nanos()).ok()?)?)
}

/// Returns the instant `duration` before another; `None` if it is out of range.
pub(crate) fn checked_sub(repr: u64, duration: Duration) -> Option<u64> {
    if duration.is_zero() {
        return Some(repr);
    }
    sum_from_ns(to_ns(repr).checked_sub(i64::try_from(duration.as_nanos()).ok()?)?)
}

/// Returns a count and the reading of the OS clock at the same time.
fn count_with_os_clock() -> (u64, OsInstant) {
    match reading::source() {
        Source::OsClock => (OS_CLOCK_ORIGIN, reading::os_clock_base()),
        _ => {
            let anchor = Anchor::take();
            (anchor.count(), anchor.os_instant())
        }
    }
}

/// Converts an instant to the OS clock, up to the error bound. Saturates.
pub(crate) fn to_std(repr: u64) -> OsInstant {
    let (count, os) = count_with_os_clock();
    let offset_ns = to_ns(repr).saturating_sub(to_ns(count));
    let offset = Duration::from_nanos(offset_ns.unsigned_abs());
    let step = |at: OsInstant, by: Duration| {
        if offset_ns < 0 { at.checked_sub(by) } else { at.checked_add(by) }
    };
    step(os, offset).unwrap_or_else(|| step_far(os, offset, step))
}

/// Moves a reading of the OS clock, which cannot move by all of `offset`, as far as it can, up to
/// some nanoseconds. The OS clock does not state how far that is.
fn step_far(
    os: OsInstant,
    offset: Duration,
    step: impl Fn(OsInstant, Duration) -> Option<OsInstant>,
) -> OsInstant {
    let (mut at, mut by) = (os, offset);
    while !by.is_zero() {
        by /= 2;
        at = step(at, by).unwrap_or(at);
    }
    at
}

/// Converts a reading of the OS clock to an instant, up to the error bound. Saturates.
pub(crate) fn from_std(std: OsInstant) -> u64 {
    let (count, os) = count_with_os_clock();
    match std.checked_duration_since(os) {
        Some(duration) => checked_add(count, duration).unwrap_or(LAST_SUM),
        None => checked_sub(count, os.saturating_duration_since(std)).unwrap_or(FIRST_SUM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_steps_end_at_limit() {
        let os = crate::os::now();
        for limit_ns in [0, 1, 1_000, 123_456_789_012_345] {
            let limit = os + Duration::from_nanos(limit_ns);
            let step = |at: OsInstant, by| at.checked_add(by).filter(|at| *at <= limit);
            let at = step_far(os, Duration::from_secs(1 << 32), step);
            let missing = limit.saturating_duration_since(at);
            assert!(at <= limit && missing < Duration::from_nanos(64), "{limit_ns}: {missing:?}");
        }
    }
}
