//! The unit of the values of a log: stated by the user or the log, known of its writer, or guessed.

use files::report::Warning;

use super::line::StatedMax;
use crate::unit::{UNIT_WARNING, Unit};

/// A unit, with the reason for which it is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssumedUnit {
    pub unit: Unit,
    pub reason: UnitReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitReason {
    /// The user stated it.
    Flag,
    /// A comment of the log states it.
    Comment,
    /// The writer of the log always uses it; contains the name of the writer.
    Writer(&'static str),
    /// The ratio of the values and of the column `Interval_Max`, which is in milliseconds by
    /// convention.
    Guess,
    /// Nothing is known.
    Default,
}

impl AssumedUnit {
    /// Returns the warning for a unit that the log does not state.
    pub fn warning(self) -> Option<Warning> {
        let taken = format!("values are taken as {}", self.unit.plural());
        let message = match self.reason {
            UnitReason::Comment | UnitReason::Writer(_) => return None,
            UnitReason::Flag => format!("The log states no unit: {taken}, as given by --unit."),
            UnitReason::Guess => format!(
                "The log states no unit: {taken}. This is a guess from the column Interval_Max, which is in \
                 milliseconds by convention."
            ),
            UnitReason::Default => format!("The log states no unit: {taken}."),
        };
        let hint = "If they are in another unit, give it with --unit.";
        Some(Warning::new(UNIT_WARNING, message, hint))
    }
}

/// Returns the unit that a comment of a log states.
pub(super) fn comment_unit(comment: &str) -> Option<AssumedUnit> {
    // These writers have no option for another unit.
    const WRITERS: [(&str, &str, Unit); 2] =
        [("[Logged with jHiccup", "jHiccup", Unit::Ns), ("[Logging for: ", "YCSB", Unit::Us)];
    let known = WRITERS.iter().find(|(begin, ..)| comment.starts_with(begin));
    if let Some(&(_, name, unit)) = known {
        return Some(AssumedUnit { unit, reason: UnitReason::Writer(name) });
    }
    stated_unit(comment).map(|unit| AssumedUnit { unit, reason: UnitReason::Comment })
}

/// Returns the unit of the values that a comment states in words: `Values are in microseconds`, or
/// `values in the histogram = nanoseconds` among other quantities with theirs.
pub(crate) fn stated_unit(comment: &str) -> Option<Unit> {
    const QUANTITIES: [&str; 4] = ["measure", "value", "latenc", "lateness"];
    let comment = comment.to_lowercase();
    let is_of_values = |text: &str| QUANTITIES.iter().any(|quantity| text.contains(quantity));
    let in_words = comment.split_once(" in ").filter(|_| is_of_values(&comment));
    in_words.and_then(|(_, unit)| leading_unit(unit)).or_else(|| {
        let mut parts = comment.split([';', ',']);
        parts.find_map(|part| {
            let (quantity, unit) = part.rsplit_once(['=', ':', '('])?;
            leading_unit(unit).filter(|_| is_of_values(quantity))
        })
    })
}

/// Returns the unit with which a text begins.
fn leading_unit(text: &str) -> Option<Unit> {
    // node-hiccup has written "micro seconds".
    let joined = text.trim_start().replacen("o seconds", "oseconds", 1);
    let end = joined.find(|c: char| !c.is_alphabetic()).unwrap_or(joined.len());
    Unit::parse(&joined[..end])
}

/// The largest values of a log, and the numbers of its column `Interval_Max`.
#[derive(Default)]
pub(super) struct UnitEvidence {
    /// The largest value of all, with the number of its line.
    largest: Option<(u64, StatedMax)>,
}

impl UnitEvidence {
    /// Adds an interval with its largest value.
    pub fn add(&mut self, max: u64, stated: Option<StatedMax>) {
        if let Some(stated) = stated
            && self.largest.is_none_or(|(largest, _)| max > largest)
        {
            self.largest = Some((max, stated));
        }
    }

    /// Guesses the unit for a log of a length in seconds.
    ///
    /// By convention the column is in milliseconds, and the number of values in one of its units is
    /// that of a millisecond. The C and the Rust implementation write the value itself by default,
    /// which says nothing: a guess that makes a value longer than the log is dropped.
    pub fn guess(&self, seconds: f64) -> Option<Unit> {
        const PER_MS: [(f64, Unit); 4] =
            [(1e6, Unit::Ns), (1e3, Unit::Us), (1.0, Unit::Ms), (1e-3, Unit::S)];
        let (max, stated) = self.largest.filter(|(max, _)| *max > 0)?;
        let per_ms = max as f64 / stated.value;
        // Writers round the number, or cut its fraction off: it may be up to 2 times too small.
        let is_near = |power: f64| per_ms > 0.9 * power && per_ms < 2.1 * power;
        let unit = if stated.value == 0.0 {
            Some(Unit::Ns)
        } else {
            PER_MS.into_iter().find(|(power, _)| is_near(*power)).map(|(_, unit)| unit)
        };
        let is_value_itself = stated.is_raw && unit == Some(Unit::Ms);
        let is_possible = |unit: &Unit| {
            let longest = max as f64 * unit.nanoseconds() as f64 / 1e9;
            longest <= seconds + 1.0
        };
        unit.filter(|_| !is_value_itself).filter(is_possible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_state_units() {
        let unit = |comment| comment_unit(comment).map(|assumed| assumed.unit);
        for (comment, expected) in [
            ("[Logged with jHiccup version 2.0.6]", Some(Unit::Ns)),
            ("[Logging for: READ]", Some(Unit::Us)),
            ("Hiccup measures & interval max are in milliseconds", Some(Unit::Ms)),
            ("Hiccup measures are in micro seconds", Some(Unit::Us)),
            ("Hiccup measures, including max, are in nano seconds", Some(Unit::Ns)),
            ("[Lateness in nanoseconds; the tag is the subject]", Some(Unit::Ns)),
            ("Values in seconds", Some(Unit::S)),
            ("Timestamp and interval length are in seconds", None),
            ("[Histogram log format version 1.3]", None),
            ("values in parsecs", None),
            (
                "UNITS: StartTimestamp = seconds since StartTime; Interval_Max = milliseconds, values in the histogram = nanoseconds",
                Some(Unit::Ns),
            ),
            ("[Latency(us), Count]", Some(Unit::Us)),
            ("Interval_Max = milliseconds, values = many", None),
        ] {
            assert_eq!(unit(comment), expected, "{comment}");
        }
    }

    #[test]
    fn interval_max_suggests_unit() {
        let guess = |max, value, is_raw, seconds| {
            let mut evidence = UnitEvidence::default();
            evidence.add(max / 2, None);
            evidence.add(max, Some(StatedMax { value, is_raw }));
            evidence.guess(seconds)
        };
        assert_eq!(guess(2_769_000, 2.769, false, 1.0), Some(Unit::Ns));
        assert_eq!(guess(3_900_000, 3.0, false, 1.0), Some(Unit::Ns), "Python cuts fractions off");
        assert_eq!(guess(400, 0.0, false, 1.0), Some(Unit::Ns));
        assert_eq!(guess(4_100, 4.1, false, 1.0), Some(Unit::Us));
        assert_eq!(guess(4, 4.0, false, 1.0), Some(Unit::Ms));
        assert_eq!(guess(4, 4_000.0, false, 5.0), Some(Unit::S));
        assert_eq!(guess(4, 4.0, true, 1.0), None, "as the C implementation writes");
        assert_eq!(guess(5_000_000, 5_000_000.0, false, 1.0), None, "83 minutes in one second");
        assert_eq!(guess(70, 1.0, false, 1.0), None);
        assert_eq!(guess(0, 0.0, false, 1.0), None);
        assert_eq!(UnitEvidence::default().guess(1.0), None);
    }
}
