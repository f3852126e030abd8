//! Apache Parquet files with one row per subject, tick or bin, for column-oriented queries.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use cli::exit;
use files::bins::{Interval, bins_csv, intervals_csv};
use files::report::Report;
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::columns::{self, Getter, TableColumn};
use crate::import_error::ExportError;
use files::entry::entries;

/// Encodes one row for each measured subject. Unknown values are null.
pub fn summary(reports: &[Report]) -> Result<Vec<u8>, ExportError> {
    write("summary", &columns::summary(), std::iter::once(entries(reports)))
        .map_err(ExportError::Parquet)
}

/// Encodes one row for each delivered tick, and one row group per subject.
pub fn samples(reports: &[Report]) -> Result<Vec<u8>, ExportError> {
    let mut columns = columns::samples();
    // Text columns come first in these files.
    columns.sort_by_key(|(_, get)| !matches!(get, Getter::Text(_)));
    write("samples", &columns, entries(reports).map(columns::ticks)).map_err(ExportError::Parquet)
}

/// Encodes one row for each bin of each interval, with the columns of the CSV file.
pub fn bins(intervals: &[Interval]) -> Result<Vec<u8>, ExportError> {
    encode_csv("bins", &bins_csv(intervals)).map_err(ExportError::Parquet)
}

/// Encodes one row for each interval, with the columns of the CSV file.
pub fn intervals(intervals: &[Interval]) -> Result<Vec<u8>, ExportError> {
    encode_csv("intervals", &intervals_csv(intervals)).map_err(ExportError::Parquet)
}

/// The text columns of bins and intervals; the others are integers.
const TEXT_COLUMNS: [&str; 7] =
    ["host", "subject", "runtime", "labels", "start", "run_id", "binning"];

/// Encodes a CSV table written by osjitter, which has no quoted cells.
fn encode_csv(name: &str, text: &str) -> Result<Vec<u8>, ParquetError> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let mut file = new_writer(name, columns.iter().map(|column| csv_column(column)))?;
    let mut group = file.next_row_group()?;
    for (i, column) in columns.iter().enumerate() {
        let Some(mut writer) = group.next_column()? else { break };
        if TEXT_COLUMNS.contains(column) {
            let cells: Vec<ByteArray> = rows.iter().map(|row| row[i].into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
        } else {
            let cells = rows.iter().map(|row| row[i].parse().ok());
            write_cells::<Int64Type>(&mut writer, cells)?;
        }
        writer.close()?;
    }
    group.close()?;
    file.into_inner()
}

fn csv_column(name: &str) -> SchemaColumn<'_> {
    let field = if TEXT_COLUMNS.contains(&name) { TEXT_FIELD } else { WHOLE_FIELD };
    // Bin ends rise evenly. The other columns have few distinct values, for which a dictionary is
    // smaller.
    SchemaColumn { name, field, rises: matches!(name, "lower_ns" | "upper_ns") }
}

/// A reader of a file of bins or intervals, written by osjitter or by a query engine, as CSV text.
pub struct CsvReader {
    rows: RowIter<'static>,
    /// The text of a row, of which the part before `position` has been read.
    line: String,
    position: usize,
}

impl CsvReader {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let file = std::fs::File::open(path).map_err(TableError::Io)?;
        let reader = SerializedFileReader::new(file).map_err(TableError::Parquet)?;
        let schema = reader.metadata().file_metadata().schema();
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        let line = names.join(",") + "\n";
        Ok(Self { rows: reader.into_iter(), line, position: 0 })
    }
}

impl Read for CsvReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == self.line.len() {
            self.line.clear();
            self.position = 0;
            if let Some(row) = self.rows.next() {
                let row = row.map_err(|e| io::Error::other(TableError::Parquet(e)))?;
                push_row(&mut self.line, &row);
            }
        }
        let read = (&self.line.as_bytes()[self.position..]).read(buffer)?;
        self.position += read;
        Ok(read)
    }
}

fn push_row(text: &mut String, row: &Row) {
    for (i, (_, field)) in row.get_column_iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        let _ = match field {
            Field::Null => Ok(()),
            Field::Str(cell) => write!(text, "\"{}\"", cell.replace('"', "\"\"")),
            other => write!(text, "{other}"),
        };
    }
    text.push('\n');
}

/// Error of a file that cannot be read as a table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("cannot read it: {0}")]
    Io(#[source] io::Error),
    #[error("not a Parquet file that can be read: {0}")]
    Parquet(#[source] ParquetError),
}

impl From<TableError> for exit::Error {
    fn from(error: TableError) -> Self {
        Self::usage(error.to_string())
    }
}

const TEXT_FIELD: &str = "REQUIRED BYTE_ARRAY {} (UTF8);";
const WHOLE_FIELD: &str = "OPTIONAL INT64 {};";
const REAL_FIELD: &str = "OPTIONAL DOUBLE {};";

/// A column of a file: its name, the declaration of its field with `{}` in place of the name, and
/// whether its values rise evenly.
struct SchemaColumn<'a> {
    name: &'a str,
    field: &'static str,
    rises: bool,
}

/// Starts a file. Columns that rise evenly are delta-encoded.
fn new_writer<'a>(
    name: &str,
    columns: impl Iterator<Item = SchemaColumn<'a>>,
) -> Result<SerializedFileWriter<Vec<u8>>, ParquetError> {
    let mut schema = format!("message {name} {{\n");
    let mut properties = WriterProperties::builder();
    for column in columns {
        schema += &column.field.replace("{}", column.name);
        if column.rises {
            let path = ColumnPath::from(column.name);
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
    columns: &[TableColumn<R>],
    groups: impl Iterator<Item = Rows>,
) -> Result<Vec<u8>, ParquetError> {
    let mut file = new_writer(name, columns.iter().map(schema_column))?;
    for rows in groups {
        let mut group = file.next_row_group()?;
        for (_, get) in columns {
            let Some(mut writer) = group.next_column()? else { break };
            write_column(&mut writer, get, rows.clone())?;
            writer.close()?;
        }
        group.close()?;
    }
    file.into_inner()
}

fn schema_column<R>((name, get): &TableColumn<R>) -> SchemaColumn<'_> {
    let (field, rises) = match get {
        Getter::Text(_) | Getter::Words(_) => (TEXT_FIELD, false),
        // Neighbouring values are similar: ticks and deadlines rise evenly, the others hardly
        // change.
        Getter::Count(_) | Getter::Whole(_) => (WHOLE_FIELD, true),
        Getter::Real(_) => (REAL_FIELD, false),
    };
    SchemaColumn { name, field, rises }
}

/// Encodes the cells of a column.
fn write_column<R>(
    writer: &mut SerializedColumnWriter<'_>,
    get: &Getter<R>,
    rows: impl Iterator<Item = R> + Clone,
) -> Result<(), ParquetError> {
    match get {
        Getter::Text(get) => {
            let cells: Vec<ByteArray> = rows.map(|row| get(&row).into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
        }
        Getter::Words(get) => {
            let cells: Vec<ByteArray> = rows.map(|row| get(&row).as_str().into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
        }
        Getter::Count(get) => write_cells::<Int64Type>(writer, rows.map(|row| signed(get(&row))))?,
        Getter::Whole(get) => write_cells::<Int64Type>(writer, rows.map(|row| get(&row)))?,
        Getter::Real(get) => write_cells::<DoubleType>(writer, rows.map(|row| get(&row)))?,
    }
    Ok(())
}

fn signed(count: Option<u64>) -> Option<i64> {
    count.map(|n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// Encodes cells that may be null.
fn write_cells<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = cells.clone().flatten().collect();
    // A definition level is 1 if its row has a value.
    let levels: Vec<i16> = cells.map(|cell| i16::from(cell.is_some())).collect();
    writer.typed::<T>().write_batch(&values, Some(&levels), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use std::io::{Seek, Write};

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    fn report() -> Report {
        Report::from_json(include_str!("../../../../tests/fixtures/report.json")).expect("a report")
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
        let csv = crate::csv::summary(std::slice::from_ref(&report));
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
                let mut text = String::new();
                CsvReader::open(&path).unwrap().read_to_string(&mut text).unwrap();
                text
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
