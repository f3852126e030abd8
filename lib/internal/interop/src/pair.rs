//! The pair of files that stores bins: `NAME.bins.csv`, and `NAME.intervals.csv` in the same
//! directory. In a build with that feature, also as Parquet.

use std::path::{Path, PathBuf};

use cli::exit::{Result, usage};
use cli::file_io;
use cli::file_io::Destination;
use files::bins::{Interval, bins_csv, intervals_csv};

use crate::import_error::ExportError;

/// The kinds of files, named between the name of the pair and the ending.
pub const BINS: &str = "bins";
pub const INTERVALS: &str = "intervals";
/// The endings, which select the encoding.
pub const ENDINGS: [&str; 3] = ["csv", "csv.gz", "parquet"];

/// Splits the path of a file of a pair into the path of the pair, the kind and the ending.
pub fn split_path(path: &Path) -> Option<(PathBuf, &'static str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    let files = [BINS, INTERVALS]
        .into_iter()
        .flat_map(|kind| ENDINGS.into_iter().map(move |ending| (kind, ending)));
    let mut found = files.filter_map(|(kind, ending)| {
        let stem =
            name.strip_suffix(&format!(".{kind}.{ending}")).filter(|stem| !stem.is_empty())?;
        Some((path.with_file_name(stem), kind, ending))
    });
    found.next()
}

/// Returns the path of a file of a pair.
pub fn file_path(pair: &Path, kind: &str, ending: &str) -> PathBuf {
    let mut name = pair.as_os_str().to_owned();
    name.push(format!(".{kind}.{ending}"));
    name.into()
}

/// Returns the files that a result replaces: both of a pair, or else the one that `out` names.
pub fn output_files(out: &Path) -> Vec<PathBuf> {
    let mut files = vec![out.to_path_buf()];
    if let Some((pair, BINS, ending)) = split_path(out) {
        files.push(file_path(&pair, INTERVALS, ending));
    }
    files
}

/// Writes both files, or only the bins to standard output.
pub fn deliver(intervals: &[Interval], out: Option<Destination<'_>>) -> Result<()> {
    let to_file = out.filter(|out| !out.is_stdout());
    let Some(Destination { path: out, force }) = to_file else {
        return file_io::write_output(bins_csv(intervals), None);
    };
    let Some((pair, BINS, ending)) = split_path(out) else {
        let hint = "name it NAME.bins.csv, .bins.csv.gz or .bins.parquet; the intervals are written next to it";
        return Err(usage!("--out {}: bins are two files: {hint}", out.display()));
    };
    let EncodedPair { bins, intervals } = encode(intervals, ending)?;
    // The bins are written last: a reader that finds them finds the intervals as well.
    let files = [(file_path(&pair, INTERVALS, ending), intervals), (out.to_path_buf(), bins)];
    file_io::write_outputs(&files, force)
}

/// The encoded files of a pair.
struct EncodedPair {
    bins: Vec<u8>,
    intervals: Vec<u8>,
}

fn encode(intervals: &[Interval], ending: &str) -> std::result::Result<EncodedPair, ExportError> {
    if ending == "parquet" {
        return parquet(intervals);
    }
    let compress =
        |text: String| file_io::compress(text.as_bytes()).map_err(ExportError::Compression);
    let is_gzip = ending == "csv.gz";
    let bytes = |text: String| if is_gzip { compress(text) } else { Ok(text.into_bytes()) };
    Ok(EncodedPair {
        bins: bytes(bins_csv(intervals))?,
        intervals: bytes(intervals_csv(intervals))?,
    })
}

#[cfg(feature = "parquet")]
fn parquet(intervals: &[Interval]) -> std::result::Result<EncodedPair, ExportError> {
    use crate::parquet;
    Ok(EncodedPair { bins: parquet::bins(intervals)?, intervals: parquet::intervals(intervals)? })
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &[Interval]) -> std::result::Result<EncodedPair, ExportError> {
    Err(ExportError::NoParquet)
}
