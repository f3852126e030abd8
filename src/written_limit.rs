//! Parses limits such as `p99=2ms` and `missed=0.1%`: those of `gate` and `monitor`, and the goals
//! of `find`. A limit on a rate, such as `missed<1e-4`, has another sign.

use std::fmt;
use std::time::Duration;

use cli::units::{self, UnitError};
use files::gate::limit::Quantity;

/// Name of the only number whose rate can be limited.
const RATE_NAME: &str = "missed";

/// The name of a number and the maximum of it, as written on a command line.
pub struct WrittenLimit<'a> {
    /// The word for it in errors.
    noun: &'static str,
    text: &'a str,
    pub name: &'a str,
    value: &'a str,
}

/// Error of a limit or goal.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitError {
    /// `limit` or `goal`.
    noun: &'static str,
    text: String,
    flaw: LimitFlaw,
}

/// The part of a limit that is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LimitFlaw {
    #[error("expected e.g. {examples}")]
    MissingValue { examples: &'static str },
    #[error("{known}")]
    UnknownName { name: String, known: KnownNames },
    #[error("only {RATE_NAME} has a rate; give a maximum with =, e.g. {examples}")]
    NoRate { examples: &'static str },
    #[error("it is the length of a run, which cannot be limited")]
    RunLength,
    #[error("expected more than 0 and less than 1, e.g. {RATE_NAME}<1e-4 or {RATE_NAME}<0.01%")]
    RateOutOfRange,
    #[error("{0}")]
    InvalidTime(#[source] UnitError),
    #[error("expected {}", format_example(name, *quantity))]
    WrongUnit { name: String, quantity: Quantity },
    #[error("expected at most 100%")]
    MoreThanAllTicks,
    #[error("expected less than 100%")]
    AllTicks,
    #[error("expected more than 0")]
    Zero,
}

fn format_example(name: &str, quantity: Quantity) -> String {
    let (expected, example) = match quantity {
        Quantity::Time => ("a time", "2ms"),
        Quantity::PartOfTicks => ("a part of the ticks", "0.1%"),
        Quantity::PartOfCore => ("a part of one core", "0.1%"),
        Quantity::Rate => ("a rate", "100ppb"),
        Quantity::PerTick => ("a number for each tick", "1.5/tick"),
    };
    format!("{expected}, e.g. {name}={example}")
}

/// The names that an error suggests.
#[derive(Clone, Debug, PartialEq)]
pub enum KnownNames {
    All(Vec<&'static str>),
    Common(&'static [&'static str]),
    Nearest(Vec<String>),
}

impl LimitError {
    pub fn new(noun: &'static str, text: &str, flaw: LimitFlaw) -> Self {
        Self { noun, text: text.to_owned(), flaw }
    }
}

impl std::error::Error for LimitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.flaw.source()
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { noun, text, flaw } = self;
        match flaw {
            LimitFlaw::UnknownName { name, known } => write!(f, "unknown {noun} {name:?}: {known}"),
            flaw => write!(f, "invalid {noun} {text:?}: {flaw}"),
        }
    }
}

impl fmt::Display for KnownNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(names) => write!(f, "expected {}", names.join(", ")),
            Self::Common(names) => write!(f, "expected {} and more", names.join(", ")),
            Self::Nearest(names) => write!(f, "the nearest are {}", names.join(", ")),
        }
    }
}

impl<'a> WrittenLimit<'a> {
    /// Splits `NAME=VALUE`. Errors call it by `noun`, and give `examples`.
    pub fn split(
        noun: &'static str,
        text: &'a str,
        examples: &'static str,
    ) -> Result<Self, LimitError> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(LimitError::new(noun, text, LimitFlaw::MissingValue { examples }));
        };
        Ok(Self { noun, text, name: name.trim(), value: value.trim() })
    }

    /// Splits `missed<VALUE`, a limit on a rate; `None` for a text without `<`. Errors call it by
    /// `noun`, and give `examples` of limits on other numbers.
    ///
    /// # Errors
    /// Returns an error if the name is that of another number.
    pub fn split_rate(
        noun: &'static str,
        text: &'a str,
        examples: &'static str,
    ) -> Option<Result<Self, LimitError>> {
        let (name, value) = text.split_once('<')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        let rate = Self { noun, text, name: name.trim(), value: value.trim() };
        let has_rate = rate.name == RATE_NAME;
        Some(if has_rate { Ok(rate) } else { Err(rate.error(LimitFlaw::NoRate { examples })) })
    }

    /// Parses the value of a rate: a share such as `1e-4`, or one in `%` or `ppm`. Returns it in
    /// per cent.
    pub fn rate(&self) -> Result<f64, LimitError> {
        let number = |text: &str, factor: f64| Some(parse_number(text)? * factor);
        let percent = match (self.value.strip_suffix('%'), self.value.strip_suffix("ppm")) {
            (Some(percent), _) => number(percent, 1.0),
            (_, Some(ppm)) => number(ppm, 1e-4),
            (None, None) => number(self.value, 100.0),
        };
        let is_decisive = |percent: &f64| *percent > 0.0 && *percent < 100.0;
        percent.filter(is_decisive).ok_or_else(|| self.error(LimitFlaw::RateOutOfRange))
    }

    /// Parses the value with a unit of the quantity.
    pub fn value(&self, quantity: Quantity) -> Result<f64, LimitError> {
        let number = |unit| parse_number(self.value.strip_suffix(unit)?);
        let value = match quantity {
            Quantity::Time => {
                let time = units::parse_duration(self.value);
                let time = time.map_err(|error| self.error(LimitFlaw::InvalidTime(error)))?;
                return Ok(time.as_nanos() as f64);
            }
            Quantity::PartOfTicks | Quantity::PartOfCore => number("%"),
            Quantity::Rate => number("ppm").map(|ppm| ppm * 1e3).or(number("ppb")),
            Quantity::PerTick => number("/tick"),
        };
        match value {
            Some(percent) if quantity == Quantity::PartOfTicks && percent > 100.0 => {
                Err(self.error(LimitFlaw::MoreThanAllTicks))
            }
            Some(value) => Ok(value),
            None => Err(self.error(LimitFlaw::WrongUnit { name: self.name.to_owned(), quantity })),
        }
    }

    /// Parses a value that some loops keep and others break: no loop is late by 0 or needs no CPU
    /// time, and no loop misses more than all ticks.
    pub fn decisive_value(&self, quantity: Quantity) -> Result<f64, LimitError> {
        match (quantity, self.value(quantity)?) {
            (Quantity::PartOfTicks, 100.0) => Err(self.error(LimitFlaw::AllTicks)),
            (Quantity::Time | Quantity::PartOfCore, 0.0) => Err(self.error(LimitFlaw::Zero)),
            (_, value) => Ok(value),
        }
    }

    pub fn error(&self, flaw: LimitFlaw) -> LimitError {
        LimitError::new(self.noun, self.text, flaw)
    }

    pub fn unknown_name(&self, known: KnownNames) -> LimitError {
        self.error(LimitFlaw::UnknownName { name: self.name.to_owned(), known })
    }
}

/// Parses the longest stall that a limit on a rate must account for.
pub fn parse_stall(text: &str) -> Result<Duration, UnitError> {
    units::parse_duration_within("a stall", text, Duration::from_nanos(1)..=units::MAX_PERIOD)
}

/// Parses a number of at least 0.
fn parse_number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, quantity: Quantity) -> Result<f64, LimitError> {
        WrittenLimit::split("limit", text, "p99=2ms")?.value(quantity)
    }

    #[test]
    fn values_have_units_of_their_quantity() {
        for (text, quantity, value) in [
            ("p99=2ms", Quantity::Time, 2e6),
            (" p99 = 0ns ", Quantity::Time, 0.0),
            ("missed=0.1%", Quantity::PartOfTicks, 0.1),
            ("missed = 100 %", Quantity::PartOfTicks, 100.0),
            ("cpu=150%", Quantity::PartOfCore, 150.0),
            ("drift_ppb=0.1ppm", Quantity::Rate, 100.0),
            ("drift_ppb=7ppb", Quantity::Rate, 7.0),
            ("wakeups_per_tick=1.5/tick", Quantity::PerTick, 1.5),
        ] {
            assert_eq!(parse(text, quantity), Ok(value), "{text}");
        }
        for (text, quantity, error) in [
            ("p99", Quantity::Time, "invalid limit \"p99\": expected e.g. p99=2ms"),
            ("p99=2", Quantity::Time, "invalid limit \"p99=2\": \"2\" has no unit; "),
            (
                "missed=1ms",
                Quantity::PartOfTicks,
                "invalid limit \"missed=1ms\": expected a part of the ticks, e.g. missed=0.1%",
            ),
            (
                "missed=101%",
                Quantity::PartOfTicks,
                "invalid limit \"missed=101%\": expected at most 100%",
            ),
            ("cpu=-1%", Quantity::PartOfCore, "invalid limit \"cpu=-1%\": expected a part of one"),
            ("cpu=inf%", Quantity::PartOfCore, "invalid limit \"cpu=inf%\": expected a part of"),
            ("drift_ppb=1", Quantity::Rate, "invalid limit \"drift_ppb=1\": expected a rate, e.g."),
        ] {
            let found = parse(text, quantity).unwrap_err().to_string();
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }

    #[test]
    fn rates_are_shares_of_ticks() {
        let parse =
            |text| Some(WrittenLimit::split_rate("limit", text, "p99=2ms")?.and_then(|r| r.rate()));
        for (text, percent) in [
            ("missed<1e-4", 0.01),
            (" missed < 0.5 ", 50.0),
            ("missed<0.01%", 0.01),
            ("missed<=100 ppm", 0.01),
        ] {
            let found = parse(text).unwrap().unwrap();
            assert!((found - percent).abs() < 1e-12, "{text}: {found}");
        }
        assert_eq!(parse("missed=0.1%"), None);
        for text in [
            "missed<0", "missed<1", "missed<2", "missed<100%", "missed<-1e-4", "missed<1ms",
            "missed<nan", "missed<",
        ] {
            let error = parse(text).unwrap().unwrap_err().to_string();
            let expected =
                format!("invalid limit {text:?}: expected more than 0 and less than 1, ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = parse("p99<1ms").unwrap().unwrap_err().to_string();
        let expected = "only missed has a rate; give a maximum with =, e.g. p99=2ms";
        assert_eq!(error, format!("invalid limit \"p99<1ms\": {expected}"));
    }

    #[test]
    fn decisive_values_exclude_certain_limits() {
        let parse = |text, quantity| {
            WrittenLimit::split("goal", text, "p99=2ms").unwrap().decisive_value(quantity)
        };
        assert_eq!(parse("p99=1ns", Quantity::Time), Ok(1.0));
        assert_eq!(parse("missed=0%", Quantity::PartOfTicks), Ok(0.0));
        for (text, quantity, expected) in [
            ("p99=0us", Quantity::Time, "more than 0"),
            ("cpu=0%", Quantity::PartOfCore, "more than 0"),
            ("missed=100%", Quantity::PartOfTicks, "less than 100%"),
        ] {
            let error = format!("invalid goal {text:?}: expected {expected}");
            assert_eq!(parse(text, quantity).unwrap_err().to_string(), error);
        }
    }
}
