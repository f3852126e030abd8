//! Where bins are: two files, `NAME.bins.csv` and `NAME.intervals.csv` beside it; Parquet in a
//! build with that feature.

use std::path::{Path, PathBuf};

use cli::exit::{Error, Result, usage};
use files::bins::{Interval, bins_csv, intervals_csv};

use crate::file_io;

/// What stands between the name of a pair and how it is written.
pub const KINDS: [&str; 2] = ["bins", "intervals"];
/// How it is written: the endings of a file's name.
pub const ENDINGS: [&str; 3] = ["csv", "csv.gz", "parquet"];

/// One file of a pair, by its path: that of the pair without kind and ending, which kind, which
/// ending.
pub fn part(path: &Path) -> Option<(PathBuf, &'static str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    let all =
        KINDS.into_iter().flat_map(|kind| ENDINGS.into_iter().map(move |ending| (kind, ending)));
    let mut found = all.filter_map(|(kind, ending)| {
        let stem =
            name.strip_suffix(&format!(".{kind}.{ending}")).filter(|stem| !stem.is_empty())?;
        Some((path.with_file_name(stem), kind, ending))
    });
    found.next()
}

/// The path of one file of a pair.
pub fn place(pair: &Path, kind: &str, ending: &str) -> PathBuf {
    let mut name = pair.as_os_str().to_owned();
    name.push(format!(".{kind}.{ending}"));
    name.into()
}

/// Writes both files, or the bins alone to standard output.
pub fn deliver(intervals: &[Interval], out: Option<&Path>) -> Result<()> {
    let Some(out) = out else { return file_io::deliver(bins_csv(intervals), None) };
    let Some((pair, "bins", ending)) = part(out) else {
        let hint =
            "name it NAME.bins.csv, .bins.csv.gz or .bins.parquet; the intervals go beside it";
        return Err(usage!("--out {}: bins are two files: {hint}", out.display()));
    };
    let [bins, beside] = encoded(intervals, ending)?;
    // The bins last: who sees them finds the other.
    file_io::deliver_all(&[(place(&pair, "intervals", ending), beside), (out.to_path_buf(), bins)])
}

fn encoded(intervals: &[Interval], ending: &str) -> Result<[Vec<u8>; 2]> {
    if ending == "parquet" {
        return parquet(intervals);
    }
    let texts = [bins_csv(intervals), intervals_csv(intervals)];
    let gzip = |text: String| {
        file_io::gzip(text.as_bytes()).map_err(|e| Error::measure(format!("cannot compress: {e}")))
    };
    let [bins, beside] =
        texts.map(|text| if ending == "csv.gz" { gzip(text) } else { Ok(text.into_bytes()) });
    Ok([bins?, beside?])
}

#[cfg(feature = "parquet")]
fn parquet(intervals: &[Interval]) -> Result<[Vec<u8>; 2]> {
    use crate::render::parquet;
    Ok([parquet::bins(intervals)?, parquet::intervals(intervals)?])
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &[Interval]) -> Result<[Vec<u8>; 2]> {
    Err(Error::usage(NO_PARQUET))
}

/// What a build without the feature says.
#[cfg(not(feature = "parquet"))]
pub const NO_PARQUET: &str = "this build has no Parquet: write .bins.csv.gz, which the same SQL reads, or build it with `cargo build --features parquet`";
