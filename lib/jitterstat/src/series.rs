//! The contract between osjitter and a program of yours that it measures or gates:
//! `osjitter.series/1`.
//!
//! osjitter sets four environment variables: [`ENV_TICKS`], how many ticks to record;
//! [`ENV_WARMUP`], how many ticks to run before them and not to record; [`ENV_OUT`], the file to
//! write; [`ENV_PERIOD`], the period that is asked for, which a program with a period of its own
//! need not read. Where a tick a line is wanted, [`ENV_SERIES`] is `ticks`: a program whose loop
//! has a meter of `tickmeter` needs no code for what follows, as the meter writes the file by
//! itself.
//!
//! # A program that ticks
//!
//! It writes the line `osjitter.series/1 period_ns=500000`, then one signed lateness in nanoseconds
//! (wake-up minus deadline) a line, in tick order, and exits with 0.
//!
//! ```
//! use jitterstat::series::{Reader, Writer};
//! let mut file = Vec::new();
//! let mut series = Writer::new(&mut file, 500_000)?;
//! series.push(14_250)?;
//! series.push(-3)?;
//! series.finish()?;
//! let read = Reader::read(&file[..])?;
//! assert_eq!((read.period_ns, read.lateness_ns), (500_000, vec![14_250, -3]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where [`ENV_TIMES`] is `monotonic`, osjitter would also know when each tick came: the time of
//! the wake-up on the system's monotonic clock, in nanoseconds, behind its lateness
//! ([`Writer::push_at`]). With that, `osjitter run --why` finds out what the program's threads were
//! doing between a deadline and its wake-up. Behind it, a program may write how long the thread
//! that runs the tick has waited for a CPU in all ([`Writer::push_with`]), the second number of
//! Linux's `/proc/thread-self/schedstat`: then no right is needed to tell a CPU that was taken from
//! a timer that was late. What is left out is measured all the same.
//!
//! # Any program: numbers of its own
//!
//! Nothing need be written to gate a program by its wall time, CPU time or memory. What else it is
//! to be judged by, for `osjitter gate --metric throughput --metric latency`, it declares with a
//! unit and which way is better, and writes once a run, or once a sample. Of samples, the median
//! and a tail percentile are judged.
//!
//! In Rust:
//!
//! ```
//! use jitterstat::series::{Better, Writer};
//! # let path = std::env::temp_dir().join(format!("series-doc-{}", std::process::id()));
//! # let path = path.to_str().unwrap();
//! # /*
//! let path = std::env::var(jitterstat::series::ENV_OUT)?;
//! # */
//! let mut out = Writer::without_ticks(std::fs::File::create(path)?)?;
//! out.declare("throughput", "req/s", Better::Higher)?;
//! out.declare("latency", "ns", Better::Lower)?;
//! out.value("throughput", 48_210.5)?;
//! for latency_ns in [18_234.0, 17_902.0, 25_110.0] {
//!     out.value("latency", latency_ns)?;
//! }
//! out.finish()?;
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In Python:
//!
//! ```python
//! import os, time
//! with open(os.environ["OSJITTER_OUT"], "w") as out:
//!     print("osjitter.series/1", file=out)
//!     print("metric latency ns lower", file=out)
//!     for _ in range(1000):
//!         start = time.perf_counter_ns()
//!         handle_request()
//!         print("latency", time.perf_counter_ns() - start, file=out)
//! ```
//!
//! In a shell:
//!
//! ```sh
//! tar -cf archive.tar src && gzip -k archive.tar
//! {
//!   echo "osjitter.series/1"
//!   echo "metric size bytes lower"
//!   echo "size $(wc -c <archive.tar.gz)"
//! } >"$OSJITTER_OUT"
//! ```
//!
//! A name or a unit is one word of at most 32 printable characters, a name beginning with a letter;
//! a value is a decimal number above zero.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// First word of a series.
pub const SCHEMA: &str = "osjitter.series/1";
/// Number of ticks to record.
pub const ENV_TICKS: &str = "OSJITTER_TICKS";
/// Number of ticks to run before the recorded ones.
pub const ENV_WARMUP: &str = "OSJITTER_WARMUP";
/// Period that is asked for, in nanoseconds: `--period`.
pub const ENV_PERIOD: &str = "OSJITTER_PERIOD_NS";
/// [`SERIES_OF_TICKS`] where a lateness a line is wanted, rather than the program's own numbers.
pub const ENV_SERIES: &str = "OSJITTER_SERIES";
/// Value of [`ENV_SERIES`].
pub const SERIES_OF_TICKS: &str = "ticks";
/// [`TIMES_MONOTONIC`] where the time of each wake-up is wanted, too.
pub const ENV_TIMES: &str = "OSJITTER_TIMES";
/// Value of [`ENV_TIMES`]: on Linux the clock `CLOCK_MONOTONIC`, which Python's `time.monotonic_ns`
/// and Java's `System.nanoTime` read.
pub const TIMES_MONOTONIC: &str = "monotonic";
/// Path of the file to write.
pub const ENV_OUT: &str = "OSJITTER_OUT";
/// More metrics than this are a mistake.
const MAX_METRICS: usize = 64;
/// Longest name or unit of a metric.
const MAX_WORD: usize = 32;
/// No line of a series is longer; a file without line ends is refused before it fills the memory.
const MAX_LINE: u64 = 256;

/// Writes a series, buffered. To keep a loop free of I/O, collect first and write afterwards.
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: BufWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// Those of `inner`.
    pub fn new(inner: W, period_ns: u64) -> io::Result<Self> {
        let mut inner = BufWriter::new(inner);
        writeln!(inner, "{SCHEMA} period_ns={period_ns}")?;
        Ok(Self { inner })
    }

    /// Writes the first line of a program that does not tick.
    ///
    /// # Errors
    /// Those of `inner`.
    pub fn without_ticks(inner: W) -> io::Result<Self> {
        let mut inner = BufWriter::new(inner);
        writeln!(inner, "{SCHEMA}")?;
        Ok(Self { inner })
    }

    /// Declares a metric, before its first value.
    ///
    /// # Errors
    /// Those of the file; a name or a unit that is no word of at most 32 printable characters.
    pub fn declare(&mut self, name: &str, unit: &str, better: Better) -> io::Result<()> {
        if !(is_name(name) && is_word(unit)) {
            let what = format!(
                "{name:?} in {unit:?}: a metric's name and unit are words of at most {MAX_WORD} characters"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        writeln!(self.inner, "metric {name} {unit} {better}")
    }

    /// Writes a value of a declared metric. osjitter refuses one that is not above zero.
    ///
    /// # Errors
    /// Those of the file.
    pub fn value(&mut self, name: &str, value: f64) -> io::Result<()> {
        // With an exponent where it is far from one: a line has an end.
        writeln!(self.inner, "{name} {value:?}")
    }

    /// Writes the lateness of the next tick: wake-up minus deadline, negative if early.
    ///
    /// # Errors
    /// Those of the file.
    pub fn push(&mut self, lateness_ns: i64) -> io::Result<()> {
        writeln!(self.inner, "{lateness_ns}")
    }

    /// The same with the time of the wake-up on the system's monotonic clock; then every tick must
    /// have one.
    ///
    /// # Errors
    /// Those of the file.
    pub fn push_at(&mut self, lateness_ns: i64, wake_ns: u64) -> io::Result<()> {
        writeln!(self.inner, "{lateness_ns} {wake_ns}")
    }

    /// And with the time that the thread of this tick has waited for a CPU since it began.
    ///
    /// # Errors
    /// Those of the file.
    pub fn push_with(&mut self, lateness_ns: i64, wake_ns: u64, waited_ns: u64) -> io::Result<()> {
        writeln!(self.inner, "{lateness_ns} {wake_ns} {waited_ns}")
    }

    /// Flushes. Dropping a writer does so too, but hides errors.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A complete series of ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Nominal period.
    pub period_ns: u64,
    /// Lateness of each tick, in order.
    pub lateness_ns: Vec<i64>,
    /// When each of them came, on the clock of the program's system; `None` where it did not say
    /// so.
    pub wake_ns: Option<Vec<u64>>,
    /// How long the thread of each had waited for a CPU since it began; `None` where it did not say
    /// so.
    pub waited_ns: Option<Vec<u64>>,
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better, as of a duration.
    Lower,
    /// More is better, as of a throughput.
    Higher,
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Lower { "lower" } else { "higher" })
    }
}

/// What a program declared, and the values that it wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// What it is called.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Which way it is better.
    pub better: Better,
    /// Its values.
    pub samples: Samples,
}

/// Values above zero, in bounded memory however many: those that agree in their first ten binary
/// digits, to a thousandth, share a bin, which keeps the largest of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    bins: BTreeMap<u32, (u64, f64)>,
    count: u64,
}

impl Samples {
    fn add(&mut self, value: f64) {
        // Of positive numbers, the bits are in the order of the numbers.
        let bin = self.bins.entry((value.to_bits() >> 42) as u32).or_insert((0, value));
        *bin = (bin.0 + 1, bin.1.max(value));
        self.count += 1;
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The nearest-rank quantile, to a thousandth; `None` without a value.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = ((q * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.bins.values().find(|(count, _)| {
            seen += count;
            seen >= rank
        });
        reached.map(|(_, largest)| *largest)
    }
}

/// Why a series cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SeriesError {
    /// An empty file.
    Empty,
    /// The first line is not that of a series, but this.
    Header(String),
    /// Line number, from 1, and text of a line that is not a whole number of nanoseconds.
    Line(u64, String),
    /// Line number, from 1, of a tick that has more or fewer numbers than the ticks before it.
    Columns(u64),
    /// Line number, from 1, text, and what is wrong with it: a line of a metric, or one that is too
    /// long.
    Metric(u64, String, &'static str),
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it is empty; the first line must be `{SCHEMA} period_ns=N`"),
            Self::Header(found) => {
                write!(f, "the first line must be `{SCHEMA} period_ns=N`, not {found:?}")
            }
            Self::Line(n, found) => {
                write!(f, "line {n} must be a whole number of nanoseconds, not {found:?}")
            }
            Self::Columns(n) => {
                write!(f, "line {n} must have as many numbers as the ticks before it")
            }
            Self::Metric(n, found, what) => write!(f, "line {n}, {found:?}: {what}"),
            Self::Io(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl std::error::Error for SeriesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl Reader {
    /// Reads a whole series of ticks; metrics beside them are left out.
    ///
    /// # Errors
    /// See [`SeriesError`].
    pub fn read(from: impl Read) -> Result<Self, SeriesError> {
        let mut lines = Lines::open(from)?;
        let period_ns = lines.period_ns.ok_or_else(|| SeriesError::Header(lines.text()))?;
        let mut lateness_ns = Vec::new();
        let mut more: [Option<Vec<u64>>; 2] = [None, None];
        while lines.next()? {
            let Some((late, of_tick)) = tick(&lines.line) else {
                if lines.line.starts_with(|c: char| c.is_ascii_alphabetic())
                    && lines.line.contains(' ')
                {
                    continue;
                }
                return Err(SeriesError::Line(lines.number, lines.text()));
            };
            if lateness_ns.is_empty() {
                more = of_tick.map(|number| number.map(|_| Vec::new()));
            }
            for (column, number) in more.iter_mut().zip(of_tick) {
                match (column, number) {
                    (Some(column), Some(number)) => column.push(number),
                    (None, None) => {}
                    _ => return Err(SeriesError::Columns(lines.number)),
                }
            }
            lateness_ns.push(late);
        }
        let [wake_ns, waited_ns] = more;
        Ok(Self { period_ns, lateness_ns, wake_ns, waited_ns })
    }
}

/// Reads the metrics of a series, in the order of their declarations; ticks beside them are left
/// out.
///
/// # Errors
/// See [`SeriesError`].
///
/// ```
/// use jitterstat::series::{Better, metrics};
/// let file = "osjitter.series/1\nmetric throughput req/s higher\nthroughput 4.82e4\n";
/// let [throughput] = &metrics(file.as_bytes())?[..] else { panic!() };
/// assert_eq!((throughput.unit.as_str(), throughput.better), ("req/s", Better::Higher));
/// assert_eq!(throughput.samples.quantile(0.5), Some(48_200.0));
/// # Ok::<(), jitterstat::series::SeriesError>(())
/// ```
pub fn metrics(from: impl Read) -> Result<Vec<Metric>, SeriesError> {
    let mut lines = Lines::open(from)?;
    let mut all: Vec<Metric> = Vec::new();
    while lines.next()? {
        let wrong = |what| Err(SeriesError::Metric(lines.number, lines.text(), what));
        let mut words = lines.line.split_ascii_whitespace();
        match [words.next(), words.next(), words.next(), words.next(), words.next()] {
            _ if lines.period_ns.is_some() && tick(&lines.line).is_some() => {}
            [Some("metric"), Some(name), Some(unit), Some(better), None] => {
                let better = match better {
                    "lower" => Better::Lower,
                    "higher" => Better::Higher,
                    _ => return wrong("the last word must be lower or higher, which is better"),
                };
                if !is_name(name) || !is_word(unit) {
                    return wrong(
                        "a name and a unit are words of at most 32 characters, a name begins with a letter",
                    );
                }
                if all.len() == MAX_METRICS || all.iter().any(|metric| metric.name == name) {
                    return wrong("a metric is declared once, and at most 64 are");
                }
                let (name, unit) = (name.to_owned(), unit.to_owned());
                all.push(Metric { name, unit, better, samples: Samples::default() });
            }
            [Some(name), Some(value), None, ..] => {
                let Some(metric) = all.iter_mut().find(|metric| metric.name == name) else {
                    return wrong(
                        "a metric is declared before its values: metric NAME UNIT lower|higher",
                    );
                };
                match value.parse::<f64>() {
                    Ok(value) if value.is_finite() && value > 0.0 => metric.samples.add(value),
                    Ok(_) => return wrong("a value must be a number above zero"),
                    Err(_) => return wrong("a value must be a decimal number"),
                }
            }
            _ => return wrong("a line is `metric NAME UNIT lower|higher` or `NAME VALUE`"),
        }
    }
    Ok(all)
}

/// The line of a tick: its lateness, and where they are there the time at which it came and how
/// long its thread had waited.
fn tick(line: &str) -> Option<(i64, [Option<u64>; 2])> {
    let mut words = line.split(' ');
    let late = words.next()?.parse().ok()?;
    let mut more = [None; 2];
    for place in &mut more {
        *place = words.next().map(str::parse).transpose().ok()?;
    }
    words.next().is_none().then_some((late, more))
}

fn is_word(text: &str) -> bool {
    (1..=MAX_WORD).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_name(text: &str) -> bool {
    is_word(text) && text.starts_with(|c: char| c.is_alphabetic()) && text != "metric"
}

/// The lines of a series, one at a time.
struct Lines<R> {
    from: BufReader<R>,
    bytes: Vec<u8>,
    /// The current one.
    line: String,
    number: u64,
    /// What the first one says; none of a program that does not tick.
    period_ns: Option<u64>,
}

impl<R: Read> Lines<R> {
    fn open(from: R) -> Result<Self, SeriesError> {
        let mut lines = Self {
            from: BufReader::new(from),
            bytes: Vec::new(),
            line: String::new(),
            number: 0,
            period_ns: None,
        };
        if !lines.next()? {
            return Err(SeriesError::Empty);
        }
        let wrong = |lines: &Self| SeriesError::Header(lines.text());
        let rest = lines.line.strip_prefix(SCHEMA).ok_or_else(|| wrong(&lines))?.trim();
        if !rest.is_empty() {
            let period = rest.strip_prefix("period_ns=").and_then(|period| period.parse().ok());
            lines.period_ns = Some(period.filter(|&ns| ns > 0).ok_or_else(|| wrong(&lines))?);
        }
        Ok(lines)
    }

    fn next(&mut self) -> Result<bool, SeriesError> {
        self.bytes.clear();
        (&mut self.from)
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.bytes)
            .map_err(SeriesError::Io)?;
        self.line.clear();
        self.line.push_str(String::from_utf8_lossy(&self.bytes).trim_end());
        self.number += 1;
        if self.bytes.len() as u64 == MAX_LINE && !self.bytes.ends_with(b"\n") {
            return Err(SeriesError::Metric(
                self.number,
                self.text(),
                "a line has at most 255 bytes",
            ));
        }
        Ok(!self.bytes.is_empty())
    }

    fn text(&self) -> String {
        self.line.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_series_is_named() {
        for (text, says) in [
            ("", "it is empty"),
            ("hello\n", "not \"hello\""),
            ("osjitter.series/2 period_ns=5\n", "osjitter.series/2"),
            ("osjitter.series/1 period_ns=0\n", "first line"),
            ("osjitter.series/1 period_ns=-5\n", "first line"),
            ("osjitter.series/1 period_ns=5\n1\n2.5\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1\n\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1 100\n2\n", "line 3 must have as many numbers"),
            ("osjitter.series/1 period_ns=5\n1\n2 105\n", "line 3 must have as many"),
            ("osjitter.series/1 period_ns=5\n1 2 3\n2 105\n", "line 3 must have as many"),
            ("osjitter.series/1 period_ns=5\n1 2 3 4\n", "line 2 must be"),
            ("osjitter.series/1 period_ns=5\n1 100\n2 -5\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1  100\n", "line 2"),
        ] {
            let error = Reader::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        assert!(Reader::read(&vec![b'x'; 1 << 20][..]).is_err());
    }

    #[test]
    fn what_is_no_metric_is_named() {
        let header = "osjitter.series/1\nmetric x ns lower\n";
        for (text, says) in [
            ("y 5\n", "declared before"),
            ("x 0\n", "above zero"),
            ("x -3\n", "above zero"),
            ("x NaN\n", "above zero"),
            ("x inf\n", "above zero"),
            ("x five\n", "decimal number"),
            ("x\n", "a line is"),
            ("5\n", "a line is"),
            ("x 5 ns\n", "a line is"),
            ("metric x ns lower\n", "declared once"),
            ("metric 5x ns lower\n", "begins with a letter"),
            ("metric metric ns lower\n", "begins with a letter"),
            ("metric y ns less\n", "lower or higher"),
        ] {
            let error = metrics(format!("{header}{text}").as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("line 3"), "{text:?}: {error}");
        }
        assert!(metrics("osjitter.series/1 5\n".as_bytes()).is_err());
        let many: String = (0..65).map(|i| format!("metric m{i} ns lower\n")).collect();
        assert!(metrics(format!("{SCHEMA}\n{many}").as_bytes()).is_err());
    }

    #[test]
    fn a_line_that_is_too_long_is_not_two() {
        let long = format!("{SCHEMA} period_ns=5\n{}7\n", "0".repeat(MAX_LINE as usize));
        assert!(
            Reader::read(long.as_bytes()).unwrap_err().to_string().contains("at most 255 bytes")
        );
        let mut file = Vec::new();
        let mut out = Writer::without_ticks(&mut file).unwrap();
        out.declare("x", "ns", Better::Lower).unwrap();
        for value in [f64::MAX, f64::MIN_POSITIVE] {
            out.value("x", value).unwrap();
        }
        out.finish().unwrap();
        let [x] = &metrics(&file[..]).unwrap()[..] else { panic!() };
        assert_eq!(
            [0.0, 1.0].map(|q| x.samples.quantile(q)),
            [f64::MIN_POSITIVE, f64::MAX].map(Some)
        );
    }

    #[test]
    fn ticks_and_metrics_stand_beside_each_other() {
        let mut file = Vec::new();
        let mut out = Writer::new(&mut file, 500).unwrap();
        out.declare("x", "ns", Better::Lower).unwrap();
        out.push(7).unwrap();
        out.value("x", 12.5).unwrap();
        out.push(-8).unwrap();
        assert!(out.declare("two words", "ns", Better::Lower).is_err());
        out.finish().unwrap();
        assert_eq!(
            Reader::read(&file[..]).unwrap(),
            Reader { period_ns: 500, lateness_ns: vec![7, -8], wake_ns: None, waited_ns: None }
        );
        let [x] = &metrics(&file[..]).unwrap()[..] else { panic!() };
        assert_eq!((x.samples.count(), x.samples.quantile(0.99)), (1, Some(12.5)));
        assert!(
            Reader::read("osjitter.series/1\n5\n".as_bytes())
                .unwrap_err()
                .to_string()
                .contains("period_ns")
        );
    }

    #[test]
    fn memory_is_bounded_by_the_bins_not_by_the_samples() {
        let mut samples = Samples::default();
        (1..=1_000_000).for_each(|i| samples.add(f64::from(i)));
        assert_eq!(samples.count(), 1_000_000);
        assert!(samples.bins.len() < 12_000, "{}", samples.bins.len());
    }

    proptest! {
        #[test]
        fn a_quantile_is_right_to_a_thousandth(mut values in proptest::collection::vec(1e-9_f64..1e12, 1..200), q in 0.0_f64..=1.0) {
            let mut samples = Samples::default();
            values.iter().for_each(|&value| samples.add(value));
            values.sort_by(f64::total_cmp);
            let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
            let found = samples.quantile(q).unwrap();
            prop_assert!((found / exact - 1.0).abs() < 1.0 / 1024.0, "{} {}", found, exact);
        }

        #[test]
        fn what_is_written_reads_back(period_ns in 1_u64.., lateness_ns in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut file = Vec::new();
            let mut writer = Writer::new(&mut file, period_ns).unwrap();
            lateness_ns.iter().for_each(|&ns| writer.push(ns).unwrap());
            writer.finish().unwrap();
            prop_assert_eq!(Reader::read(&file[..]).unwrap(), Reader { period_ns, lateness_ns, wake_ns: None, waited_ns: None });
        }

        #[test]
        fn times_and_waits_read_back_and_are_no_metrics(
            ticks in proptest::collection::vec(any::<(i64, u64, u64)>(), 1..50),
            waits: bool,
        ) {
            let mut file = Vec::new();
            let mut writer = Writer::new(&mut file, 5).unwrap();
            for &(late, at, waited) in &ticks {
                if waits { writer.push_with(late, at, waited).unwrap() } else { writer.push_at(late, at).unwrap() }
            }
            writer.finish().unwrap();
            let lateness_ns = ticks.iter().map(|t| t.0).collect();
            let wake_ns = Some(ticks.iter().map(|t| t.1).collect());
            let waited_ns = waits.then(|| ticks.iter().map(|t| t.2).collect());
            prop_assert_eq!(Reader::read(&file[..]).unwrap(), Reader { period_ns: 5, lateness_ns, wake_ns, waited_ns });
            prop_assert_eq!(metrics(&file[..]).unwrap(), []);
        }
    }
}
