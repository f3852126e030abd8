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
#[derive(Debug)]
pub enum ImportReason {
    UnknownFormat(UnknownContent),
    /// `--unit` was given for a format that states its unit.
    StatedUnit {
        format: &'static str,
    },
    /// The format is recognized, but not read.
    Unsupported {
        remedy: &'static str,
    },
    /// A file of osjitter, whose error states the schema.
    Osjitter(Box<FileError>),
    Json {
        expected: &'static str,
        source: Box<JsonError>,
    },
    /// The converted report is not possible.
    ImpossibleReport(Box<Invalid>),
    /// The text ends before a part that every complete file has.
    CutOff {
        before: &'static str,
    },

    // Figures and bins.
    TooManyEntries {
        entry: &'static str,
        count: usize,
    },
    RepeatedBin {
        bin: u64,
    },
    TooManyValues {
        max_bins: usize,
    },
    WrongCount {
        in_bins: u64,
        stated: u64,
    },
    MissingFigure {
        figure: &'static str,
    },
    ImpossibleMean {
        mean: f64,
    },
    /// A time, as the file has it, that is longer than a report can express.
    InvalidTime {
        time: String,
    },
    ValuesOutsideRange {
        bin_ns: i64,
        min_ns: i64,
        max_ns: i64,
    },
    ReversedRange {
        min_ns: i64,
        max_ns: i64,
    },

    // Lines and tables.
    InvalidRow {
        line: usize,
        text: String,
    },
    UnorderedRow {
        line: usize,
    },
    InvalidNumber {
        line: usize,
        text: String,
    },
    UnknownColumn {
        line: usize,
        text: String,
    },
    WrongColumnCount {
        line: usize,
        expected: usize,
    },
    MissingRows,
    WrongThreadCount {
        columns: usize,
        threads: usize,
    },

    // cyclictest, rt-tests and jitterdebugger.
    UnknownValueCount,
    MissingThread,
    OtherProgram {
        program: String,
    },
    UnknownVersion {
        version: u64,
    },
    InvalidResolution {
        ns: u64,
    },

    // hwlatdetect.
    InvalidSample {
        line: usize,
        text: String,
    },
    WrongSampleCount {
        recorded: i64,
        listed: usize,
    },

    // rtla.
    UnknownTitle,
    MissingUnit,
    MissingBuckets,
    MissingCountLine,
    UnprintedSamples,

    // HdrHistogram.
    InvalidPercentileRow {
        text: String,
    },
    MissingIntervals,
    InvalidInterval {
        line: usize,
    },
    InvalidTimestamp {
        seconds: f64,
    },
    TooManyTags {
        max: usize,
    },
    TooManyDifferentValues {
        max: usize,
    },
    Base64(base64::DecodeError),
    Histogram(Box<HistogramError>),
    MixedHistograms,
    FractionsWithoutUnit,
    ImpossibleTimes {
        count: u64,
        max: u64,
        unit: Unit,
    },

    // Bins.
    Bins(Box<BinsError>),
    RepeatedInterval {
        key: Box<Key>,
    },
    TooManyTicks {
        key: Box<Key>,
    },
    /// All files of a directory are damaged. Contains the first of them.
    OnlyDamagedFiles(Box<DamagedFile>),
    /// There are rows of intervals, but none has bins.
    MissingBins,
    NoInterval,
}

/// Content of a file in no known format.
#[derive(Debug)]
pub enum UnknownContent {
    Empty,
    /// JSON without the keys of any format.
    OtherJson,
    InvalidJson(serde_json::Error),
    /// A text with this beginning.
    Text(String),
}

/// A file or a directory of bins that is left out.
#[derive(Debug)]
pub enum DamagedFile {
    Unreadable(UnreadablePath),
    /// The file was read, and is damaged.
    Invalid(exit::Error),
}

/// A path that was found and cannot be read.
#[derive(Debug)]
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

impl Error for ImportReason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::UnknownFormat(UnknownContent::InvalidJson(source)) => Some(source),
            Self::Osjitter(source) => Some(source),
            Self::Json { source, .. } => Some(source),
            Self::ImpossibleReport(source) => Some(source),
            Self::Base64(source) => Some(source),
            Self::Histogram(source) => Some(source),
            Self::Bins(source) => Some(source),
            Self::OnlyDamagedFiles(source) => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for ImportReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFormat(content) => {
                write!(f, "unknown format: {content}; this version reads {READABLE}")
            }
            Self::StatedUnit { format } => write!(f, "invalid --unit: {format} states its unit"),
            Self::Unsupported { remedy } => write!(f, "it is not read; {remedy}"),
            Self::Osjitter(source) => source.fmt(f),
            Self::Json { expected, source } => write!(f, "not a valid {expected}: {source}"),
            Self::ImpossibleReport(source) => source.fmt(f),
            Self::CutOff { before } => write!(f, "it was cut off before {before}"),
            Self::TooManyEntries { entry, count } => {
                write!(f, "{entry}: {count} entries, expected at most {MAX_SUBJECTS}")
            }
            Self::RepeatedBin { bin } => write!(f, "bin {bin} comes twice"),
            Self::TooManyValues { max_bins } => {
                write!(f, "more than {max_bins} bins or {MAX_COUNT} values in one histogram")
            }
            Self::WrongCount { in_bins, stated } => {
                write!(f, "the bins contain {in_bins} values, but the stated count is {stated}")
            }
            Self::MissingFigure { figure } => write!(f, "the {figure} is missing"),
            Self::ImpossibleMean { mean } => {
                write!(f, "invalid mean {mean}: expected a time from minimum to maximum")
            }
            Self::InvalidTime { time } => {
                write!(f, "invalid time {time}: expected at most {MAX_NS} ns")
            }
            Self::ValuesOutsideRange { bin_ns, min_ns, max_ns } => write!(
                f,
                "there are values in bin {bin_ns} ns, outside of the stated minimum {min_ns} ns and maximum {max_ns} ns"
            ),
            Self::ReversedRange { min_ns, max_ns } => {
                write!(f, "the minimum {min_ns} ns is above the maximum {max_ns} ns")
            }
            Self::InvalidRow { line, text } => write!(f, "invalid row in line {line}: {text:?}"),
            Self::UnorderedRow { line } => {
                write!(f, "the row in line {line} does not continue the histogram")
            }
            Self::InvalidNumber { line, text } => {
                write!(f, "invalid number in line {line}: {text:?}")
            }
            Self::UnknownColumn { line, text } => {
                write!(f, "line {line} names an unknown column: {text:?}")
            }
            Self::WrongColumnCount { line, expected } => {
                write!(f, "invalid line {line}: expected {expected} columns")
            }
            Self::MissingRows => {
                f.write_str("the rows of the histogram are missing; keep the whole output of -h")
            }
            Self::WrongThreadCount { columns, threads } => {
                write!(f, "the histogram has {columns} columns for {threads} threads")
            }
            Self::UnknownValueCount => f.write_str(
                "the number of values is unknown without \"# Histogram Overflows\"",
            ),
            Self::MissingThread => f.write_str("it has no thread"),
            Self::OtherProgram { program } => write!(
                f,
                "cannot read the result of {program:?}: of rt-tests, cyclictest and oslat are read"
            ),
            Self::UnknownVersion { version } => write!(
                f,
                "version {version} of jitterdebugger's results is not known; this version reads 1 to 3"
            ),
            Self::InvalidResolution { ns } => {
                write!(f, "invalid resolution_in_ns {ns}: expected 1 or 1000")
            }
            Self::InvalidSample { line, text } => {
                write!(f, "invalid sample in line {line}: {text:?}")
            }
            Self::WrongSampleCount { recorded, listed } => write!(
                f,
                "it recorded {recorded} samples, but lists {listed}; give the file of its option --report instead"
            ),
            Self::UnknownTitle => f.write_str(
                "its title names neither timerlat nor osnoise; rtla's hist mode is read, top is not",
            ),
            Self::MissingUnit => f.write_str("it states no unit"),
            Self::MissingBuckets => {
                f.write_str("it has no column of buckets; run rtla without --no-index")
            }
            Self::MissingCountLine => f.write_str("the line \"count:\" is missing"),
            Self::UnprintedSamples => f.write_str(
                "every sample is above the last bucket, and rtla did not print how many; run it with a larger -E",
            ),
            Self::InvalidPercentileRow { text } => write!(f, "invalid row {text:?}"),
            Self::MissingIntervals => f.write_str("no interval found"),
            Self::InvalidInterval { line } => write!(
                f,
                "invalid entry in line {line}: expected Timestamp,Length,Max,Histogram"
            ),
            Self::InvalidTimestamp { seconds } => {
                write!(f, "invalid timestamp: {seconds:.0}s after the first")
            }
            Self::TooManyTags { max } => write!(f, "more than {max} tags"),
            Self::TooManyDifferentValues { max } => write!(f, "more than {max} different values"),
            Self::Base64(source) => write!(f, "invalid base64: {source}"),
            Self::Histogram(source) => source.fmt(f),
            Self::MixedHistograms => {
                f.write_str("the log has both Histogram and DoubleHistogram")
            }
            Self::FractionsWithoutUnit => f.write_str(
                "the log has a DoubleHistogram and states no unit; give it with --unit",
            ),
            Self::ImpossibleTimes { count, max, unit } => {
                write!(f, "{count} values up to {max} cannot be times in {}", unit.plural())
            }
            Self::Bins(source) => source.fmt(f),
            Self::RepeatedInterval { key } => {
                write!(f, "{key} is also in another file: give each interval once")
            }
            Self::TooManyTicks { key } => write!(f, "{key}: more than {MAX_COUNT} ticks together"),
            Self::OnlyDamagedFiles(first) => write!(f, "nothing to show: {first}"),
            Self::MissingBins => {
                f.write_str("nothing to show: the rows of its .intervals files have no bins")
            }
            Self::NoInterval => f.write_str("nothing to show: it contains no interval"),
        }
    }
}

impl fmt::Display for UnknownContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        }
    }
}

impl Error for DamagedFile {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable(source) => Some(source),
            Self::Invalid(source) => Some(source),
        }
    }
}

impl fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(source) => source.fmt(f),
            Self::Invalid(source) => source.fmt(f),
        }
    }
}

impl Error for UnreadablePath {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

impl fmt::Display for UnreadablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.path.display(), self.source)
    }
}

/// Error of a build without the feature.
#[cfg(not(feature = "parquet"))]
pub const NO_PARQUET: &str = "this build has no Parquet: write .bins.csv.gz, which the same SQL reads, or build it with `cargo build --features parquet`";

/// Reason why a report cannot be written in the format of another tool.
#[derive(Debug)]
pub enum ExportError {
    MissingHistogram {
        subject: String,
    },
    InvalidHistogram {
        subject: String,
        source: Box<HistogramError>,
    },
    Compression(io::Error),
    #[cfg(feature = "parquet")]
    Parquet(parquet::errors::ParquetError),
    /// This build has no Parquet.
    #[cfg(not(feature = "parquet"))]
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

impl Error for ExportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::MissingHistogram { .. } => None,
            Self::InvalidHistogram { source, .. } => Some(source),
            Self::Compression(source) => Some(source),
            #[cfg(feature = "parquet")]
            Self::Parquet(source) => Some(source),
            #[cfg(not(feature = "parquet"))]
            Self::NoParquet => None,
        }
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHistogram { subject } => write!(f, "{subject} has no histogram"),
            Self::InvalidHistogram { subject, source } => write!(f, "{subject}: {source}"),
            Self::Compression(source) => write!(f, "cannot compress: {source}"),
            #[cfg(feature = "parquet")]
            Self::Parquet(source) => write!(f, "cannot encode the table: {source}"),
            #[cfg(not(feature = "parquet"))]
            Self::NoParquet => f.write_str(NO_PARQUET),
        }
    }
}
