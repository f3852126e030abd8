//! One unit for a table: people compare numbers, not suffixes.

/// A unit of time that a whole table is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Ns,
    Us,
    Ms,
}

impl Unit {
    /// The unit for a table whose largest median is `largest_ns`: the rows that matter read as plain numbers, and
    /// smaller ones keep three digits after the point.
    pub fn for_largest(largest_ns: i64) -> Self {
        match largest_ns.unsigned_abs() {
            0..1_000 => Self::Ns,
            1_000..1_000_000_000 => Self::Us,
            _ => Self::Ms,
        }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
        }
    }

    /// A value in this unit, without the symbol.
    pub fn format(self, ns: i64) -> String {
        match self {
            Self::Ns => ns.to_string(),
            Self::Us => three(ns as f64 / 1e3),
            Self::Ms => three(ns as f64 / 1e6),
        }
    }
}

/// One value with the unit that suits it.
pub fn time(ns: i64) -> String {
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three(ns as f64 / 1e6)),
        _ => format!("{} s", three(ns as f64 / 1e9)),
    }
}

/// Three significant digits below 100, whole numbers above.
fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Nanoseconds or cycles of something so short that fractions of one count: three digits, or more before the point.
pub fn cost(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_three_digits() {
        assert_eq!(Unit::Us.format(14_237), "14.2");
        assert_eq!(Unit::Us.format(1_254_000), "1254");
        assert_eq!(Unit::Us.format(51), "0.051");
        assert_eq!([54, 14_237, 1_039_000].map(time), ["54 ns", "14.2 us", "1.04 ms"]);
    }
}
