//! What a result can be written as.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// The terminal table, and what it says in words
    Table,
    /// The report itself
    Json,
    /// Every picture, into the directory given by --out
    Svg,
    /// One self-contained page
    Html,
    /// A table for pull requests and job summaries
    Markdown,
    /// A line a subject, or with --samples a line a tick
    Csv,
    /// HdrHistogram's percentile distribution, in microseconds
    Hgrm,
    /// HdrHistogram's interval log, in nanoseconds, a line a round
    Hlog,
    /// The shape of `cyclictest --json`
    CyclictestJson,
    /// Bencher's metric format
    Bmf,
    /// github-action-benchmark's customSmallerIsBetter
    Gab,
    /// OpenMetrics text
    Openmetrics,
    /// Apache Parquet, a row a subject, or with --samples a row a tick; in a build with that feature
    Parquet,
}
