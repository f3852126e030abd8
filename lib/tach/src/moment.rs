//! What an instant is made of: a count, or a time on the line of the process; and what lies between
//! two.
//!
//! A reading is a count. The sum of an instant and a duration is no reading, and may lie where no
//! count does: before the counter began, or in a future whose counts are known only as well as the
//! rate is. So it is kept as the nanoseconds from the start of the line, exactly, and compared with
//! a count when that is converted.

use std::cmp::Ordering;
use std::time::Duration;

use crate::anchor::Anchor;
use crate::os::OsInstant;
use crate::reading::{self, LAST_COUNT, OS_CLOCK_ORIGIN, ordered_count};
use crate::source::Source;
use crate::timeline::TIMELINE;

/// Set in a time on the line, and in no count.
const SUM: u64 = LAST_COUNT + 1;
/// The start of the line among times on it: as far from the first as from the last, 146 years.
const LINE_START: i64 = 1 << 62;

/// The count that a moment is, if it is one.
#[inline]
fn as_count(moment: u64) -> Option<u64> {
    (moment & SUM == 0).then_some(moment)
}

/// The moment `ns` nanoseconds after the start of the line; `None` where no moment can represent
/// that.
fn at_ns(ns: i64) -> Option<u64> {
    ns.checked_add(LINE_START)
        .filter(|&from_first| from_first >= 0)
        .map(|from_first| SUM | from_first as u64)
}

/// Nanoseconds from the start of the line to a moment.
pub(crate) fn ns(moment: u64) -> i64 {
    let Some(count) = as_count(moment) else { return (moment & !SUM) as i64 - LINE_START };
    match reading::source() {
        // That clock's counts are its nanoseconds: no line, and no error.
        Source::OsClock => {
            i64::try_from(i128::from(count) - i128::from(OS_CLOCK_ORIGIN)).unwrap_or(i64::MAX)
        }
        _ => TIMELINE.ns(count, ordered_count, Anchor::take),
    }
}

/// A moment as a count, for a time on the line the first that does not lie before it: an estimate
/// while that is to come.
pub(crate) fn count(moment: u64) -> u64 {
    let at = |ns: i64| match reading::source() {
        Source::OsClock => OS_CLOCK_ORIGIN.saturating_add_signed(ns),
        _ => {
            // So that there is a line.
            let _ = self::ns(ordered_count());
            TIMELINE.count_at(ns)
        }
    };
    as_count(moment).unwrap_or_else(|| at(ns(moment)).min(LAST_COUNT))
}

/// The order of two moments: by nanoseconds where they differ in kind, and within one nanosecond a
/// time on the line lies before every count.
#[inline]
pub(crate) fn cmp(a: u64, b: u64) -> Ordering {
    if (a ^ b) & SUM == 0 { a.cmp(&b) } else { ns(a).cmp(&ns(b)).then(b.cmp(&a)) }
}

/// The time since `earlier` by a clock that is read here; zero if it is still to come.
#[inline]
pub(crate) fn elapsed(earlier: u64, read: impl FnOnce() -> u64) -> Duration {
    // What can be done before the counter is read costs next to nothing while it is being read.
    let piece = TIMELINE.newest();
    let earlier_ns = piece.ns(earlier).or_else(|| TIMELINE.earlier_ns(earlier));
    let now = read();
    match earlier_ns.zip(piece.ns(now)) {
        Some((earlier_ns, now_ns)) if earlier_ns <= now_ns => {
            Duration::from_nanos(now_ns.abs_diff(earlier_ns))
        }
        _ => between(earlier, now).unwrap_or_default(),
    }
}

/// Time from `earlier` to `later`; zero if the order is the other way round.
#[inline]
pub(crate) fn since(earlier: u64, later: u64) -> Duration {
    elapsed(earlier, || later)
}

/// Time from `earlier` to `later`; `None` if the order is the other way round.
pub(crate) fn between(earlier: u64, later: u64) -> Option<Duration> {
    if (earlier ^ later) & SUM == 0 && later < earlier {
        return None;
    }
    // The later one first: its conversion may add the piece of the line that both then lie on.
    let later_ns = ns(later);
    let earlier_ns = ns(earlier);
    (later_ns >= earlier_ns).then(|| Duration::from_nanos(later_ns.abs_diff(earlier_ns)))
}

/// The moment `duration` after another; `None` where no moment can represent that.
pub(crate) fn after(moment: u64, duration: Duration) -> Option<u64> {
    if duration.is_zero() {
        return Some(moment);
    }
    at_ns(ns(moment).checked_add(i64::try_from(duration.as_nanos()).ok()?)?)
}

/// The moment `duration` before another; `None` where no moment can represent that.
pub(crate) fn before(moment: u64, duration: Duration) -> Option<u64> {
    if duration.is_zero() {
        return Some(moment);
    }
    at_ns(ns(moment).checked_sub(i64::try_from(duration.as_nanos()).ok()?)?)
}

/// A count, and the OS clock at that moment.
fn count_with_os_clock() -> (u64, OsInstant) {
    match reading::source() {
        Source::OsClock => (OS_CLOCK_ORIGIN, reading::os_clock_base()),
        _ => {
            let anchor = Anchor::take();
            (anchor.count(), anchor.std())
        }
    }
}

/// A moment on the OS clock, up to the error bound.
pub(crate) fn to_std(moment: u64) -> OsInstant {
    let (count, os) = count_with_os_clock();
    let after = ns(moment).saturating_sub(ns(count));
    let length = Duration::from_nanos(after.unsigned_abs());
    let moved = if after < 0 { os.checked_sub(length) } else { os.checked_add(length) };
    moved.unwrap_or(os)
}

/// The moment at which the OS clock showed `std`, up to the error bound.
pub(crate) fn from_std(std: OsInstant) -> u64 {
    let (count, os) = count_with_os_clock();
    let moved = match std.checked_duration_since(os) {
        Some(length) => after(count, length),
        None => before(count, os.saturating_duration_since(std)),
    };
    moved.unwrap_or(count)
}
