//! Errors of reading and writing files of other tools.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use cli::exit;
use files::bins::{BinsError, Key};
use files::file::{FileError, Invalid, JsonError};
use files::histogram::HistogramError;
use files::report::{MAX_COUNT, MAX_NS, MAX_SUBJECTS};

use crate::file_format::{Detection, FileFormat, READABLE};
use crate::unit::Unit;

/// Error of a text that cannot be read as a report.
#[derive(Debug)]
pub struct ImportError {
    /// The recognized format, if the error is that of its reader.
    detection: Option<Box<Detection>>,
    place: Option<ImportPlace>,
    reason: ImportReason,
}

/// Result of a reader.
pub type Result<T> = std::result::Result<T, ImportError>;

/// Part of a file in which an error is.
#[derive(Debug)]
pub enum ImportPlace {
    /// Number of a line, from 1.
    Line(usize),
    /// Number of a line, and the tag of the interval that it contains.
    TaggedLine(usize, String),
    /// A numbered thread of a text.
    Thread(u64),
    /// A numbered entry of a JSON object.
    Entry { object: &'static str, number: u64 },
    /// Name of a subject, as the report would have it.
    Subject(String),
}

/// Reason why a text cannot be read as a report.
#[derive(Debug, thiserror::Error)]
pub enum ImportReason {
    #[error(transparent)]
    UnknownFormat(UnknownContent),
    #[error("invalid --unit: {format} states its unit")]
    StatedUnit { format: &'static str },
    /// The format is recognized.
    #[error("it is not read; {remedy}")]
    Unsupported { remedy: &'static str },
    /// A file of osjitter, whose error states the schema.
    #[error("{0}")]
    Osjitter(#[source] Box<FileError>),
    #[error("not a valid {expected}: {source}")]
    Json { expected: &'static str, source: Box<JsonError> },
    /// The converted report is not possible.
    #[error("{0}")]
    ImpossibleReport(#[source] Box<Invalid>),
    #[error("it was cut off before {before}")]
    CutOff { before: &'static str },
    #[error("a second run begins in line {line}: expected one run, so give each a file of its own")]
    SecondRun { line: usize },
    /// Contains the first line of another format.
    #[error(
        "it contains {} as well ({}): expected one tool, so give each a file of its own",
        .0.format.name(),
        .0.evidence
    )]
    OtherTool(Box<Detection>),
    #[error(
        "line {line} states another unit than the lines above it: expected one, so give each unit a file of its own"
    )]
    DifferentUnits { line: usize },

    // Figures and bins.
    #[error("{entry}: {count} entries, expected at most {MAX_SUBJECTS}")]
    TooManyEntries { entry: &'static str, count: usize },
    #[error("bin {bin} comes twice")]
    RepeatedBin { bin: u64 },
    #[error("more than {max_bins} bins or {MAX_COUNT} values in one histogram")]
    TooManyValues { max_bins: usize },
    #[error("the bins contain {in_bins} values, but the stated count is {stated}")]
    WrongCount { in_bins: u64, stated: u64 },
    #[error("the {figure} is missing")]
    MissingFigure { figure: &'static str },
    /// Contains the time as the file has it.
    #[error("invalid time {time}: expected at most {MAX_NS} ns")]
    InvalidTime { time: String },
    #[error(
        "there are values in bin {bin_ns} ns, outside of the stated minimum {min_ns} ns and maximum {max_ns} ns"
    )]
    ValuesOutsideRange { bin_ns: i64, min_ns: i64, max_ns: i64 },
    #[error("the maximum {max_ns} ns is below the bin {bin_ns} ns, which has values")]
    MaximumBelowBin { bin_ns: u64, max_ns: u64 },
    #[error("the minimum {min_ns} ns is above the maximum {max_ns} ns")]
    ReversedRange { min_ns: i64, max_ns: i64 },
    #[error(
        "{above} values are above the last bin, {bin_ns} ns, but the stated maximum is {max_ns} ns"
    )]
    OverflowBelowBins { above: u64, bin_ns: i64, max_ns: i64 },

    // Lines and tables.
    #[error("invalid row in line {line}: {text:?}")]
    InvalidRow { line: usize, text: String },
    #[error("the row in line {line} does not continue the histogram")]
    UnorderedRow { line: usize },
    #[error("invalid number in line {line}: {text:?}")]
    InvalidNumber { line: usize, text: String },
    #[error("line {line} names an unknown column: {text:?}")]
    UnknownColumn { line: usize, text: String },
    #[error("invalid line {line}: expected {expected} columns")]
    WrongColumnCount { line: usize, expected: usize },
    #[error("the rows of the histogram are missing; keep the whole output of -h")]
    MissingRows,
    #[error("the histogram has {columns} columns for {threads} threads")]
    WrongThreadCount { columns: usize, threads: usize },

    // cyclictest, rt-tests and jitterdebugger.
    #[error("the number of values is unknown without \"# Histogram Overflows\"")]
    UnknownValueCount,
    #[error("it has no thread")]
    MissingThread,
    #[error("it has {threads} threads, but the stated number is {stated}")]
    MissingThreads { threads: usize, stated: usize },
    #[error("cannot read the result of {program:?}: of rt-tests, cyclictest and oslat are read")]
    OtherProgram { program: String },
    #[error(
        "version {version} of jitterdebugger's results is not known; this version reads 1 to 3"
    )]
    UnknownVersion { version: u64 },
    #[error("invalid resolution_in_ns {ns}: expected 1 or 1000")]
    InvalidResolution { ns: u64 },

    // hwlatdetect.
    #[error("invalid sample in line {line}: {text:?}")]
    InvalidSample { line: usize, text: String },
    #[error(
        "it recorded {recorded} samples, but lists {listed}; give the file of its option --report instead"
    )]
    WrongSampleCount { recorded: i64, listed: usize },

    #[error("the stated maximum is {max} us, but the longest listed sample has {listed} us")]
    UnlistedMaximum { max: i64, listed: i64 },

    // rtla.
    #[error("its title names neither timerlat nor osnoise; rtla's hist mode is read, top is not")]
    UnknownTitle,
    #[error("it states no unit")]
    MissingUnit,
    #[error("it has no column of buckets; run rtla without --no-index")]
    MissingBuckets,
    #[error("the line \"count:\" is missing")]
    MissingCountLine,
    #[error("{above} samples are above the last bucket, {bucket}, but the maximum is {max}")]
    OverflowBelowBuckets { above: u64, bucket: u64, max: u64 },
    #[error(
        "every sample is above the last bucket, and rtla did not print how many; run it with a larger -E"
    )]
    UnprintedSamples,

    // HdrHistogram.
    #[error("not all of its tables state one unit, and the same; give it with --unit")]
    UnitsOfTables,
    #[error("invalid row {text:?}")]
    InvalidPercentileRow { text: String },
    #[error("no interval found")]
    MissingIntervals,
    #[error("invalid entry in line {line}: expected Timestamp,Length,Max,Histogram")]
    InvalidInterval { line: usize },
    #[error("invalid timestamp: {seconds:.0}s after the first")]
    InvalidTimestamp { seconds: f64 },
    #[error("more than {max} different values")]
    TooManyDifferentValues { max: usize },
    #[error("invalid base64: {0}")]
    Base64(#[source] base64::DecodeError),
    #[error("{0}")]
    Histogram(#[source] Box<HistogramError>),
    #[error("the log has both Histogram and DoubleHistogram")]
    MixedHistograms,
    #[error(
        "the log has a DoubleHistogram and no unit; give it to osjitter report or gate with --unit"
    )]
    FractionsWithoutUnit,
    #[error("{count} values up to {max} cannot be times in {}", .unit.plural())]
    ImpossibleTimes { count: u64, max: u64, unit: Unit },

    // Bins.
    #[error("{0}")]
    Bins(#[source] Box<BinsError>),
    #[error(
        "{key} is also in another file, or in a sum: give each interval once, or write runs of one seed with their own --host or --label"
    )]
    RepeatedInterval { key: Box<Key> },
    #[error("{key}: more than {MAX_COUNT} ticks together")]
    TooManyTicks { key: Box<Key> },
    /// All files of a directory are damaged. Contains the first of them.
    #[error("nothing to show: {0}")]
    OnlyDamagedFiles(#[source] Box<DamagedFile>),
    #[error("nothing to show: the rows of its .intervals files have no bins")]
    MissingBins,
    #[error("nothing to show: it contains no interval")]
    NoInterval,
}

/// Content of a file in no known format.
#[derive(Debug, thiserror::Error)]
pub enum UnknownContent {
    Empty,
    /// JSON without the keys of any format.
    OtherJson,
    InvalidJson(#[source] serde_json::Error),
    /// A text with this beginning.
    Text(String),
}

/// A file or a directory of bins that is left out.
#[derive(Debug, thiserror::Error)]
pub enum DamagedFile {
    #[error("{0}")]
    Unreadable(#[source] UnreadablePath),
    /// The file was read, and is damaged.
    #[error("{0}")]
    Invalid(#[source] exit::Error),
}

/// A path that was found and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", .path.display())]
pub struct UnreadablePath {
    pub path: PathBuf,
    pub source: io::Error,
}

impl ImportError {
    /// Returns the error with its place in the file.
    pub(crate) fn at(self, place: ImportPlace) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Returns the error of the reader of a format.
    pub(crate) fn in_format(self, detection: Detection) -> Self {
        Self { detection: Some(Box::new(detection)), ..self }
    }
}

impl From<ImportReason> for ImportError {
    fn from(reason: ImportReason) -> Self {
        Self { detection: None, place: None, reason }
    }
}

impl From<ImportError> for exit::Error {
    fn from(error: ImportError) -> Self {
        Self::usage(error.to_string())
    }
}

impl Error for ImportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.source()
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detection.as_deref() {
            // The error of a file of osjitter names the schema.
            None | Some(Detection { format: FileFormat::Osjitter { .. }, .. }) => {}
            Some(Detection { format, evidence }) => {
                write!(f, "cannot read {} ({evidence}): ", format.name())?;
            }
        }
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        self.reason.fmt(f)
    }
}

impl fmt::Display for ImportPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::TaggedLine(line, tag) => write!(f, "line {line} ({tag})"),
            Self::Thread(number) => write!(f, "thread {number}"),
            Self::Entry { object, number } => write!(f, "{object}.{number}"),
            Self::Subject(id) => f.write_str(id),
        }
    }
}

impl fmt::Display for UnknownContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown format: ")?;
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::OtherJson => {
                f.write_str("it is JSON with no \"schema\" key and none of another tool")
            }
            Self::InvalidJson(error) if error.is_eof() => {
                write!(f, "it is JSON that is cut off: {error}")
            }
            Self::InvalidJson(error) => write!(f, "it is invalid JSON: {error}"),
            Self::Text(beginning) => write!(f, "it begins with {beginning:?}"),
        }?;
        write!(f, "; this version reads {READABLE}")
    }
}

/// Error of a build without the feature.
#[cfg(not(feature = "parquet"))]
pub const NO_PARQUET: &str = "this build has no Parquet: write .bins.csv.gz, which the same SQL reads, or build it with `cargo build --features parquet`";

/// Reason why a report cannot be written in the format of another tool.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("{subject} has no histogram")]
    MissingHistogram { subject: String },
    #[error("{subject}: {source}")]
    InvalidHistogram { subject: String, source: Box<HistogramError> },
    #[error("cannot compress: {0}")]
    Compression(#[source] io::Error),
    #[cfg(feature = "parquet")]
    #[error("cannot encode the table: {0}")]
    Parquet(#[source] parquet::errors::ParquetError),
    #[cfg(not(feature = "parquet"))]
    #[error("{NO_PARQUET}")]
    NoParquet,
}

impl From<ExportError> for exit::Error {
    fn from(error: ExportError) -> Self {
        let message = error.to_string();
        match error {
            ExportError::MissingHistogram { .. } | ExportError::InvalidHistogram { .. } => {
                Self::usage(message)
            }
            ExportError::Compression(_) => Self::measure(message),
            #[cfg(feature = "parquet")]
            ExportError::Parquet(_) => Self::measure(message),
            #[cfg(not(feature = "parquet"))]
            ExportError::NoParquet => Self::usage(message),
        }
    }
}
