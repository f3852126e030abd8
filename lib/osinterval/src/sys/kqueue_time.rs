//! The arithmetic of kqueue timers, compiled and tested everywhere.
#![allow(dead_code, reason = "each dialect of kqueue uses a part, other kernels none")]

use std::time::Duration;

/// How long from now to a deadline, in whole `unit`s, rounded up so that the timer is not early; at
/// least one, since a timer of zero means different things to different kernels.
pub(super) fn units_until(deadline: Duration, now: Duration, unit: Duration) -> i64 {
    let left = deadline.saturating_sub(now).as_nanos();
    i64::try_from(left.div_ceil(unit.as_nanos()).max(1)).unwrap_or(i64::MAX)
}

/// Nanoseconds in ticks of a clock whose ticks are `numer`/`denom` nanoseconds long, rounded up.
pub(super) fn clock_ticks(ns: Duration, numer: u32, denom: u32) -> u64 {
    let ticks = (ns.as_nanos() * u128::from(denom)).div_ceil(u128::from(numer.max(1)));
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Whether a repetition that begins now keeps close to a schedule whose first time was `late` ago:
/// `None` if we are within a sixteenth of the period after one of its times, otherwise how long it
/// is to the next.
pub(super) fn wait_for_grid(late: Duration, period: Duration) -> Option<Duration> {
    const NANOS: u128 = 1_000_000_000;
    const CLOSE: u128 = 16;
    let period = period.as_nanos();
    let into = late.as_nanos() % period;
    let wait = period - into;
    (into > period / CLOSE).then(|| {
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
    fn a_deadline_that_has_passed_is_one_unit_away() {
        assert_eq!(units_until(MS, MS, NS), 1);
        assert_eq!(units_until(Duration::ZERO, MS, MS), 1);
        assert_eq!(units_until(Duration::MAX, Duration::ZERO, NS), i64::MAX);
    }

    #[test]
    fn a_repetition_begins_close_to_the_schedule_or_waits_for_it() {
        let us = Duration::from_micros;
        assert_eq!(wait_for_grid(us(0), us(1_600)), None);
        assert_eq!(wait_for_grid(us(100), us(1_600)), None);
        assert_eq!(wait_for_grid(us(16_100), us(1_600)), None);
        // Three whole periods and a bit more than a sixteenth of one: the rest of that period is
        // waited for.
        assert_eq!(wait_for_grid(us(4_901), us(1_600)), Some(us(1_499)));
        assert_eq!(wait_for_grid(us(1_599), us(1_600)), Some(us(1)));
        assert_eq!(wait_for_grid(Duration::ZERO, Duration::MAX), None);
        assert_eq!(wait_for_grid(Duration::MAX - NS, Duration::MAX), Some(NS));
    }

    #[test]
    fn ticks_of_an_apple_clock() {
        // Apple silicon counts at 24 MHz: 125/3 ns a tick.
        assert_eq!(clock_ticks(Duration::from_nanos(125), 125, 3), 3);
        assert_eq!(clock_ticks(Duration::from_nanos(126), 125, 3), 4);
        assert_eq!(clock_ticks(Duration::from_secs(1), 1, 1), 1_000_000_000);
    }

    proptest! {
        #[test]
        fn never_early_and_less_than_a_unit_late(now in 0_u64..1 << 50, left in 1_u64..1 << 40) {
            let (now, deadline) = (Duration::from_nanos(now), Duration::from_nanos(now + left));
            for unit in [NS, MS] {
                let wait = unit * u32::try_from(units_until(deadline, now, unit).min(i64::from(u32::MAX))).unwrap();
                let exact = unit == MS && left < 1 << 40 || left < u64::from(u32::MAX);
                prop_assert!(!exact || now + wait >= deadline && now + wait < deadline + unit);
            }
        }

        #[test]
        fn ticks_are_never_short(ns in 0_u64..1 << 50, numer in 1_u32..1_000, denom in 1_u32..1_000) {
            let ticks = u128::from(clock_ticks(Duration::from_nanos(ns), numer, denom));
            prop_assert!(ticks * u128::from(numer) >= u128::from(ns) * u128::from(denom));
            prop_assert!(ticks == 0 || (ticks - 1) * u128::from(numer) < u128::from(ns) * u128::from(denom));
        }
    }
}
