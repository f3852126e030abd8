//! Units of the values in files that do not state them.

use clap::ValueEnum;

/// Code of the warning of a report whose unit is assumed.
pub const UNIT_WARNING: &str = "import-unit";

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

impl Unit {
    /// Parses the name of a unit, as tools write it; `None` for another word.
    pub fn parse(name: &str) -> Option<Self> {
        match name.trim().to_lowercase().as_str() {
            "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => Some(Self::Ns),
            "us" | "µs" | "μs" | "usec" | "usecs" | "microsecond" | "microseconds" => {
                Some(Self::Us)
            }
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Some(Self::Ms),
            "s" | "sec" | "secs" | "second" | "seconds" => Some(Self::S),
            _ => None,
        }
    }

    /// Returns the length of the unit in nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        match self {
            Self::Ns => 1,
            Self::Us => 1_000,
            Self::Ms => 1_000_000,
            Self::S => 1_000_000_000,
        }
    }

    /// Returns the name of the unit in a sentence.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Ns => "nanoseconds",
            Self::Us => "microseconds",
            Self::Ms => "milliseconds",
            Self::S => "seconds",
        }
    }
}
