//! Durations and counts: parsing, exact formatting, nanoseconds.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::time::{format_unsigned_time, trim_zeros};

pub const MIN_PERIOD: Duration = Duration::from_micros(1);
pub const MAX_PERIOD: Duration = Duration::from_secs(3600);

const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reason why a text is not the duration or number that was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitError {
    NegativeDuration {
        text: String,
    },
    MissingUnit {
        text: String,
    },
    UnknownUnit {
        unit: String,
    },
    InvalidDuration {
        text: String,
    },
    FractionOfNanosecond {
        text: String,
    },
    TooLong {
        text: String,
    },
    ZeroPeriod {
        text: String,
    },
    /// `quantity` names the duration, such as "a period".
    DurationOutside {
        quantity: &'static str,
        text: String,
        range: RangeInclusive<Duration>,
    },
    ZeroCount,
    InvalidCount {
        text: String,
    },
    InvalidNumber {
        text: String,
    },
    InvalidNumberWithin {
        text: String,
        range: RangeInclusive<u64>,
    },
    NumberOutside {
        text: String,
        range: RangeInclusive<u64>,
    },
    InvalidIndex {
        text: String,
    },
}

impl std::error::Error for UnitError {}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeDuration { text } => {
                write!(f, "{text:?} is negative; give a positive duration such as 500us")
            }
            Self::MissingUnit { text } => {
                // A zero or a point would make an example that is rejected.
                let has_digit = text.contains(|c: char| ('1'..='9').contains(&c));
                let number = if has_digit { text } else { "500" };
                write!(
                    f,
                    "{text:?} has no unit; write for example {number}us, {number}ms or {number}s"
                )
            }
            Self::UnknownUnit { unit } => {
                write!(f, "{unit:?} is not a unit of time; use ns, us, ms, s, m or h")
            }
            Self::InvalidDuration { text } => write!(
                f,
                "{text:?} is not a duration; write one number and one unit, such as 500us or 2.5ms"
            ),
            Self::FractionOfNanosecond { text } => {
                write!(f, "{text:?} has a fraction of a nanosecond; round it")
            }
            Self::TooLong { text } => write!(f, "{text:?} is too long"),
            Self::ZeroPeriod { text } => write!(f, "invalid period {text}: expected 1us to 1h"),
            Self::DurationOutside { quantity, text, range } => {
                let [min, max] = [*range.start(), *range.end()].map(format_bound);
                write!(f, "{quantity} of {text} is outside {min} to {max}")
            }
            Self::ZeroCount => f.write_str("invalid count 0: expected at least 1"),
            Self::InvalidCount { text } => {
                write!(f, "{text:?} is not a whole number of at least 1, such as 10000 or 10k")
            }
            Self::InvalidNumber { text } => {
                write!(f, "{text:?} is not a whole number, such as 0 or 20")
            }
            Self::InvalidNumberWithin { text, range } => {
                let (min, max) = (range.start(), range.end());
                write!(f, "{text:?} is not a whole number; give one from {min} to {max}")
            }
            Self::NumberOutside { text, range } => {
                write!(f, "{text} is outside {} to {}", range.start(), range.end())
            }
            Self::InvalidIndex { text } => {
                write!(f, "{text:?} is not a number such as 0 or 3")
            }
        }
    }
}

/// Formats a bound of a range, the longest period as it is written.
fn format_bound(bound: Duration) -> String {
    if bound == MAX_PERIOD { "1h".to_owned() } else { format_exact_duration(bound) }
}

/// Parses a duration such as `500us`, `2.5ms` or `1m`.
///
/// # Errors
///
/// Returns an error if the text is not a number and a unit, or is not a whole number of
/// nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let text = text.trim();
    let owned = || text.to_owned();
    let (number, unit) = split_unit(text);
    if number.starts_with('-') {
        return Err(UnitError::NegativeDuration { text: owned() });
    }
    if unit.is_empty() {
        return Err(UnitError::MissingUnit { text: owned() });
    }
    let Some((_, unit_ns)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        // A word such as `NaN`, or several numbers as in `1m30s`, is no number with a unit.
        let is_pair = !number.is_empty() && !unit.contains(|c: char| c.is_ascii_digit());
        return Err(match is_pair {
            true => UnitError::UnknownUnit { unit: unit.to_owned() },
            false => UnitError::InvalidDuration { text: owned() },
        });
    };
    let Some(number) = Decimal::parse(number).and_then(|number| number.checked_mul(*unit_ns))
    else {
        return Err(UnitError::InvalidDuration { text: owned() });
    };
    if !number.digits.is_multiple_of(number.scale) {
        return Err(UnitError::FractionOfNanosecond { text: owned() });
    }
    let ns = u64::try_from(number.digits / number.scale);
    ns.map(Duration::from_nanos).map_err(|_| UnitError::TooLong { text: owned() })
}

/// Splits a duration into its number and its unit.
fn split_unit(text: &str) -> (&str, &str) {
    let is_of_unit = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+');
    let (number, unit) = text.split_at(text.find(is_of_unit).unwrap_or(text.len()));
    (number.trim(), unit.trim())
}

/// A decimal number without rounding: `digits` divided by `scale`.
struct Decimal {
    digits: u128,
    scale: u128,
}

impl Decimal {
    /// Parses a number such as `2.5`. Returns `None` if it is not one or has too many digits.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let has_no_digit = whole.is_empty() && fraction.is_empty();
        if has_no_digit || text.contains('+') || fraction.len() > 15 {
            return None;
        }
        let scale = 10_u128.pow(fraction.len() as u32);
        let digits = parse_digits(whole)?.checked_mul(scale)?;
        Some(Self { digits: digits.checked_add(parse_digits(fraction)?)?, scale })
    }

    fn checked_mul(self, factor: u128) -> Option<Self> {
        Some(Self { digits: self.digits.checked_mul(factor)?, ..self })
    }
}

fn parse_digits(text: &str) -> Option<u128> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

/// Parses a duration within a range. `quantity` names it in the error message.
pub fn parse_duration_within(
    quantity: &'static str,
    text: &str,
    range: RangeInclusive<Duration>,
) -> Result<Duration, UnitError> {
    let duration = parse_duration(text)?;
    if range.contains(&duration) {
        Ok(duration)
    } else {
        Err(UnitError::DurationOutside { quantity, text: text.to_owned(), range })
    }
}

/// Parses a period: a duration from 1 us to 1 h.
pub fn parse_period(text: &str) -> Result<Duration, UnitError> {
    if parse_duration(text)?.is_zero() {
        return Err(UnitError::ZeroPeriod { text: text.to_owned() });
    }
    parse_duration_within("a period", text, MIN_PERIOD..=MAX_PERIOD)
}

/// Parses a whole number such as `10k`, `1.5M` or `10_000`. `_` and `,` may group the digits; a comma
/// only by three and without `_` before it, since it could be a decimal one in `1,5k`.
fn parse_whole(text: &str) -> Option<u64> {
    let is_group = |group: &str| {
        let end = group.find(|c: char| !c.is_ascii_digit()).unwrap_or(group.len());
        end == 3
    };
    let mut groups = text.split(',');
    let first = groups.next().unwrap_or_default();
    let has_commas = first.len() < text.len();
    let is_first = (1..=3).contains(&first.len()) && first.bytes().all(|b| b.is_ascii_digit());
    if has_commas && !(is_first && groups.all(is_group)) {
        return None;
    }
    let plain: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let (number, zeros) = match plain.strip_suffix(['k', 'K', 'M', 'G']) {
        Some(number) if plain.ends_with(['k', 'K']) => (number, 3),
        Some(number) if plain.ends_with('M') => (number, 6),
        Some(number) => (number, 9),
        None => (plain.as_str(), 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // The digits of the fraction replace zeros of the suffix.
    let digits = (fraction.len() <= zeros && !whole.is_empty())
        .then(|| format!("{whole}{fraction:0<zeros$}"));
    digits.and_then(|digits| digits.parse().ok())
}

/// Parses a positive count such as `10k`.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    match parse_whole(text) {
        Some(0) => Err(UnitError::ZeroCount),
        Some(n) => Ok(n),
        None => Err(UnitError::InvalidCount { text: text.to_owned() }),
    }
}

/// Parses a whole number within a range.
pub fn parse_number_within(text: &str, range: RangeInclusive<u64>) -> Result<u64, UnitError> {
    match parse_whole(text) {
        Some(n) if range.contains(&n) => Ok(n),
        Some(_) => Err(UnitError::NumberOutside { text: text.to_owned(), range }),
        None => Err(UnitError::InvalidNumberWithin { text: text.to_owned(), range }),
    }
}

/// Parses a whole number, including zero.
pub fn parse_number(text: &str) -> Result<u64, UnitError> {
    parse_whole(text).ok_or_else(|| UnitError::InvalidNumber { text: text.to_owned() })
}

/// Parses an index, such as the number of a CPU.
pub fn parse_index(text: &str) -> Result<usize, UnitError> {
    text.parse().map_err(|_| UnitError::InvalidIndex { text: text.to_owned() })
}

/// Parses a seed. Its range is that of an integer in a plan file.
pub fn parse_seed(text: &str) -> Result<u64, UnitError> {
    parse_number_within(text, 0..=i64::MAX as u64)
}

/// Returns the nanoseconds of a duration, at most `u64::MAX`.
pub fn to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the nanoseconds of a duration, at most `i64::MAX`.
pub fn to_signed_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Converts nanoseconds to a signed number, at most `i64::MAX`.
pub fn to_signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Returns the nanoseconds from `origin` to `at`, which are negative if `at` is earlier.
pub fn ns_after(at: Instant, origin: Instant) -> i64 {
    match at.checked_duration_since(origin) {
        Some(after) => to_signed_ns(after),
        None => -to_signed_ns(origin.saturating_duration_since(at)),
    }
}

/// Formats a duration exactly, in the largest unit that divides it. Inverse of [`parse_duration`].
pub fn format_exact_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let exact = |unit: u128| ns != 0 && ns.is_multiple_of(unit);
    match ns {
        _ if exact(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        _ if exact(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if exact(1_000) => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

/// Formats nanoseconds exactly, such as a period.
pub fn format_exact_ns(ns: u64) -> String {
    format_exact_duration(Duration::from_nanos(ns))
}

/// Formats a duration with up to three digits and a unit, such as `5 s` or `2.5 ms`.
pub fn format_rounded_duration(duration: Duration) -> String {
    let text = format_unsigned_time(to_ns(duration));
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", trim_zeros(number)),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounded_durations_have_no_zeros() {
        let durations = [(0, "0 ns"), (300_300_000, "300 ms"), (5_003_000_000, "5 s")];
        for (ns, text) in durations.into_iter().chain([(2_500_000, "2.5 ms"), (999_900, "1 ms")]) {
            assert_eq!(format_rounded_duration(Duration::from_nanos(ns)), text);
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, ns) in [
            ("500us", 500_000),
            ("2.5ms", 2_500_000),
            ("1m", 60_000_000_000),
            ("0.5 µs", 500),
            (".5s", 500_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn several_units_are_no_unknown_unit() {
        for text in ["1m30s", "1e3us", "NaN", "500us500", "us"] {
            let expected = UnitError::InvalidDuration { text: text.to_owned() };
            assert_eq!(parse_duration(text), Err(expected));
        }
        assert_eq!(parse_duration("5sec"), Err(UnitError::UnknownUnit { unit: "sec".to_owned() }));
    }

    #[test]
    fn suggested_values_are_valid() {
        for text in ["0", "00", ".", "7", "2.5"] {
            let error = parse_period(text).unwrap_err().to_string();
            let words = error.split(' ').map(|word| word.trim_end_matches(','));
            let advised = words.skip_while(|word| *word != "example").skip(1);
            let advised: Vec<&str> = advised.filter(|word| *word != "or").collect();
            assert!(
                advised.len() == 3 && advised.iter().all(|text| parse_period(text).is_ok()),
                "{error}"
            );
        }
        assert_eq!(
            (parse_number("0"), parse_number("1_000"), parse_index("3")),
            (Ok(0), Ok(1000), Ok(3))
        );
        assert_eq!((parse_number_within("24", 24..=30), parse_seed("0")), (Ok(24), Ok(0)));
        let outside = parse_number_within("23", 24..=30).unwrap_err();
        assert_eq!(outside.to_string(), "23 is outside 24 to 30");
        for refused in [
            parse_number("x"),
            parse_number_within("x", 1..=2),
            parse_seed("-1"),
            parse_index("-1").map(|n| n as u64),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(" number"), "{error}");
        }
    }

    #[test]
    fn counts_are_parsed() {
        for (text, n) in [
            ("10k", 10_000),
            ("1.5M", 1_500_000),
            ("10_000", 10_000),
            ("1,500", 1_500),
            ("1,000,000", 1_000_000),
            ("1,500.5k", 1_500_500),
            ("2G", 2_000_000_000),
            ("7", 7),
        ] {
            assert_eq!(parse_count(text), Ok(n), "{text}");
        }
        for text in [
            "", "1,5k", "1,0", "1,0000", ",500", "10,00,000", "1000,000", "1.50,000M", "k", ".5k",
            "1.5", "1.2345k", "-1", "99999999999999999999", "0k", "10kk", "+1.k5",
        ] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_named() {
        for (text, says) in [
            ("500", "no unit"),
            ("-5us", "negative"),
            ("5 parsecs", "not a unit"),
            ("us", "not a duration"),
            ("1.5ns", "fraction"),
            ("1..5ms", "not a duration"),
            ("1.+5s", "not a duration"),
            ("99999999999999999999h", "too long"),
            ("6000000h", "too long"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        for text in ["0us", "999ns", "61m", "0.9us"] {
            assert!(parse_period(text).is_err(), "{text}");
        }
    }

    #[test]
    fn long_durations_saturate() {
        let durations = [Duration::ZERO, Duration::from_micros(1), Duration::MAX];
        assert_eq!(durations.map(to_ns), [0, 1_000, u64::MAX]);
        assert_eq!(durations.map(to_signed_ns), [0, 1_000, i64::MAX]);
    }

    proptest! {
        #[test]
        fn formatted_durations_parse_back(ns in 1_u64..4_000_000_000_000) {
            let d = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&format_exact_duration(d)), Ok(d));
        }
    }
}
