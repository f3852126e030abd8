//! The formats of files, and the evidence by which one is recognized.

use std::fmt;

/// The formats that are read, for a file in none of them.
pub const READABLE: &str = "JSON of osjitter, bins as CSV, --json or the output of cyclictest and oslat, results.json \
                            of jitterdebugger, the output of hwlatdetect, the histograms of rtla timerlat hist and rtla \
                            osnoise hist, the output of Xenomai's latency, histograms of bpftrace, and logs and \
                            percentile distributions of HdrHistogram";

/// A recognized format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON of osjitter with this schema.
    Osjitter {
        schema: String,
    },
    /// Bins as CSV.
    Bins,
    /// JSON of a program of rt-tests.
    RtTests,
    /// Text of cyclictest.
    CyclictestText,
    /// Text of oslat.
    OslatText,
    Jitterdebugger,
    Hwlatdetect,
    Rtla,
    Hlog,
    /// A percentile distribution of HdrHistogram.
    Hgrm,
    /// Histograms of bpftrace.
    Bpftrace,
    /// Text of Xenomai's latency.
    Xenomai,
    /// A format that has no histogram or no stable text, and what to give instead.
    Unsupported {
        name: &'static str,
        remedy: &'static str,
    },
}

impl FileFormat {
    /// Returns whether a file in this format may leave out the unit of its values.
    pub fn may_lack_unit(&self) -> bool {
        matches!(self, Self::Hlog | Self::Hgrm | Self::CyclictestText | Self::Bpftrace)
    }

    /// Returns whether the format is one of lines, which may follow those of another.
    pub fn is_text(&self) -> bool {
        use FileFormat::{Bins, Jitterdebugger, Osjitter, RtTests};
        !matches!(self, Osjitter { .. } | Bins | RtTests | Jitterdebugger)
    }

    /// Returns the name of the format with its article, for a sentence.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Osjitter { .. } => "a file of osjitter",
            Self::Bins => "a file of bins",
            Self::RtTests => "a result of rt-tests",
            Self::CyclictestText => "the output of cyclictest",
            Self::OslatText => "the output of oslat",
            Self::Jitterdebugger => "a result of jitterdebugger",
            Self::Hwlatdetect => "the output of hwlatdetect",
            Self::Rtla => "a histogram of rtla",
            Self::Hlog => "an HdrHistogram log",
            Self::Hgrm => "a percentile distribution of HdrHistogram",
            Self::Bpftrace => "a histogram of bpftrace",
            Self::Xenomai => "the output of Xenomai's latency",
            Self::Unsupported { name, .. } => name,
        }
    }
}

/// A format with the reason for which it was recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    pub format: FileFormat,
    pub evidence: Evidence,
}

/// The part of a file that is typical of its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A line, with its number and its beginning.
    Line(usize, String),
    /// Keys of a JSON object.
    Keys(&'static str),
    /// The key `schema`.
    Schema,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number, text) => write!(f, "line {number} begins with {text:?}"),
            Self::Keys(keys) => write!(f, "it has the keys {keys}"),
            Self::Schema => f.write_str("it has the key \"schema\""),
        }
    }
}
