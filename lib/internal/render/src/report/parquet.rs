//! Apache Parquet files with one row per subject, tick or bin, for column-oriented queries.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cli::exit::{Error, Result, usage};
use files::bins::{Interval, bins_csv, intervals_csv};
use files::report::Report;
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::report::columns::{self, Column, Getter};
use crate::report::entry::entries;

/// Encodes one row for each measured subject. Unknown values are null.
pub fn summary(reports: &[Report]) -> Result<Vec<u8>> {
    write("summary", &columns::summary(), std::iter::once(entries(reports))).map_err(encode_error)
}

/// Encodes one row for each delivered tick, and one row group per subject.
pub fn samples(reports: &[Report]) -> Result<Vec<u8>> {
    let mut columns = columns::samples();
    // Text columns come first in these files.
    columns.sort_by_key(|(_, get)| !matches!(get, Getter::Text(_)));
    write("samples", &columns, entries(reports).map(columns::ticks)).map_err(encode_error)
}

/// Encodes one row for each bin of each interval, with the columns of the CSV file.
pub fn bins(intervals: &[Interval]) -> Result<Vec<u8>> {
    encode_csv("bins", &bins_csv(intervals)).map_err(encode_error)
}

/// Encodes one row for each interval, with the columns of the CSV file.
pub fn intervals(intervals: &[Interval]) -> Result<Vec<u8>> {
    encode_csv("intervals", &intervals_csv(intervals)).map_err(encode_error)
}

/// The text columns of bins and intervals; the others are integers.
const TEXT_COLUMNS: [&str; 7] =
    ["host", "subject", "runtime", "labels", "start", "run_id", "binning"];

/// Encodes a CSV table written by osjitter, which has no quoted cells.
fn encode_csv(name: &str, text: &str) -> std::result::Result<Vec<u8>, ParquetError> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let fields = columns.iter().map(|column| {
        // Bin ends rise evenly. The other columns have few distinct values, for which a dictionary
        // is smaller.
        let rises = matches!(*column, "lower_ns" | "upper_ns");
        (*column, if TEXT_COLUMNS.contains(column) { TEXT_FIELD } else { WHOLE_FIELD }, rises)
    });
    let mut file = new_writer(name, fields)?;
    let mut group = file.next_row_group()?;
    for (i, column) in columns.iter().enumerate() {
        let Some(mut writer) = group.next_column()? else { break };
        if TEXT_COLUMNS.contains(column) {
            let cells: Vec<ByteArray> = rows.iter().map(|row| row[i].into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
        } else {
            let (values, levels) = split_nulls(rows.iter().map(|row| row[i].parse().ok()));
            writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        writer.close()?;
    }
    group.close()?;
    file.into_inner()
}

/// Reads a file of bins or intervals, written by osjitter or by a query engine, as CSV text of at
/// most `max_bytes` bytes.
pub fn read_as_csv(path: &Path, max_bytes: u64) -> Result<String> {
    let read_error = |e: ParquetError| usage!("not a Parquet file that can be read: {e}");
    let file = std::fs::File::open(path).map_err(|e| usage!("cannot read it: {e}"))?;
    let reader = SerializedFileReader::new(file).map_err(read_error)?;
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect();
    let mut text = names.join(",");
    for row in reader.get_row_iter(None).map_err(read_error)? {
        let row = row.map_err(read_error)?;
        for (i, (_, field)) in row.get_column_iter().enumerate() {
            text.push(if i == 0 { '\n' } else { ',' });
            let _ = match field {
                Field::Null => Ok(()),
                Field::Str(cell) => write!(text, "\"{}\"", cell.replace('"', "\"\"")),
                other => write!(text, "{other}"),
            };
        }
        // A few bytes of a dictionary can stand for any number of rows.
        if text.len() as u64 > max_bytes {
            return Err(usage!(
                "is more than {} MiB when it is unpacked; divide it",
                max_bytes >> 20
            ));
        }
    }
    Ok(text + "\n")
}

fn encode_error(error: ParquetError) -> Error {
    Error::measure(format!("cannot encode the table: {error}"))
}

const TEXT_FIELD: &str = "REQUIRED BYTE_ARRAY {} (UTF8);";
const WHOLE_FIELD: &str = "OPTIONAL INT64 {};";

/// Starts a file with columns of the given names and fields. Columns that rise evenly are
/// delta-encoded.
fn new_writer<'a>(
    name: &str,
    fields: impl Iterator<Item = (&'a str, &'static str, bool)>,
) -> std::result::Result<SerializedFileWriter<Vec<u8>>, ParquetError> {
    let mut schema = format!("message {name} {{\n");
    let mut properties = WriterProperties::builder();
    for (column, field, rises) in fields {
        schema += &field.replace("{}", column);
        if rises {
            let path = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    schema.push('}');
    SerializedFileWriter::new(
        Vec::new(),
        Arc::new(parse_message_type(&schema)?),
        Arc::new(properties.build()),
    )
}

/// Encodes rows in groups.
fn write<R, Rows: Iterator<Item = R> + Clone>(
    name: &str,
    columns: &[Column<R>],
    groups: impl Iterator<Item = Rows>,
) -> std::result::Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(|(name, get)| match get {
        Getter::Text(_) => (*name, TEXT_FIELD, false),
        // Neighbouring values are similar: ticks and deadlines rise evenly, the others hardly
        // change.
        Getter::Count(_) | Getter::Whole(_) => (*name, WHOLE_FIELD, true),
        Getter::Real(_) => (*name, "OPTIONAL DOUBLE {};", false),
    });
    let mut file = new_writer(name, fields)?;
    for rows in groups {
        let mut group = file.next_row_group()?;
        for (_, get) in columns {
            let Some(mut writer) = group.next_column()? else { break };
            match get {
                Getter::Text(get) => {
                    let cells: Vec<ByteArray> = rows.clone().map(|row| get(&row).into()).collect();
                    writer.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
                }
                Getter::Count(get) => {
                    let signed = |n| i64::try_from(n).unwrap_or(i64::MAX);
                    let (values, levels) =
                        split_nulls(rows.clone().map(|row| get(&row).map(signed)));
                    writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Getter::Whole(get) => {
                    let (values, levels) = split_nulls(rows.clone().map(|row| get(&row)));
                    writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Getter::Real(get) => {
                    let (values, levels) = split_nulls(rows.clone().map(|row| get(&row)));
                    writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
    }
    file.into_inner()
}

/// Returns the present values, and for each row a definition level, which is 1 if it has a value.
fn split_nulls<T>(cells: impl Iterator<Item = Option<T>> + Clone) -> (Vec<T>, Vec<i16>) {
    (cells.clone().flatten().collect(), cells.map(|cell| i16::from(cell.is_some())).collect())
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use std::io::{Seek, Write};

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    fn report() -> Report {
        Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report")
    }

    fn reader(bytes: &[u8]) -> SerializedFileReader<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    #[test]
    fn every_tick_has_a_row() {
        let report = report();
        let file = reader(&samples(std::slice::from_ref(&report)).unwrap());
        let late: Vec<i64> =
            file.get_row_iter(None).unwrap().map(|row| row.unwrap().get_long(7).unwrap()).collect();
        let expected: Vec<i64> = report
            .subjects
            .iter()
            .flat_map(|s| s.rounds.iter().flat_map(|r| r.lateness_ns.clone()))
            .collect();
        assert_eq!(late, expected);
        assert_eq!(file.num_row_groups(), report.subjects.len());
    }

    #[test]
    fn summary_columns_match_csv() {
        let report = report();
        let file = reader(&summary(std::slice::from_ref(&report)).unwrap());
        let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
        let names: Vec<&str> = columns.iter().map(|c| c.name()).collect();
        let csv = crate::report::csv::summary(std::slice::from_ref(&report));
        assert_eq!(names.join(","), csv.lines().next().unwrap());
        let p50 = names.iter().position(|n| *n == "p50_ns").unwrap();
        for (row, subject) in file.get_row_iter(None).unwrap().zip(&report.subjects) {
            assert_eq!(
                Some(row.unwrap().get_long(p50).unwrap()),
                subject.summary.as_ref().unwrap().lateness_ns.p50
            );
        }
    }

    #[test]
    fn bins_survive_a_round_trip() {
        use files::bins::{
            Binning, Labels, intervals_from_report, join, read_bins, read_intervals,
        };
        let labels = Labels::parse("rack=r7;zone=a").unwrap();
        let mut written =
            intervals_from_report(&report(), "web-17", &labels, Binning::Hdr2).unwrap();
        let home = tempfile::tempdir().unwrap();
        let [first, second] = [("a", bins(&written).unwrap()), ("b", intervals(&written).unwrap())]
            .map(|(name, bytes)| {
                let path = home.path().join(name);
                std::fs::write(&path, bytes).unwrap();
                read_as_csv(&path, 1 << 20).unwrap()
            });
        assert_eq!(first.lines().next(), bins_csv(&written).lines().next());
        assert_eq!(second.lines().next(), intervals_csv(&written).lines().next());
        written.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(
            join(read_bins(&first).unwrap(), read_intervals(&second).unwrap()).unwrap(),
            written
        );
    }

    #[test]
    fn no_reports_give_no_rows() {
        assert_eq!(reader(&samples(&[]).unwrap()).metadata().file_metadata().num_rows(), 0);
        assert_eq!(reader(&summary(&[]).unwrap()).metadata().file_metadata().num_rows(), 0);
    }
}
