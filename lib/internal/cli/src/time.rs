//! Times and shares with three significant digits and a unit.

use crate::words::group_digits;

/// Formats a time in the largest unit below it. Times below a microsecond are exact.
pub fn format_time(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    // Rounded first: 999.7 us is 1.00 ms.
    let ns = round_to_three_digits(ns.unsigned_abs());
    let (unit, symbol) = match ns {
        0..1_000 => return format!("{sign}{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{sign}{} {symbol}", format_number(ns as f64 / unit))
}

/// Formats a time that cannot be negative.
pub fn format_unsigned_time(ns: u64) -> String {
    format_time(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// Formats a difference of times, with a plus unless it is negative.
pub fn format_signed_time(ns: i64) -> String {
    if ns < 0 { format_time(ns) } else { format!("+{}", format_time(ns)) }
}

fn round_to_three_digits(n: u64) -> u128 {
    let digits = n.checked_ilog10().map_or(1, |exponent| exponent + 1);
    let step = 10_u128.pow(digits.saturating_sub(3));
    (u128::from(n) + step / 2) / step * step
}

/// Formats a time that may be a fraction of a nanosecond: `0.52 ns`, `14.2 us`.
pub fn format_fractional_time(ns: f64) -> String {
    if ns.abs() < 999.5 {
        format!("{} ns", format_number(ns))
    } else {
        format_time(ns.round() as i64)
    }
}

/// Formats an estimated duration: `0.4s`, `45s`, `35 min`, `3 h`.
pub fn format_duration(seconds: f64) -> String {
    const SHORTEST: f64 = 0.1;
    match seconds {
        s if s > 0.0 && s < 0.95 => format!("{:.1}s", s.max(SHORTEST)),
        s if s < 120.0 => format!("{s:.0}s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// Formats an interval of times. A unit that both ends share is written once.
pub fn format_interval(low: i64, high: i64) -> String {
    format_range(&format_time(low), &format_time(high))
}

/// Like [`format_interval`] for fractions of a nanosecond.
pub fn format_fractional_interval(low: f64, high: f64) -> String {
    format_range(&format_fractional_time(low), &format_fractional_time(high))
}

/// Formats a difference of times, with a plus if it is positive.
pub fn format_difference(ns: i64) -> String {
    if ns > 0 { format_signed_time(ns) } else { format_time(ns) }
}

/// Like [`format_interval`] for differences.
pub fn format_difference_interval(low: i64, high: i64) -> String {
    format_range(&format_difference(low), &format_difference(high))
}

fn format_range(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("[{number}, {high}]"),
        _ => format!("[{low}, {high}]"),
    }
}

/// Formats a part of a whole in per cent. Only a part of zero is `0`.
pub fn format_share(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        _ if part == 0 => "0".to_owned(),
        p if p < 0.01 => "<0.01 %".to_owned(),
        p if p < 99.95 || part >= whole => format!("{} %", format_number(p)),
        p if p < 99.995 => format!("{p:.2} %"),
        _ => ">99.99 %".to_owned(),
    }
}

/// Formats a share in per cent, or like `1 in 10,000` if it is small.
pub fn format_rate(share: f64) -> String {
    /// The share below which a whole number of ticks is precise enough.
    const MIN_PERCENTAGE: f64 = 0.01;
    match share {
        0.0 => "0".to_owned(),
        share if share >= MIN_PERCENTAGE => format!("{} %", format_number(share * 100.0)),
        // Rounded down, so that an upper bound does not claim more than was shown.
        share => format!("1 in {}", group_digits((1.0 / share + 1e-6) as u64)),
    }
}

/// Formats a share in per cent with one decimal, or without decimals from 1,000 % on.
pub fn format_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1_000.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Like [`format_percent`], with enough decimals that a small share does not become 0.0 %.
pub fn format_small_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.095 {
        let decimals = (1.0 - (percent * 1.001).log10().floor()).min(9.0) as usize;
        return format!("{percent:.decimals$} %");
    }
    format_percent(share)
}

/// Removes zeros and a point from the end of the fraction of a number: `2.50` becomes `2.5`.
pub fn trim_zeros(number: &str) -> &str {
    if !number.contains('.') {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.')
}

/// Formats a number with three significant digits, or with all digits before the decimal point.
pub fn format_number(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits() {
        assert_eq!([54, 14_237, 1_039_000].map(format_time), ["54 ns", "14.2 us", "1.04 ms"]);
        assert_eq!(
            [0, -7, 999_600, 9_996, -14_250_000].map(format_time),
            ["0 ns", "-7 ns", "1.00 ms", "10.0 us", "-14.3 ms"]
        );
        assert_eq!([i64::MAX, i64::MIN].map(format_time), ["9220000000 s", "-9220000000 s"]);
        assert_eq!(
            [0.52, 23.14, 999.6, 1_254.0].map(format_fractional_time),
            ["0.52 ns", "23.1 ns", "1.00 us", "1.25 us"]
        );
        assert_eq!(format_interval(14_000, 15_250), "[14.0, 15.3 us]");
        assert_eq!(format_interval(990_000, 1_200_000), "[990 us, 1.20 ms]");
    }

    #[test]
    fn only_zeros_of_fractions_are_trimmed() {
        assert_eq!(["1.00", "2.50", "100"].map(trim_zeros), ["1", "2.5", "100"]);
    }

    #[test]
    fn differences_have_signs() {
        assert_eq!([0, 1_200, -7].map(format_signed_time), ["+0 ns", "+1.20 us", "-7 ns"]);
        assert_eq!([7, u64::MAX].map(format_unsigned_time), ["7 ns", "9220000000 s"]);
        let percents = [0.0, 0.987_4, 2.0, 25.0].map(format_percent);
        assert_eq!(percents, ["0.0 %", "98.7 %", "200.0 %", "2500 %"]);
    }

    #[test]
    fn small_rates_are_fractions() {
        let rates = [0.0, 1e-4, 0.01 / 100.0, 9.985e-5, 3e-7, 0.01, 0.123].map(format_rate);
        assert_eq!(
            rates,
            [
                "0", "1 in 10,000", "1 in 10,000", "1 in 10,015", "1 in 3,333,333", "1.00 %",
                "12.3 %"
            ]
        );
    }

    #[test]
    fn small_and_large_shares_are_bounded() {
        let shares = [
            (0, 9),
            (1, 1_000_000),
            (1, 8),
            (1, 3_000),
            (9_999, 10_000),
            (99_999, 100_000),
            (9, 9),
        ]
        .map(|(part, whole)| format_share(part, whole));
        assert_eq!(shares, ["0", "<0.01 %", "12.5 %", "0.03 %", "99.99 %", ">99.99 %", "100 %"]);
    }
}
