//! Reads a clock at a known time of another one.

use std::time::Duration;

use crate::os::{self, OsInstant};

/// The number of readings from which one is selected: enough that one of them is not delayed by an
/// interrupt or a context switch.
const READINGS: usize = 32;

/// A value, and the time of the OS clock at which it was read. [`read_paired`] creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paired<T> {
    /// The middle of the bracket in which the value was read.
    pub at: OsInstant,
    /// The time between the two readings of the OS clock that enclose the reading of the value. The
    /// error of `at` is at most half of it.
    pub bracket: Duration,
    /// The value that was read.
    pub value: T,
}

/// Reads another clock, and returns its value with the time of the OS clock at that moment.
///
/// A single reading can be milliseconds off on a busy machine, because the thread can lose its CPU
/// between the two clocks. This function therefore reads the other clock 32 times, each time between
/// two readings of the OS clock, and returns the value with the narrowest bracket and the middle of
/// that bracket.
///
/// ```
/// let origin = std::time::Instant::now();
/// let elapsed = tach::read_paired(|| origin.elapsed());
/// assert!(elapsed.at >= origin && elapsed.value <= origin.elapsed());
/// ```
#[must_use]
pub fn read_paired<T>(read: impl FnMut() -> T) -> Paired<T> {
    pair(os::now, read)
}

fn pair<T>(now: impl FnMut() -> OsInstant, read: impl FnMut() -> T) -> Paired<T> {
    let width = |before, after: OsInstant| after.saturating_duration_since(before);
    let BracketedReading { before, width: bracket, value } = read_narrowest(now, width, read);
    Paired { at: before.checked_add(bracket / 2).unwrap_or(before), bracket, value }
}

/// A value that was read between two readings of a clock.
pub(crate) struct BracketedReading<C, W, T> {
    pub(crate) before: C,
    /// The time from the first to the second reading of the clock.
    pub(crate) width: W,
    pub(crate) value: T,
}

/// Reads a value several times, each time between two readings of a clock, and returns the reading
/// with the narrowest bracket.
#[inline]
pub(crate) fn read_narrowest<C: Copy, W: PartialOrd, T>(
    mut now: impl FnMut() -> C,
    width: impl Fn(C, C) -> W,
    mut read: impl FnMut() -> T,
) -> BracketedReading<C, W, T> {
    let mut read_once = || {
        let before = now();
        let value = read();
        BracketedReading { before, width: width(before, now()), value }
    };
    let mut narrowest = read_once();
    for _ in 1..READINGS {
        let next = read_once();
        if next.width < narrowest.width {
            narrowest = next;
        }
    }
    narrowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowest_bracket_wins() {
        let origin = os::now();
        let at = |us: u64| origin.checked_add(Duration::from_micros(us)).unwrap();
        // Every reading takes 8 ms except the third, which takes 2 us.
        let mut elapsed_us = 0;
        let mut calls = 0;
        let now = || {
            let is_end = calls % 2 == 1;
            elapsed_us += if is_end && calls / 2 == 2 { 2 } else { 8_000 };
            calls += 1;
            at(elapsed_us)
        };
        let mut readings = 0;
        let paired = pair(now, || {
            readings += 1;
            readings
        });
        let bracket = Duration::from_micros(2);
        assert_eq!(paired, Paired { at: at(5 * 8_000 + 1), bracket, value: 3 });
        assert_eq!(readings, READINGS);
    }
}
