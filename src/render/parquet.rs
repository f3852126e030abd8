//! Apache Parquet: a row a subject, or a row a tick, for what queries columns.

use std::sync::Arc;

use jitterstat::report::Report;
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::exit::{Error, Result};
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

fn failed(error: ParquetError) -> Error {
    Error::measure(format!("cannot encode the table: {error}"))
}

/// The file, its rows in groups.
fn write<R, Rows: Iterator<Item = R> + Clone>(
    name: &str,
    columns: &[Column<R>],
    groups: impl Iterator<Item = Rows>,
) -> std::result::Result<Vec<u8>, ParquetError> {
    let mut schema = format!("message {name} {{\n");
    let mut properties = WriterProperties::builder();
    for (name, get) in columns {
        let path = ColumnPath::from(*name);
        let field = match get {
            Get::Text(_) => "REQUIRED BYTE_ARRAY {} (UTF8);",
            Get::Count(_) | Get::Whole(_) => "OPTIONAL INT64 {};",
            Get::Real(_) => "OPTIONAL DOUBLE {};",
        };
        schema += &field.replace("{}", name);
        if let Get::Count(_) | Get::Whole(_) = get {
            // Neighbours are alike: ticks and deadlines rise evenly, the others hardly change.
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    schema.push('}');
    let mut file =
        SerializedFileWriter::new(Vec::new(), Arc::new(parse_message_type(&schema)?), Arc::new(properties.build()))?;
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
    use jitterstat::file::File as _;
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
        let late: Vec<i64> = file.get_row_iter(None).unwrap().map(|row| row.unwrap().get_long(7).unwrap()).collect();
        let expected: Vec<i64> =
            report.subjects.iter().flat_map(|s| s.rounds.iter().flat_map(|r| r.lateness_ns.clone())).collect();
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
            assert_eq!(Some(row.unwrap().get_long(p50).unwrap()), subject.summary.as_ref().unwrap().lateness_ns.p50);
        }
    }

    #[test]
    fn no_report_is_a_table_without_rows() {
        assert_eq!(reader(&samples(&[]).unwrap()).metadata().file_metadata().num_rows(), 0);
        assert_eq!(reader(&summary(&[]).unwrap()).metadata().file_metadata().num_rows(), 0);
    }
}
