//! Apache Parquet: a row a subject, a tick or a bin, for what queries columns.

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

use crate::render::columns::{self, Column, Get};
use crate::render::entry::entries;

/// One row for each measured subject. What is not known is null.
pub fn summary(reports: &[Report]) -> Result<Vec<u8>> {
    write("summary", &columns::summary(), std::iter::once(entries(reports))).map_err(failed)
}

/// One row for each tick that came, a row group a subject.
pub fn samples(reports: &[Report]) -> Result<Vec<u8>> {
    let mut columns = columns::samples();
    // The id stands first in these files.
    columns.sort_by_key(|(_, get)| !matches!(get, Get::Text(_)));
    write("samples", &columns, entries(reports).map(columns::ticks)).map_err(failed)
}

/// One row for each bin of each interval, in the columns of the text.
pub fn bins(intervals: &[Interval]) -> Result<Vec<u8>> {
    of_text("bins", &bins_csv(intervals)).map_err(failed)
}

/// One row for each interval, in the columns of the text.
pub fn intervals(intervals: &[Interval]) -> Result<Vec<u8>> {
    of_text("intervals", &intervals_csv(intervals)).map_err(failed)
}

/// The columns of bins and intervals that are text; the others are whole numbers.
const TEXT: [&str; 7] = ["host", "subject", "runtime", "labels", "start", "run_id", "binning"];

/// A table of ours, in which no cell has quotes.
fn of_text(name: &str, text: &str) -> std::result::Result<Vec<u8>, ParquetError> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let fields = columns.iter().map(|column| {
        // Ends rise evenly; everything else is the same for many rows, which a dictionary is for.
        let rises = matches!(*column, "lower_ns" | "upper_ns");
        (*column, if TEXT.contains(column) { TEXT_FIELD } else { WHOLE_FIELD }, rises)
    });
    let mut file = begun(name, fields)?;
    let mut group = file.next_row_group()?;
    for (i, column) in columns.iter().enumerate() {
        let Some(mut place) = group.next_column()? else { break };
        if TEXT.contains(column) {
            let cells: Vec<ByteArray> = rows.iter().map(|row| row[i].into()).collect();
            place.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
        } else {
            let (values, there) = present(rows.iter().map(|row| row[i].parse().ok()));
            place.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
        }
        place.close()?;
    }
    group.close()?;
    file.into_inner()
}

/// A file of bins or intervals, ours or an engine's, as the text that it stands for: at most so
/// many bytes.
pub fn as_csv(path: &Path, most: u64) -> Result<String> {
    let unread = |e: ParquetError| usage!("not a Parquet file that can be read: {e}");
    let file = std::fs::File::open(path).map_err(|e| usage!("cannot read it: {e}"))?;
    let reader = SerializedFileReader::new(file).map_err(unread)?;
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect();
    let mut text = names.join(",");
    for row in reader.get_row_iter(None).map_err(unread)? {
        let row = row.map_err(unread)?;
        for (i, (_, field)) in row.get_column_iter().enumerate() {
            text.push(if i == 0 { '\n' } else { ',' });
            let _ = match field {
                Field::Null => Ok(()),
                Field::Str(cell) => write!(text, "\"{}\"", cell.replace('"', "\"\"")),
                other => write!(text, "{other}"),
            };
        }
        // A few bytes of a dictionary can be any number of rows.
        if text.len() as u64 > most {
            return Err(usage!("is more than {} MiB when it is unpacked; divide it", most >> 20));
        }
    }
    Ok(text + "\n")
}

fn failed(error: ParquetError) -> Error {
    Error::measure(format!("cannot encode the table: {error}"))
}

const TEXT_FIELD: &str = "REQUIRED BYTE_ARRAY {} (UTF8);";
const WHOLE_FIELD: &str = "OPTIONAL INT64 {};";

/// A file without rows, its columns by name and field; differences are stored of those that rise
/// evenly.
fn begun<'a>(
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

/// The file, its rows in groups.
fn write<R, Rows: Iterator<Item = R> + Clone>(
    name: &str,
    columns: &[Column<R>],
    groups: impl Iterator<Item = Rows>,
) -> std::result::Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(|(name, get)| match get {
        Get::Text(_) => (*name, TEXT_FIELD, false),
        // Neighbours are alike: ticks and deadlines rise evenly, the others hardly change.
        Get::Count(_) | Get::Whole(_) => (*name, WHOLE_FIELD, true),
        Get::Real(_) => (*name, "OPTIONAL DOUBLE {};", false),
    });
    let mut file = begun(name, fields)?;
    for rows in groups {
        let mut group = file.next_row_group()?;
        for (_, get) in columns {
            let Some(mut place) = group.next_column()? else { break };
            match get {
                Get::Text(get) => {
                    let cells: Vec<ByteArray> = rows.clone().map(|row| get(&row).into()).collect();
                    place.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
                }
                Get::Count(get) => {
                    let signed = |n| i64::try_from(n).unwrap_or(i64::MAX);
                    let (values, there) = present(rows.clone().map(|row| get(&row).map(signed)));
                    place.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
                }
                Get::Whole(get) => {
                    let (values, there) = present(rows.clone().map(|row| get(&row)));
                    place.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
                }
                Get::Real(get) => {
                    let (values, there) = present(rows.clone().map(|row| get(&row)));
                    place.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
                }
            }
            place.close()?;
        }
        group.close()?;
    }
    file.into_inner()
}

/// The values that are there, and for each row whether it has one: as the format stores nulls.
fn present<T>(cells: impl Iterator<Item = Option<T>> + Clone) -> (Vec<T>, Vec<i16>) {
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
        Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report")
    }

    fn reader(bytes: &[u8]) -> SerializedFileReader<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    #[test]
    fn every_tick_is_a_row() {
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
    fn a_summary_has_the_columns_of_the_csv() {
        let report = report();
        let file = reader(&summary(std::slice::from_ref(&report)).unwrap());
        let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
        let names: Vec<&str> = columns.iter().map(|c| c.name()).collect();
        let csv = crate::render::csv::summary(std::slice::from_ref(&report));
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
    fn bins_are_read_back_as_they_were() {
        use files::bins::{
            Binning, Labels, intervals_from_report, join, read_bins, read_intervals,
        };
        let labels = Labels::parse("rack=r7;zone=a").unwrap();
        let mut all = intervals_from_report(&report(), "web-17", &labels, Binning::Hdr2).unwrap();
        let home = tempfile::tempdir().unwrap();
        let [first, second] =
            [("a", bins(&all).unwrap()), ("b", intervals(&all).unwrap())].map(|(name, bytes)| {
                let path = home.path().join(name);
                std::fs::write(&path, bytes).unwrap();
                as_csv(&path, 1 << 20).unwrap()
            });
        assert_eq!(first.lines().next(), bins_csv(&all).lines().next());
        assert_eq!(second.lines().next(), intervals_csv(&all).lines().next());
        all.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(
            join(read_bins(&first).unwrap(), read_intervals(&second).unwrap()).unwrap(),
            all
        );
    }

    #[test]
    fn no_report_is_a_table_without_rows() {
        assert_eq!(reader(&samples(&[]).unwrap()).metadata().file_metadata().num_rows(), 0);
        assert_eq!(reader(&summary(&[]).unwrap()).metadata().file_metadata().num_rows(), 0);
    }
}
