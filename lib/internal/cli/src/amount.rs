//! Amounts in the unit of a metric.

use crate::time::format_fractional_time;

/// Formats a value and its unit with three significant digits.
pub fn format_amount(value: f64, unit: &str) -> String {
    let (size, with_unit) = (value.abs(), |text: String| format!("{text} {unit}"));
    match unit {
        "ns" => format_fractional_time(value),
        "bytes" if size >= 1024.0 * 1024.0 => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        "bytes" => format!("{value:.0} bytes"),
        "instructions" if size >= 1e6 => format!("{:.2} M instructions", value / 1e6),
        _ if size >= 100.0 => with_unit(format!("{value:.0}")),
        _ => {
            with_unit(format!("{value:.*}", (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize))
        }
    }
}
