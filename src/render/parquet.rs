//! Apache Parquet: a row a subject, or a row a tick, for what queries columns. Times are whole nanoseconds.

use std::sync::Arc;

use jitterstat::report::Report;
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::render::entry::{Entry, entries};

/// One column of one row group.
struct Column {
    name: String,
    cells: Cells,
}

enum Cells {
    Text(Vec<String>),
    Whole(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
}

/// One row for each measured subject; the columns are those of the CSV. What was not measured is null.
pub fn summary(reports: &[Report]) -> Result<Vec<u8>, String> {
    let all: Vec<Entry<'_>> = entries(reports).collect();
    let text = |name: &str, get: for<'a> fn(&'a Entry<'_>) -> &'a str| {
        column(name, Cells::Text(all.iter().map(|e| get(e).to_owned()).collect()))
    };
    let whole =
        |name: &str, get: &dyn Fn(&Entry<'_>) -> Option<i64>| column(name, Cells::Whole(all.iter().map(get).collect()));
    let count = |name: &str, get: fn(&Entry<'_>) -> Option<u64>| whole(name, &|e| get(e).map(signed));
    let real =
        |name: &str, get: fn(&Entry<'_>) -> Option<f64>| column(name, Cells::Real(all.iter().map(get).collect()));
    let mut columns = vec![
        count("report", |e| Some(e.source as u64)),
        text("started_utc", |e| &e.report.started_utc),
        text("id", |e| &e.subject.id),
        text("subject", |e| &e.subject.name),
        count("period_ns", |e| Some(e.subject.period_ns)),
        text("runtime", |e| e.subject.runtime.as_deref().unwrap_or_default()),
        count("instances", |e| Some(e.subject.instances)),
        text("backend", |e| e.subject.backend.as_deref().unwrap_or_default()),
        count("ticks", |e| Some(e.summary.ticks)),
        count("delivered", |e| Some(e.summary.delivered)),
        count("coalesced", |e| Some(e.summary.coalesced)),
        count("skipped", |e| Some(e.summary.skipped)),
        count("missed", |e| Some(e.summary.missed)),
        count("early", |e| Some(e.summary.early)),
        count("no_park", |e| e.summary.no_park),
        real("drift_ppb", |e| e.summary.drift_ppb),
        real("cpu_ns_per_tick", |e| e.summary.cpu_ns_per_tick),
        real("wakeups_per_tick", |e| e.summary.wakeups_per_tick),
        whole("min_ns", &|e| Some(e.summary.lateness_ns.min)),
        whole("mean_ns", &|e| Some(e.summary.lateness_ns.mean)),
    ];
    for name in ["p50", "p90", "p99", "p99_9", "p99_99"] {
        columns.push(whole(&format!("{name}_ns"), &|e| {
            let d = &e.summary.lateness_ns;
            let all = [("p50", d.p50), ("p90", d.p90), ("p99", d.p99), ("p99_9", d.p99_9), ("p99_99", d.p99_99)];
            all.into_iter().find(|(of, _)| *of == name)?.1
        }));
        let end = |i: usize| move |e: &Entry<'_>| e.summary.lateness_ns.ci95.get(name).map(|interval| interval[i]);
        columns.push(whole(&format!("{name}_low_ns"), &end(0)));
        columns.push(whole(&format!("{name}_high_ns"), &end(1)));
    }
    columns.push(whole("max_ns", &|e| Some(e.summary.lateness_ns.max)));
    written("summary", vec![columns])
}

/// One row for each tick that came, a row group a subject. `deadline_ns` counts from the start of the run.
pub fn samples(reports: &[Report]) -> Result<Vec<u8>, String> {
    let mut groups: Vec<Vec<Column>> = entries(reports).map(|entry| ticks(Some(&entry))).collect();
    if groups.is_empty() {
        groups.push(ticks(None));
    }
    written("samples", groups)
}

/// The ticks of one subject; without one, the columns alone.
fn ticks(entry: Option<&Entry<'_>>) -> Vec<Column> {
    const NAMES: [&str; 8] =
        ["report", "round", "slot", "instance", "tick", "deadline_ns", "lateness_ns", "until_unpark_ns"];
    let mut whole: [Vec<Option<i64>>; 8] = Default::default();
    for (entry, round) in entry.iter().flat_map(|e| e.subject.rounds.iter().map(move |r| (e, r))) {
        for (i, &late) in round.lateness_ns.iter().enumerate() {
            let tick = round.tick_of(i);
            let deadline = round.start_ns.saturating_add(tick.saturating_mul(entry.subject.period_ns));
            let until = round.until_unpark_ns.as_ref().and_then(|u| u.get(i).copied().flatten());
            let counts = [entry.source as u64, round.index, round.slot, round.instance, tick, deadline];
            let cells = counts.map(|n| Some(signed(n))).into_iter().chain([Some(late), until]);
            whole.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        }
    }
    let id = entry.map_or(String::new(), |e| e.subject.id.clone());
    let ids = vec![id; whole[0].len()];
    let numbers = NAMES.iter().zip(whole).map(|(name, cells)| column(name, Cells::Whole(cells)));
    std::iter::once(column("id", Cells::Text(ids))).chain(numbers).collect()
}

fn column(name: &str, cells: Cells) -> Column {
    Column { name: name.to_owned(), cells }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn written(name: &str, groups: Vec<Vec<Column>>) -> Result<Vec<u8>, String> {
    write(name, groups).map_err(|e| format!("cannot encode the table: {e}"))
}

/// The file; every group has the columns of the first.
fn write(name: &str, groups: Vec<Vec<Column>>) -> Result<Vec<u8>, ParquetError> {
    let mut schema = format!("message {name} {{\n");
    let mut properties = WriterProperties::builder();
    for column in &groups[0] {
        let path = ColumnPath::from(column.name.as_str());
        let field = match column.cells {
            Cells::Text(_) => "REQUIRED BYTE_ARRAY {} (UTF8);",
            Cells::Whole(_) => "OPTIONAL INT64 {};",
            Cells::Real(_) => "OPTIONAL DOUBLE {};",
        };
        schema += &field.replace("{}", &column.name);
        if let Cells::Whole(_) = column.cells {
            // Neighbours are alike: ticks and deadlines rise evenly, the others hardly change.
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    schema.push('}');
    let mut file =
        SerializedFileWriter::new(Vec::new(), Arc::new(parse_message_type(&schema)?), Arc::new(properties.build()))?;
    for group in groups {
        let mut rows = file.next_row_group()?;
        for column in group {
            let Some(mut place) = rows.next_column()? else { break };
            match column.cells {
                Cells::Text(cells) => {
                    let cells: Vec<ByteArray> = cells.iter().map(|cell| cell.as_str().into()).collect();
                    place.typed::<ByteArrayType>().write_batch(&cells, None, None)?;
                }
                Cells::Whole(cells) => {
                    let (values, there) = present(&cells);
                    place.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
                }
                Cells::Real(cells) => {
                    let (values, there) = present(&cells);
                    place.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
                }
            }
            place.close()?;
        }
        rows.close()?;
    }
    file.into_inner()
}

/// The values that are there, and for each row whether it has one: as the format stores nulls.
fn present<T: Copy>(cells: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (cells.iter().flatten().copied().collect(), cells.iter().map(|cell| i16::from(cell.is_some())).collect())
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
