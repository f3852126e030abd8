//! Amounts in the unit of a metric.

use crate::time::format_fractional_time;

/// Formats a value and its unit with three significant digits.
pub fn format_amount(value: f64, unit: &str) -> String {
    let size = value.abs();
    let with_unit = |text: String| match unit {
        "" => text,
        unit => format!("{text} {unit}"),
    };
    match unit {
        _ if value == 0.0 => with_unit("0".to_owned()),
        // A smaller time would have no digit.
        "ns" if size >= 0.01 => format_fractional_time(value),
        "bytes" if size >= 1024.0 * 1024.0 => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        "bytes" => format!("{value:.0} bytes"),
        "instructions" if size >= 1e6 => format!("{:.2} M instructions", value / 1e6),
        _ if !(1e-6..1e15).contains(&size) => with_unit(format!("{value:.2e}")),
        _ if size >= 100.0 => with_unit(format!("{value:.0}")),
        _ => {
            with_unit(format!("{value:.*}", (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize))
        }
    }
}

/// Formats a ratio with three significant digits.
pub fn format_ratio(value: f64) -> String {
    // Count the digits of the rounded value: 0.9996 is shown as 1.00.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let whole_digits = if rounded > 0.0 { rounded.log10().floor() } else { 0.0 };
    let digits = (2.0 - whole_digits).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

/// Formats a ratio with its interval: `1.06 [0.998, 1.12]`.
pub fn format_ratio_with_interval(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let ratio = format_ratio(ratio);
    match interval {
        Some([low, high]) => format!("{ratio} [{}, {}]", format_ratio(low), format_ratio(high)),
        None => ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_any_size_are_shown() {
        for (value, unit, expected) in [
            (3.0e-5, "J", "0.0000300 J"),
            (3.2e-9, "J", "3.20e-9 J"),
            (1.5, "", "1.50"),
            (0.0, "allocs/op", "0 allocs/op"),
            (0.0, "ns", "0 ns"),
            (123_456.7, "MB/s", "123457 MB/s"),
            (400.0, "ns", "400 ns"),
            (0.31, "ns", "0.31 ns"),
            (0.002, "ns", "0.00200 ns"),
            (4.0e15, "J", "4.00e15 J"),
        ] {
            assert_eq!(format_amount(value, unit), expected);
        }
    }

    #[test]
    fn ratios_have_three_digits() {
        let ratios = [0.034_94, 0.999_6, 0.000_061_2, 9.996, 88.31, 1_234.5].map(format_ratio);
        assert_eq!(ratios, ["0.0349", "1.00", "0.0000612", "10.0", "88.3", "1234"]);
    }
}
