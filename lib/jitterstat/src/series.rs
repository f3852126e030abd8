//! The contract `osjitter.series/1` between osjitter and a program that it measures or gates.
//!
//! osjitter sets four environment variables: [`ENV_TICKS`] is the number of ticks to record,
//! [`ENV_WARMUP`] the number of unrecorded ticks to run before them, [`ENV_OUT`] the file to write,
//! and [`ENV_PERIOD`] the requested period, which a program with a fixed period can ignore. If
//! osjitter expects one line per tick, [`ENV_SERIES`] is `ticks`. A program whose loop has a meter
//! of `tickmeter` needs no code for the following: the meter writes the file. [`ENV_METER`] is the
//! name of a meter, if the user has selected one.
//!
//! # Ticks
//!
//! The program writes the line `osjitter.series/1 period_ns=500000`, then one line per tick with
//! its signed lateness in nanoseconds (wake-up minus deadline), in tick order, and exits with 0.
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
//! If [`ENV_TIMES`] is `monotonic`, the program should write a second number on each line: the time
//! of the wake-up on the system's monotonic clock, in nanoseconds ([`Writer::push_at`]). With it,
//! `osjitter run --why` can find out what the program's threads were doing between a deadline and
//! its wake-up. A third number is optional: the total time for which the thread of the tick has
//! waited for a CPU ([`Writer::push_with`]), which is the second number of Linux's
//! `/proc/thread-self/schedstat`. With it, osjitter needs no privileges to distinguish a busy CPU
//! from a late timer. Both numbers can be left out; the lateness is measured in any case.
//!
//! A program whose work is all done by one process should also write its [`Usage`]
//! ([`Writer::usage`]), so that the price of a tick contains nothing but ticks. Without it, osjitter
//! measures the program from outside, with its start and the writing of the series.
//!
//! # Several rounds
//!
//! By default osjitter starts a program once per round. If [`ENV_ROUNDS`] is `stdin`, a program can
//! run several rounds in one process, which saves the starts:
//!
//! 1. It writes the line `osjitter.requests/1 ready` to standard output.
//! 2. For each line of standard input, such as `ticks=250 warmup=20`, it runs a round with these
//!    numbers, replaces the file [`ENV_OUT`] with its series, and writes the line
//!    `osjitter.requests/1 done`.
//! 3. It exits at the end of standard input.
//!
//! The numbers of the environment do not apply then. Between two rounds, the program waits for
//! standard input and should do nothing else. Other lines of standard output are ignored. A program
//! that does not write the first line, as every program without this protocol, is run once per
//! round. [`Rounds`] implements both.
//!
//! # Metrics
//!
//! To gate a program by its wall time, CPU time or memory, the program need not write anything. It
//! can declare additional metrics, for `osjitter gate --metric throughput --metric latency`, each
//! with a unit and the better direction, and write one value per run or one per sample. The gate
//! judges the median and a tail percentile of samples.
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
//! A name or a unit is one word of at most 32 printable characters, and a name begins with a
//! letter. A value is a decimal number above zero.

mod metrics;
mod rounds;
mod usage;

use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

pub use metrics::{Better, Metric, Samples, metrics};
use metrics::{check_value, declare_metric, declared_metric, is_metric_line};
pub use rounds::{
    ENV_ROUNDS, REQUESTS_SCHEMA, ROUNDS_FROM_STDIN, Round, RoundReply, RoundRequest, Rounds,
};
use usage::is_usage_line;
pub use usage::{InvalidUsage, Usage};

/// The first word of a series.
pub const SCHEMA: &str = "osjitter.series/1";
/// Environment variable with the number of ticks to record.
pub const ENV_TICKS: &str = "OSJITTER_TICKS";
/// Environment variable with the number of ticks to run before the recorded ones.
pub const ENV_WARMUP: &str = "OSJITTER_WARMUP";
/// Environment variable with the requested period in nanoseconds (`--period`).
pub const ENV_PERIOD: &str = "OSJITTER_PERIOD_NS";
/// Environment variable that is [`SERIES_OF_TICKS`] if osjitter expects ticks rather than metrics.
pub const ENV_SERIES: &str = "OSJITTER_SERIES";
/// Value of [`ENV_SERIES`].
pub const SERIES_OF_TICKS: &str = "ticks";
/// Environment variable that is [`TIMES_MONOTONIC`] if the time of each wake-up is requested.
pub const ENV_TIMES: &str = "OSJITTER_TIMES";
/// Value of [`ENV_TIMES`]. On Linux this is the clock `CLOCK_MONOTONIC`, which Python's
/// `time.monotonic_ns` and Java's `System.nanoTime` read.
pub const TIMES_MONOTONIC: &str = "monotonic";
/// Environment variable with the name of the meter that is measured (`--meter`), if the program has
/// several of them.
pub const ENV_METER: &str = "OSJITTER_METER";
/// Environment variable with the path of the file to write.
pub const ENV_OUT: &str = "OSJITTER_OUT";
/// Maximum length of a line with its end, so that a file without line ends is rejected before it
/// fills the memory.
const MAX_LINE: u64 = 256;
const LINE_TOO_LONG: &str = "a line has at most 255 bytes";

/// Mark at the beginning of a file that some editors and shells write.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A buffered writer of a series, which rejects whatever a reader would reject. It is `Send` and
/// `Sync` if the inner writer is. To keep a loop free of I/O, collect the ticks first and write them
/// afterwards.
#[must_use = "call `finish`, which reports errors; dropping the writer hides them"]
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: BufWriter<W>,
    /// Whether the first line contains a period, without which there are no ticks.
    has_period: bool,
    /// How many numbers each tick has; `None` before the first one.
    tick_numbers: Option<u8>,
    has_usage: bool,
    /// The declared metrics, without their values.
    metrics: Vec<Metric>,
}

impl<W: Write> Writer<W> {
    /// Creates a writer and writes the first line of a series of ticks.
    ///
    /// # Errors
    /// Returns an error if the period is zero, and any error of `inner`.
    pub fn new(inner: W, period_ns: u64) -> io::Result<Self> {
        if period_ns == 0 {
            return Err(invalid_input("invalid period 0: expected at least 1 ns"));
        }
        let mut writer = Self::with_period(inner, true);
        writeln!(writer.inner, "{SCHEMA} period_ns={period_ns}")?;
        Ok(writer)
    }

    /// Creates a writer and writes the first line of a series without ticks.
    ///
    /// # Errors
    /// Returns any error of `inner`.
    pub fn without_ticks(inner: W) -> io::Result<Self> {
        let mut writer = Self::with_period(inner, false);
        writeln!(writer.inner, "{SCHEMA}")?;
        Ok(writer)
    }

    fn with_period(inner: W, has_period: bool) -> Self {
        let inner = BufWriter::new(inner);
        Self { inner, has_period, tick_numbers: None, has_usage: false, metrics: Vec::new() }
    }

    /// Declares a metric. Must be called before its first value.
    ///
    /// # Errors
    /// Returns an error if the name or unit is not a word of at most 32 printable characters, if
    /// the metric is already declared, if there are 64 metrics, if the line would be longer than
    /// 255 bytes, and any error of the inner writer.
    pub fn declare(&mut self, name: &str, unit: &str, better: Better) -> io::Result<()> {
        let line = format!("metric {name} {unit} {better}\n");
        let checked = match line.len() as u64 {
            ..=MAX_LINE => declare_metric(&mut self.metrics, name, unit, better),
            _ => Err(LINE_TOO_LONG),
        };
        checked.map_err(|what| {
            invalid_input(format!("invalid metric {name:?} in {unit:?}: {what}"))
        })?;
        self.inner.write_all(line.as_bytes())
    }

    /// Writes a value of a declared metric.
    ///
    /// # Errors
    /// Returns an error if the metric is not declared or the value is not a number above zero, and
    /// any error of the inner writer.
    pub fn value(&mut self, name: &str, value: f64) -> io::Result<()> {
        let checked = declared_metric(&mut self.metrics, name).and_then(|_| check_value(value));
        checked.map_err(|what| {
            invalid_input(format!("invalid value {value:?} of metric {name:?}: {what}"))
        })?;
        // `Debug` uses an exponent for very large and small values, so lines stay short.
        writeln!(self.inner, "{name} {value:?}")
    }

    /// Writes the lateness of the next tick: wake-up minus deadline, negative if early.
    ///
    /// # Errors
    /// Returns an error if the series has no period or its ticks have times, and any error of the
    /// inner writer.
    pub fn push(&mut self, lateness_ns: i64) -> io::Result<()> {
        self.check_tick(1)?;
        writeln!(self.inner, "{lateness_ns}")
    }

    /// Writes a tick with the time of its wake-up on the system's monotonic clock. Every tick must
    /// have one then.
    ///
    /// # Errors
    /// Returns an error if the series has no period or another tick has other numbers, and any
    /// error of the inner writer.
    pub fn push_at(&mut self, lateness_ns: i64, wake_ns: u64) -> io::Result<()> {
        self.check_tick(2)?;
        writeln!(self.inner, "{lateness_ns} {wake_ns}")
    }

    /// Writes a tick with the time of its wake-up, and the time for which its thread has waited for
    /// a CPU since the thread started. Every tick must have both then.
    ///
    /// # Errors
    /// Returns an error if the series has no period or another tick has other numbers, and any
    /// error of the inner writer.
    pub fn push_with(&mut self, lateness_ns: i64, wake_ns: u64, waited_ns: u64) -> io::Result<()> {
        self.check_tick(3)?;
        writeln!(self.inner, "{lateness_ns} {wake_ns} {waited_ns}")
    }

    /// Writes the usage of the process between the first and the last tick.
    ///
    /// # Errors
    /// Returns an error if the usage is already written, and any error of the inner writer.
    pub fn usage(&mut self, usage: &Usage) -> io::Result<()> {
        if self.has_usage {
            return Err(invalid_input("invalid second usage: expected one in a series"));
        }
        self.has_usage = true;
        writeln!(self.inner, "{usage}")
    }

    /// Checks that the series can have a tick with this many numbers.
    fn check_tick(&mut self, numbers: u8) -> io::Result<()> {
        if !self.has_period {
            return Err(invalid_input("invalid tick: the series has no period"));
        }
        if *self.tick_numbers.get_or_insert(numbers) != numbers {
            return Err(invalid_input(
                "invalid tick: expected as many numbers as in the ticks before it",
            ));
        }
        Ok(())
    }

    /// Flushes the writer. Dropping it also flushes, but hides errors.
    ///
    /// # Errors
    /// Returns any error of the inner writer.
    pub fn finish(mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn invalid_input(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

/// The ticks of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Nominal period.
    pub period_ns: u64,
    /// Lateness of each tick, in order.
    pub lateness_ns: Vec<i64>,
    /// Time of each wake-up on the monotonic clock of the program's system; `None` if the program
    /// did not write it.
    pub wake_ns: Option<Vec<u64>>,
    /// Time for which the thread of each tick had waited for a CPU since its start; `None` if the
    /// program did not write it.
    pub waited_ns: Option<Vec<u64>>,
    /// Usage of the process between the first and the last tick; `None` if the program did not
    /// write it.
    pub usage: Option<Usage>,
}

/// An error in a series.
#[derive(Debug)]
#[non_exhaustive]
pub enum SeriesError {
    /// The file is empty.
    Empty,
    /// The first line is not that of a series; contains the line.
    Header(String),
    /// A line is not a whole number of nanoseconds; contains its number, from 1, and its text.
    Line(u64, String),
    /// A tick has more or fewer numbers than the ticks before it; contains its line number, from 1.
    Columns(u64),
    /// A line of a metric is invalid, or a line is too long; contains its number, from 1, its text
    /// and the problem.
    Metric(u64, String, &'static str),
    /// A line of the usage is invalid, or is not the only one; contains its number, from 1, and its
    /// text.
    Usage(u64, String),
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
            Self::Usage(n, found) => write!(
                f,
                "line {n} must be the only one of its kind, `usage process=N cpu_ns=N`, not {found:?}"
            ),
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
    /// Reads the ticks of a series. Metrics are ignored.
    ///
    /// # Errors
    /// Returns a [`SeriesError`] if the series is invalid or cannot be read.
    pub fn read(from: impl Read) -> Result<Self, SeriesError> {
        let mut lines = Lines::open(from)?;
        let period_ns = lines.period_ns.ok_or_else(|| SeriesError::Header(lines.text()))?;
        let mut series = Self {
            period_ns,
            lateness_ns: Vec::new(),
            wake_ns: None,
            waited_ns: None,
            usage: None,
        };
        while lines.next()? {
            if is_usage_line(&lines.line) {
                let usage = lines.line.parse().ok().filter(|_| series.usage.is_none());
                series.usage =
                    Some(usage.ok_or_else(|| SeriesError::Usage(lines.number, lines.text()))?);
                continue;
            }
            match Tick::parse(&lines.line) {
                Some(tick) if series.push(tick) => {}
                Some(_) => return Err(SeriesError::Columns(lines.number)),
                None if is_metric_line(&lines.line) => {}
                None => return Err(SeriesError::Line(lines.number, lines.text())),
            }
        }
        Ok(series)
    }

    /// Appends a tick; `false` if it has other numbers than the ticks before it.
    fn push(&mut self, tick: Tick) -> bool {
        if self.lateness_ns.is_empty() {
            self.wake_ns = tick.wake_ns.map(|_| Vec::new());
            self.waited_ns = tick.waited_ns.map(|_| Vec::new());
        }
        self.lateness_ns.push(tick.lateness_ns);
        push_optional(&mut self.wake_ns, tick.wake_ns)
            && push_optional(&mut self.waited_ns, tick.waited_ns)
    }
}

/// Appends a number to a column; `false` if only one of them is present.
fn push_optional(column: &mut Option<Vec<u64>>, number: Option<u64>) -> bool {
    match (column, number) {
        (Some(column), Some(number)) => column.push(number),
        (None, None) => {}
        _ => return false,
    }
    true
}

/// The numbers on the line of a tick.
#[derive(Clone, Copy)]
struct Tick {
    lateness_ns: i64,
    wake_ns: Option<u64>,
    waited_ns: Option<u64>,
}

impl Tick {
    /// Parses a line; `None` if it is not the line of a tick.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let lateness_ns = words.next()?.parse().ok()?;
        let mut optional = || words.next().map(str::parse).transpose().ok();
        let (wake_ns, waited_ns) = (optional()?, optional()?);
        words.next().is_none().then_some(Self { lateness_ns, wake_ns, waited_ns })
    }
}

/// A reader of the lines of a series.
struct Lines<R> {
    from: BufReader<R>,
    bytes: Vec<u8>,
    /// The current line.
    line: String,
    number: u64,
    /// Period from the first line; `None` for a program without ticks.
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

    /// Reads the next line; returns `false` at the end. Blank lines at the end are ignored.
    fn next(&mut self) -> Result<bool, SeriesError> {
        let mut has_line = self.read_line()?;
        let blank = self.number;
        while has_line && self.line.is_empty() {
            has_line = self.read_line()?;
        }
        if has_line && self.number > blank {
            // A blank line among others is an error of its own.
            self.line.clear();
            self.number = blank;
        }
        Ok(has_line)
    }

    fn read_line(&mut self) -> Result<bool, SeriesError> {
        self.bytes.clear();
        (&mut self.from)
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.bytes)
            .map_err(SeriesError::Io)?;
        self.line.clear();
        let text = String::from_utf8_lossy(&self.bytes);
        let text = if self.number == 0 { text.trim_start_matches(BYTE_ORDER_MARK) } else { &text };
        self.line.push_str(text.trim_end());
        self.number += 1;
        if self.bytes.len() as u64 == MAX_LINE && !self.bytes.ends_with(b"\n") {
            return Err(SeriesError::Metric(self.number, self.text(), LINE_TOO_LONG));
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
    fn invalid_series_errors_name_the_line() {
        for (text, expected) in [
            ("", "it is empty"),
            ("hello\n", "not \"hello\""),
            ("osjitter.series/2 period_ns=5\n", "osjitter.series/2"),
            ("osjitter.series/1 period_ns=0\n", "first line"),
            ("osjitter.series/1 period_ns=-5\n", "first line"),
            ("osjitter.series/1 period_ns=5\n1\n2.5\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1\n\n2\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1\n\n\n2\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1 100\n2\n", "line 3 must have as many numbers"),
            ("osjitter.series/1 period_ns=5\n1\n2 105\n", "line 3 must have as many"),
            ("osjitter.series/1 period_ns=5\n1 2 3\n2 105\n", "line 3 must have as many"),
            ("osjitter.series/1 period_ns=5\n1 2 3 4\n", "line 2 must be"),
            ("osjitter.series/1 period_ns=5\n1 100\n2 -5\n", "line 3"),
            ("osjitter.series/1 period_ns=5\n1  100\n", "line 2"),
            ("osjitter.series/1 period_ns=5\n1\nusage cpu_ns=7\n", "line 3 must be the only"),
            ("osjitter.series/1 period_ns=5\nusage process=1 cpu_ns=-7\n1\n", "line 2"),
            (
                "osjitter.series/1 period_ns=5\nusage process=1 cpu_ns=7\nusage process=1 cpu_ns=7\n",
                "line 3",
            ),
        ] {
            let error = Reader::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(Reader::read(&vec![b'x'; 1 << 20][..]).is_err());
    }

    #[test]
    fn mark_and_trailing_blanks_are_ignored() {
        for text in [
            "\u{feff}osjitter.series/1 period_ns=5\n7\n",
            "osjitter.series/1 period_ns=5\r\n7\r\n\r\n",
            "osjitter.series/1 period_ns=5\n7\n\n\n",
            "osjitter.series/1 period_ns=5\n7\n ",
        ] {
            let read = Reader::read(text.as_bytes()).unwrap();
            assert_eq!((read.period_ns, read.lateness_ns), (5, vec![7]), "{text:?}");
        }
    }

    #[test]
    fn overlong_lines_are_rejected() {
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
    fn ticks_and_metrics_can_be_mixed() {
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
            Reader {
                period_ns: 500,
                lateness_ns: vec![7, -8],
                wake_ns: None,
                waited_ns: None,
                usage: None
            }
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

    /// Writes a declaration of `x` and then something invalid, and checks that the series stays
    /// valid.
    fn check_rejected(write: impl FnOnce(&mut Writer<&mut Vec<u8>>) -> io::Result<()>) {
        let mut file = Vec::new();
        let mut out = Writer::new(&mut file, 500).unwrap();
        out.declare("x", "ns", Better::Lower).unwrap();
        let error = write(&mut out).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        out.finish().unwrap();
        assert!(Reader::read(&file[..]).is_ok() && metrics(&file[..]).is_ok(), "{error}");
    }

    #[test]
    fn writer_rejects_what_readers_reject() {
        for value in [f64::NAN, f64::INFINITY, 0.0, -0.0, -1.0] {
            check_rejected(|out| out.value("x", value));
        }
        for name in ["y", "a b", "x\n5", "", "metric"] {
            check_rejected(|out| out.value(name, 1.0));
        }
        for name in ["x", "x\n5", "5x", "metric", ""] {
            check_rejected(|out| out.declare(name, "ns", Better::Lower));
        }
        check_rejected(|out| out.declare("y", "n s", Better::Lower));
        let (long, wide) = ("y".repeat(33), "\u{1d4cd}".repeat(32));
        check_rejected(|out| out.declare(&long, "ns", Better::Lower));
        check_rejected(|out| out.declare(&wide, &wide, Better::Higher));
        check_rejected(|out| {
            (0..64).try_for_each(|i| out.declare(&format!("m{i}"), "ns", Better::Lower))
        });
        check_rejected(|out| out.push(1).and_then(|()| out.push_at(2, 5)));
        check_rejected(|out| out.push_at(1, 5).and_then(|()| out.push_with(2, 5, 5)));
        check_rejected(|out| out.push_with(1, 5, 5).and_then(|()| out.push(2)));
        let usage: Usage = "usage process=1 cpu_ns=7".parse().unwrap();
        check_rejected(|out| out.usage(&usage).and_then(|()| out.usage(&usage)));
        assert!(Writer::new(Vec::new(), 0).is_err());
        assert!(Writer::without_ticks(Vec::new()).unwrap().push(5).is_err());
    }

    #[test]
    fn names_begin_with_any_letter() {
        let mut file = Vec::new();
        let mut out = Writer::new(&mut file, 500).unwrap();
        out.declare("\u{e9}tat", "\u{b5}s", Better::Lower).unwrap();
        out.value("\u{e9}tat", 12.5).unwrap();
        out.push(7).unwrap();
        out.finish().unwrap();
        assert_eq!(Reader::read(&file[..]).unwrap().lateness_ns, [7]);
        assert_eq!(metrics(&file[..]).unwrap()[0].samples.count(), 1);
    }

    proptest! {
        #[test]
        fn written_series_reads_back(period_ns in 1_u64.., lateness_ns in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut file = Vec::new();
            let mut writer = Writer::new(&mut file, period_ns).unwrap();
            for &ns in &lateness_ns {
                writer.push(ns).unwrap();
            }
            writer.finish().unwrap();
            prop_assert_eq!(Reader::read(&file[..]).unwrap(), Reader { period_ns, lateness_ns, wake_ns: None, waited_ns: None, usage: None });
        }

        #[test]
        fn times_and_waits_read_back(
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
            prop_assert_eq!(Reader::read(&file[..]).unwrap(), Reader { period_ns: 5, lateness_ns, wake_ns, waited_ns, usage: None });
            prop_assert_eq!(metrics(&file[..]).unwrap(), []);
        }
    }
}
