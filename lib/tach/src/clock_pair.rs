//! Reads another clock at a known time of the OS clock.

use std::time::Duration;

use crate::os::{self, OsInstant};

/// The number of readings from which one is selected: enough that one of them is not delayed by an
/// interrupt or a context switch.
const READINGS: usize = 16;

/// Reads another clock, and returns its value with the time of the OS clock at that moment.
///
/// A single reading can be milliseconds off on a busy machine, because the thread can lose its CPU
/// between the two clocks. This function therefore reads the other clock 16 times, each time between
/// two readings of the OS clock, and returns the value with the narrowest bracket and the middle of
/// that bracket.
///
/// ```
/// let origin = std::time::Instant::now();
/// let (at, elapsed) = tach::read_paired(|| origin.elapsed());
/// assert!(at >= origin && elapsed <= origin.elapsed());
/// ```
#[must_use]
pub fn read_paired<T>(read: impl FnMut() -> T) -> (OsInstant, T) {
    narrowest(os::now, read)
}

fn narrowest<T>(mut now: impl FnMut() -> OsInstant, mut read: impl FnMut() -> T) -> (OsInstant, T) {
    let mut best = BracketedReading::take(&mut now, &mut read);
    for _ in 1..READINGS {
        let next = BracketedReading::take(&mut now, &mut read);
        if next.length < best.length {
            best = next;
        }
    }
    let BracketedReading { before, length, value } = best;
    (before.checked_add(length / 2).unwrap_or(before), value)
}

/// A value that was read between two readings of the OS clock.
struct BracketedReading<T> {
    before: OsInstant,
    /// Time from the first to the second reading of the clock.
    length: Duration,
    value: T,
}

impl<T> BracketedReading<T> {
    #[inline]
    fn take(now: &mut impl FnMut() -> OsInstant, read: &mut impl FnMut() -> T) -> Self {
        let before = now();
        let value = read();
        Self { before, length: now().saturating_duration_since(before), value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
        let (time, reading) = narrowest(now, || {
            readings += 1;
            readings
        });
        assert_eq!((time, reading), (at(5 * 8_000 + 1), 3));
        assert_eq!(readings, READINGS);
    }
}
