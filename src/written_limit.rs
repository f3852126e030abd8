//! Parses limits such as `p99=2ms` and `missed=0.1%`: those of `gate` and `monitor`, and the goals
//! of `find`.

use cli::units;
use files::gate::limit::Quantity;

/// The name of a number and the maximum of it, as written on a command line.
pub struct WrittenLimit<'a> {
    /// The word for it in errors.
    noun: &'static str,
    text: &'a str,
    pub name: &'a str,
    value: &'a str,
}

impl<'a> WrittenLimit<'a> {
    /// Splits `NAME=VALUE`. Errors call it by `noun`, and give `examples`.
    pub fn split(noun: &'static str, text: &'a str, examples: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(format!("invalid {noun} {text:?}: expected e.g. {examples}"));
        };
        Ok(Self { noun, text, name: name.trim(), value: value.trim() })
    }

    /// Parses the value with a unit of the quantity.
    pub fn value(&self, quantity: Quantity) -> Result<f64, String> {
        let number = |unit| parse_number(self.value.strip_suffix(unit)?);
        let (value, expected, example) = match quantity {
            Quantity::Time => {
                let time = units::parse_duration(self.value).map(|time| time.as_nanos() as f64);
                return time.map_err(|why| self.invalid(&why));
            }
            Quantity::PartOfTicks => (number("%"), "a part of the ticks", "0.1%"),
            Quantity::PartOfCore => (number("%"), "a part of one core", "0.1%"),
            Quantity::Rate => {
                let ppb = number("ppm").map(|ppm| ppm * 1e3);
                (ppb.or(number("ppb")), "a rate", "100ppb")
            }
            Quantity::PerTick => (number("/tick"), "a number for each tick", "1.5/tick"),
        };
        let expected =
            || self.invalid(&format!("expected {expected}, e.g. {}={example}", self.name));
        match value.ok_or_else(expected)? {
            percent if quantity == Quantity::PartOfTicks && percent > 100.0 => {
                Err(self.invalid("expected at most 100%"))
            }
            value => Ok(value),
        }
    }

    /// Parses a value that some loops keep and others break: no loop is late by 0 or needs no CPU
    /// time, and no loop misses more than all ticks.
    pub fn decisive_value(&self, quantity: Quantity) -> Result<f64, String> {
        match (quantity, self.value(quantity)?) {
            (Quantity::PartOfTicks, 100.0) => Err(self.invalid("expected less than 100%")),
            (Quantity::Time | Quantity::PartOfCore, 0.0) => {
                Err(self.invalid("expected more than 0"))
            }
            (_, value) => Ok(value),
        }
    }

    /// Formats the error of an invalid limit.
    pub fn invalid(&self, why: &str) -> String {
        format!("invalid {} {:?}: {why}", self.noun, self.text)
    }

    /// Formats the error of a name that is not known.
    pub fn unknown(&self, why: &str) -> String {
        format!("unknown {} {:?}: {why}", self.noun, self.name)
    }
}

/// Parses a number of at least 0.
fn parse_number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, quantity: Quantity) -> Result<f64, String> {
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
            let found = parse(text, quantity).unwrap_err();
            assert!(found.starts_with(error), "{text}: {found}");
        }
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
            assert_eq!(parse(text, quantity), Err(error));
        }
    }
}
