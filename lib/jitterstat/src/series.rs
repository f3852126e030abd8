//! The contract between osjitter and a program of yours that it gates: `osjitter.series/1`.
//!
//! osjitter sets three environment variables: [`ENV_TICKS`], how many ticks to record; [`ENV_WARMUP`], how many ticks to
//! run before them and not to record; [`ENV_OUT`], the file to write. The program writes the line
//! `osjitter.series/1 period_ns=500000`, then one signed lateness in nanoseconds (wake-up minus deadline) a line, in
//! tick order, and exits with 0.
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

use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// First word of a series.
pub const SCHEMA: &str = "osjitter.series/1";
/// Number of ticks to record.
pub const ENV_TICKS: &str = "OSJITTER_TICKS";
/// Number of ticks to run before the recorded ones.
pub const ENV_WARMUP: &str = "OSJITTER_WARMUP";
/// Path of the file to write.
pub const ENV_OUT: &str = "OSJITTER_OUT";
/// No line of a series is longer; a file without line ends is refused before it fills the memory.
const LONGEST_LINE: u64 = 256;

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

    /// Writes the lateness of the next tick: wake-up minus deadline, negative if early.
    ///
    /// # Errors
    /// Those of the file.
    pub fn push(&mut self, lateness_ns: i64) -> io::Result<()> {
        writeln!(self.inner, "{lateness_ns}")
    }

    /// Flushes. Dropping a writer does so too, but hides errors.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A complete series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Nominal period.
    pub period_ns: u64,
    /// Lateness of each tick, in order.
    pub lateness_ns: Vec<i64>,
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
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it is empty; the first line must be `{SCHEMA} period_ns=N`"),
            Self::Header(found) => write!(f, "the first line must be `{SCHEMA} period_ns=N`, not {found:?}"),
            Self::Line(n, found) => write!(f, "line {n} must be a whole number of nanoseconds, not {found:?}"),
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
    /// Reads a whole series.
    ///
    /// # Errors
    /// See [`SeriesError`].
    pub fn read(from: impl Read) -> Result<Self, SeriesError> {
        let mut from = BufReader::new(from);
        let header = next_line(&mut from)?.ok_or(SeriesError::Empty)?;
        let period = header.strip_prefix(SCHEMA).and_then(|rest| rest.trim().strip_prefix("period_ns="));
        let Some(period_ns) = period.and_then(|p| p.parse().ok()).filter(|&ns| ns > 0) else {
            return Err(SeriesError::Header(header));
        };
        let mut lateness_ns = Vec::new();
        while let Some(line) = next_line(&mut from)? {
            match line.parse() {
                Ok(ns) => lateness_ns.push(ns),
                Err(_) => return Err(SeriesError::Line(lateness_ns.len() as u64 + 2, line)),
            }
        }
        Ok(Self { period_ns, lateness_ns })
    }
}

fn next_line(from: &mut impl BufRead) -> Result<Option<String>, SeriesError> {
    let mut bytes = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut bytes).map_err(SeriesError::Io)?;
    Ok((!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
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
        ] {
            let error = Reader::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        assert!(Reader::read(&vec![b'x'; 1 << 20][..]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(period_ns in 1_u64.., lateness_ns in proptest::collection::vec(any::<i64>(), 0..50)) {
            let mut file = Vec::new();
            let mut writer = Writer::new(&mut file, period_ns).unwrap();
            lateness_ns.iter().for_each(|&ns| writer.push(ns).unwrap());
            writer.finish().unwrap();
            prop_assert_eq!(Reader::read(&file[..]).unwrap(), Reader { period_ns, lateness_ns });
        }
    }
}
