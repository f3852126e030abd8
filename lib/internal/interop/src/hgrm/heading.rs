//! The heading of a table of percentiles: which of its columns are understood, and how they are
//! separated.
//!
//! Writers differ in the names, in their order and in further columns. A table has at least a value,
//! its percentile and the number of values up to it.

use files::report::MAX_COUNT;

use crate::unit::Unit;

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub value: f64,
    /// The percentile, as a share of the values or in percent.
    pub share: f64,
    /// Number of values up to this one.
    pub count: u64,
    pub distance: Distance,
}

/// One divided by the share of the values above a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distance {
    /// Some writers leave it out in the last row, and some tables have no column of it.
    Missing,
    /// The row is the last one.
    Infinite,
    /// A number, or the beginning of a word.
    Other(Option<f64>),
}

impl Distance {
    fn parse(cell: Option<&str>) -> Self {
        let Some(cell) = cell else { return Self::Missing };
        let word = cell.trim_start_matches('+').to_ascii_lowercase();
        match word.as_str() {
            "inf" | "infinity" | "\u{221e}" => Self::Infinite,
            _ => Self::Other(parse_decimal(cell)),
        }
    }
}

/// The places of the columns in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heading {
    separator: Separator,
    value: usize,
    share: usize,
    count: usize,
    distance: Option<usize>,
    /// The unit of the values, if the heading states it.
    pub unit: Option<Unit>,
}

/// The text between two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    /// Any number of blanks and bars.
    Blank,
    /// This character, perhaps with blanks.
    Character(char),
}

impl Separator {
    fn from_heading(line: &str) -> Self {
        let character = [',', ';'].into_iter().find(|&character| line.contains(character));
        character.map_or(Self::Blank, Self::Character)
    }

    fn split(self, line: &str) -> Vec<&str> {
        let cells: Vec<&str> = match self {
            Self::Blank => line.split(|c: char| c.is_whitespace() || c == '|').collect(),
            Self::Character(character) => line.split(character).collect(),
        };
        let cells = cells.into_iter().map(|cell| cell.trim().trim_matches('"'));
        cells.filter(|cell| !cell.is_empty()).collect()
    }
}

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Value,
    Share,
    Count,
    /// One divided by the share of the larger values.
    Distance,
    Other,
}

impl Content {
    /// Recognizes a column by its name, without its unit.
    fn parse(name: &str) -> Self {
        match name.to_ascii_lowercase().replace(['_', '-', ' '], "").as_str() {
            "value" | "latency" | "lateness" | "time" | "duration" => Self::Value,
            "percentile" | "quantile" | "quantilevalue" | "percent" => Self::Share,
            "totalcount" | "cumulativecount" => Self::Count,
            "1/" => Self::Distance,
            _ => Self::Other,
        }
    }
}

impl Heading {
    /// Parses a line with the names of the columns, perhaps behind the mark of a comment.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim_start_matches(['#', '/']).trim_start();
        let separator = Separator::from_heading(line);
        // These names may be written as two words.
        let joined = line.replace(" (", "(").replace("Total Count", "TotalCount");
        let (mut unit, mut contents) = (None, Vec::new());
        for cell in separator.split(&joined) {
            let (name, detail) = cell.split_once('(').unwrap_or((cell, ""));
            let content = Content::parse(name);
            if content == Content::Value {
                unit = Unit::parse(detail.trim_end_matches(')'));
            }
            // Such words are those of a log.
            let is_first_other = content == Content::Other && contents.is_empty();
            if is_first_other || !name.starts_with(char::is_alphanumeric) {
                return None;
            }
            contents.push(content);
        }
        let place = |wanted| contents.iter().position(|content| *content == wanted);
        let (value, share) = (place(Content::Value)?, place(Content::Share)?);
        let (count, distance) = (place(Content::Count)?, place(Content::Distance));
        Some(Self { separator, value, share, count, distance, unit })
    }

    /// Returns whether a line begins as a row does, with a number, even if that is damaged, negative or
    /// `NaN`.
    pub fn is_row_start(&self, line: &str) -> bool {
        let is_number = |cell: &str| cell.parse::<f64>().is_ok();
        line.starts_with(|c: char| c.is_ascii_digit())
            || self.separator.split(line).first().is_some_and(|cell| is_number(cell))
    }

    /// Parses a row; `None` if a column is missing or has no possible number.
    pub fn row(&self, line: &str) -> Option<Row> {
        let cells = self.separator.split(line);
        let value = parse_decimal(cells.get(self.value)?)?;
        let share = parse_decimal(cells.get(self.share)?.trim_end_matches('%'))?;
        let count = cells.get(self.count)?.parse().ok().filter(|&count| count <= MAX_COUNT)?;
        let distance = Distance::parse(self.distance.and_then(|place| cells.get(place).copied()));
        (value >= 0.0).then_some(Row { value, share, count, distance })
    }
}

/// Parses a finite number, whose decimals may follow a comma as some languages write them.
pub(super) fn parse_decimal(text: &str) -> Option<f64> {
    text.replace(',', ".").parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row =
        Row { value: 1.2, share: 0.5, count: 520, distance: Distance::Other(Some(2.0)) };

    #[test]
    fn writers_name_columns_differently() {
        for (heading, row) in [
            ("Value Percentile TotalCount 1/(1-Percentile)", "1.200 0.500000000000 520 2.00"),
            ("\"Value\",\"Percentile\",\"TotalCount\",\"1/(1-Percentile)\"", "1.2,0.5,520,2.0"),
            ("Value;Percentile;TotalCount;1/(1-Percentile)", "1,2; 0,5; 520; 2,0"),
            ("Value\tPercentile\tTotalCount\t1/(1-Percentile)", "1.200\t0.5\t520\t2.00"),
            ("# value  percentile  total_count", "1,200  0,500000  520"),
            ("Value(ms)  Percentile  TotalCount  1/(1-Percentile)", "1.200000  0.5  520  2.0"),
            ("Value (us) Percentile Total Count", "1.2 0.5 520"),
            // The Rust implementation has two columns of quantiles.
            (
                "Value QuantileValue QuantileIteration TotalCount 1/(1-Quantile)",
                "1.2 0.5 0.4 520 2.0",
            ),
            ("Percentile TotalCount Latency", "0.5 520 1.2"),
            ("| Value | Percentile | TotalCount |", "| 1.2 | 0.5 | 520 |"),
        ] {
            let parsed = Heading::parse(heading).unwrap_or_else(|| panic!("{heading}"));
            let distance = parsed.distance.map_or(Distance::Missing, |_| ROW.distance);
            assert_eq!(parsed.row(row), Some(Row { distance, ..ROW }), "{heading}");
        }
    }

    #[test]
    fn distance_shows_last_row() {
        let heading = Heading::parse("Value Percentile TotalCount 1/(1-Percentile)").unwrap();
        for (cell, distance) in [
            ("", Distance::Missing),
            ("inf", Distance::Infinite),
            ("+Inf", Distance::Infinite),
            ("Infinity", Distance::Infinite),
            ("50000000.00", Distance::Other(Some(5e7))),
            ("Infin", Distance::Other(None)),
        ] {
            let row = heading.row(&format!("1.2 1.000000 520 {cell}")).unwrap();
            assert_eq!(row.distance, distance, "{cell}");
        }
    }

    #[test]
    fn heading_may_state_unit() {
        let unit =
            |name: &str| Heading::parse(&format!("{name} Percentile TotalCount")).unwrap().unit;
        assert_eq!(unit("Value(ms)"), Some(Unit::Ms));
        assert_eq!(unit("Latency(usec)"), Some(Unit::Us));
        assert_eq!((unit("Value"), unit("Value(requests)")), (None, None));
    }

    #[test]
    fn other_lines_are_no_headings() {
        for line in [
            "",
            "Value Percentile",
            "Percentile TotalCount",
            "the value, its percentile and more",
            "INFO Value Percentile TotalCount",
            "Latency - Value Percentile TotalCount",
            "1.0 0.5 7 2.0",
        ] {
            assert_eq!(Heading::parse(line), None, "{line}");
        }
        let heading = Heading::parse("Value Percentile TotalCount").unwrap();
        for row in ["1.2 0.5", "1.2x 0.5 520", "-1.2 0.5 520", "1.2 0.5 52.5", "inf 0.5 520"] {
            assert_eq!(heading.row(row), None, "{row}");
        }
    }
}
