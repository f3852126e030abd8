//! The arithmetic of kqueue timers, compiled and tested on all systems.
#![allow(dead_code, reason = "each kqueue dialect uses a part, other backends none")]

use std::time::Duration;

use crate::real_clock::FAR_FUTURE;

/// Returns the time from `now` to a deadline in whole `unit`s, rounded up so that the timer is not
/// early. It is at least one, since kernels differ in the meaning of zero, and at most
/// [`FAR_FUTURE`]: FreeBSD adds it to its uptime, and a sum beyond 68 years would fire at once,
/// again and again. The caller arms a timer that has fired before its deadline again.
pub(super) fn units_until(deadline: Duration, now: Duration, unit: Duration) -> i64 {
    let remaining = deadline.saturating_sub(now).min(FAR_FUTURE).as_nanos();
    i64::try_from(remaining.div_ceil(unit.as_nanos()).max(1)).unwrap_or(i64::MAX)
}

/// Converts a time to ticks of a clock whose ticks are `numer`/`denom` nanoseconds long, rounded
/// up.
pub(super) fn clock_ticks(time: Duration, numer: u32, denom: u32) -> u64 {
    let ticks = (time.as_nanos() * u128::from(denom)).div_ceil(u128::from(numer.max(1)));
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Returns whether a time is a whole number of ticks that are `numer`/`denom` nanoseconds long.
pub(super) fn is_whole_ticks(time: Duration, numer: u32, denom: u32) -> bool {
    (time.as_nanos() * u128::from(denom)).is_multiple_of(u128::from(numer.max(1)))
}

/// Returns the time to wait before a repetition can begin that is close to a schedule whose first
/// deadline was `late` ago. `None` if it can begin now: at most a sixteenth of the period has
/// passed since the last deadline. Otherwise the time until the next deadline.
pub(super) fn wait_for_schedule(late: Duration, period: Duration) -> Option<Duration> {
    const NANOS: u128 = 1_000_000_000;
    /// A repetition is close if it is late by at most this fraction of the period.
    const TOLERANCE_DIVISOR: u128 = 16;
    let period = period.as_nanos();
    let passed = late.as_nanos() % period;
    let wait = period - passed;
    (passed > period / TOLERANCE_DIVISOR).then(|| {
        Duration::new(u64::try_from(wait / NANOS).unwrap_or(u64::MAX), (wait % NANOS) as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NS: Duration = Duration::from_nanos(1);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn past_deadline_is_one_unit_away() {
        assert_eq!(units_until(MS, MS, NS), 1);
        assert_eq!(units_until(Duration::ZERO, MS, MS), 1);
    }

    #[test]
    fn distant_deadlines_do_not_overflow() {
        // FreeBSD counts seconds since the start of the machine in 31 bits.
        let limit = Duration::from_secs(1 << 31);
        for unit in [NS, MS] {
            let units = units_until(Duration::MAX, Duration::ZERO, unit);
            let waited_ns = u128::try_from(units).unwrap() * unit.as_nanos();
            assert!(waited_ns <= limit.as_nanos() / 2, "{unit:?}: {units}");
        }
    }

    #[test]
    fn repetition_begins_close_to_schedule() {
        let us = Duration::from_micros;
        assert_eq!(wait_for_schedule(us(0), us(1_600)), None);
        assert_eq!(wait_for_schedule(us(100), us(1_600)), None);
        assert_eq!(wait_for_schedule(us(16_100), us(1_600)), None);
        // Three whole periods and a little more than a sixteenth of one have passed, so the rest of
        // that period is waited for.
        assert_eq!(wait_for_schedule(us(4_901), us(1_600)), Some(us(1_499)));
        assert_eq!(wait_for_schedule(us(1_599), us(1_600)), Some(us(1)));
        assert_eq!(wait_for_schedule(Duration::ZERO, Duration::MAX), None);
        assert_eq!(wait_for_schedule(Duration::MAX - NS, Duration::MAX), Some(NS));
    }

    #[test]
    fn apple_ticks_round_up() {
        // Apple silicon counts at 24 MHz: 125/3 ns per tick.
        assert_eq!(clock_ticks(Duration::from_nanos(125), 125, 3), 3);
        assert_eq!(clock_ticks(Duration::from_nanos(126), 125, 3), 4);
        assert_eq!(clock_ticks(Duration::from_secs(1), 1, 1), 1_000_000_000);
    }

    #[test]
    fn rounded_periods_are_not_whole() {
        assert!(is_whole_ticks(NS * 125, 125, 3));
        assert!(is_whole_ticks(Duration::from_micros(333), 125, 3));
        // 512 frames at 48 kHz.
        let frames = NS * 10_666_667;
        assert!(!is_whole_ticks(frames, 125, 3));
        assert!(is_whole_ticks(frames, 1, 1));
    }

    proptest! {
        #[test]
        fn units_round_up_to_next_unit(now in 0_u64..1 << 50, remaining in 1_u64..1 << 40) {
            let (now, deadline) = (Duration::from_nanos(now), Duration::from_nanos(now + remaining));
            for unit in [NS, MS] {
                let wait = unit * u32::try_from(units_until(deadline, now, unit).min(i64::from(u32::MAX))).unwrap();
                let exact = unit == MS && remaining < 1 << 40 || remaining < u64::from(u32::MAX);
                prop_assert!(!exact || now + wait >= deadline && now + wait < deadline + unit);
            }
        }

        #[test]
        fn clock_ticks_round_up(ns in 0_u64..1 << 50, numer in 1_u32..1_000, denom in 1_u32..1_000) {
            let ticks = u128::from(clock_ticks(Duration::from_nanos(ns), numer, denom));
            prop_assert!(ticks * u128::from(numer) >= u128::from(ns) * u128::from(denom));
            prop_assert!(ticks == 0 || (ticks - 1) * u128::from(numer) < u128::from(ns) * u128::from(denom));
        }
    }
}
