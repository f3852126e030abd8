//! Reads the text that oslat prints: a line for each bin and each figure, and a column for each
//! thread. All times are in microseconds, with decimals if the width of the bins has them (`-W 500`).

use files::report::{MAX_COUNT, Report};

use crate::bins::RawBins;
use crate::import_error::{ImportReason, Result};
use crate::imported::{ImportedReport, check_count};
use crate::oslat::{NS_PER_US, OslatThread, TOOL, add_threads, counter, parse_microseconds};

/// Beginning of the first line, before the version.
const BEGIN: &str = "oslat V ";
/// Maximum number of bins of any version.
const MAX_BINS: usize = 1_024;
/// End of the label of a bin.
const BIN_UNIT: &str = " (us)";

/// Whether a line is one of oslat's output.
pub(super) fn is_line(line: &str) -> bool {
    line.starts_with(BEGIN) || line.starts_with("Counter Freq:")
}

/// The columns of a line, without the label and the unit or remark behind them.
fn columns(values: &str) -> Vec<&str> {
    let (values, _) = values.split_once('(').unwrap_or((values, ""));
    values.split_whitespace().collect()
}

/// The parsed lines of an output.
#[derive(Default)]
struct Output {
    version: Option<String>,
    threads: Vec<OslatThread>,
    /// Whether a label has decimals.
    has_decimals: bool,
    /// The longest time that a thread has measured.
    duration_ns: Option<u64>,
    /// Whether the last figure was read.
    has_ended: bool,
}

pub(super) fn read(text: &str) -> Result<Report> {
    let mut output = Output::default();
    for (n, line) in (1..).zip(text.lines().map(str::trim)) {
        output.add(n, line)?;
    }
    if !output.has_ended {
        return Err(ImportReason::CutOff { before: "\"Max-Min\"" }.into());
    }
    let Output { version, threads, has_decimals, duration_ns, .. } = output;
    let mut imported = ImportedReport {
        version,
        duration_ns,
        ..ImportedReport::new(TOOL, counter(&threads, has_decimals), Vec::new())
    };
    add_threads(&mut imported, &threads, has_decimals)?;
    Ok(imported.report())
}

impl Output {
    /// Adds a line. Lines of a shell, and of the options of the run, are ignored.
    fn add(&mut self, n: usize, line: &str) -> Result<()> {
        let begins_run = line.starts_with(BEGIN) || line.starts_with("Core:");
        if begins_run && !self.threads.is_empty() {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        if let Some(version) = line.strip_prefix(BEGIN) {
            self.version = Some(version.to_owned());
            return Ok(());
        }
        let Some((label, values)) = line.split_once(':') else { return Ok(()) };
        let columns = columns(values);
        if label == "Core" {
            return self.add_threads(&columns);
        }
        let expected = self.threads.len();
        if expected == 0 {
            return Ok(());
        }
        if columns.len() != expected {
            // A line with one of these labels has a column for each thread.
            let is_known =
                label.ends_with(BIN_UNIT) || matches!(label, "Minimum" | "Average" | "Maximum");
            let error = ImportReason::WrongColumnCount { line: n, expected };
            return if is_known { Err(error.into()) } else { Ok(()) };
        }
        self.add_columns(label, &columns)
            .ok_or_else(|| ImportReason::InvalidNumber { line: n, text: line.to_owned() }.into())
    }

    fn add_threads(&mut self, cpus: &[&str]) -> Result<()> {
        check_count("thread", cpus.len())?;
        let thread = |(name, cpu): (u64, &&str)| OslatThread {
            name,
            cpu: cpu.parse().ok(),
            counter_mhz: None,
            bins: RawBins::default(),
            min_ns: None,
            max_ns: None,
            mean_ns: None,
        };
        self.threads = (0..).zip(cpus).map(thread).collect();
        Ok(())
    }

    /// Adds the columns of a line; `None` if one of them is invalid.
    fn add_columns(&mut self, label: &str, columns: &[&str]) -> Option<()> {
        if let Some(edge) = label.strip_suffix(BIN_UNIT) {
            return self.add_bins(edge, columns);
        }
        for (thread, column) in self.threads.iter_mut().zip(columns) {
            match label {
                "Counter Freq" | "CPU Freq" => {
                    thread.counter_mhz = column.parse().ok().filter(|&mhz| mhz > 0);
                }
                // Without a value, the smallest one is the largest possible number.
                "Minimum" => thread.min_ns = parse_microseconds(column),
                "Maximum" => thread.max_ns = Some(parse_microseconds(column)?),
                "Average" => {
                    thread.mean_ns = column.parse().ok().map(|us: f64| us * NS_PER_US as f64);
                }
                "Duration" => self.duration_ns = self.duration_ns.max(parse_seconds(column)),
                _ => {}
            }
        }
        self.has_ended |= label == "Max-Min";
        Some(())
    }

    fn add_bins(&mut self, edge: &str, columns: &[&str]) -> Option<()> {
        self.has_decimals |= edge.contains('.');
        let edge_ns = parse_microseconds(edge)?;
        for (thread, column) in self.threads.iter_mut().zip(columns) {
            let count = column.parse().ok().filter(|&count| count <= MAX_COUNT)?;
            let is_new = count == 0 || thread.bins.0.insert(edge_ns, count).is_none();
            if !is_new || thread.bins.0.len() > MAX_BINS {
                return None;
            }
        }
        Some(())
    }
}

/// Parses seconds with decimals as nanoseconds.
fn parse_seconds(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok().filter(|seconds| (0.0..1e9).contains(seconds))?;
    Some((seconds * 1e3).round() as u64 * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_rejected, read_prefixes};

    const TEXT: &str = "\
oslat V 2.60
Total runtime: \t\t1 seconds
Thread priority: \tdefault
CPU list: \t\t0-1
CPU for main thread: \t0
Workload: \t\tno
Workload mem: \t\t0 (KiB)
Preheat cores: \t\t2

Pre-heat for 1 seconds...
Test starts...
Test completed.

        Core:\t 0 1
Counter Freq:\t 2100 2100 (Mhz)
    001 (us):\t 900 1000
    002 (us):\t 90 0
    ...
    032 (us):\t 10 4 (including overflows)
     Minimum:\t 1 1 (us)
     Average:\t 1.402 1.300 (us)
     Maximum:\t 60 31 (us)
     Max-Min:\t 59 30 (us)
    Duration:\t 0.999 0.998 (sec)

";

    #[test]
    fn threads_are_columns() {
        let report = read(TEXT).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["oslat/cpu-0", "oslat/cpu-1"]);
        assert_eq!((report.duration_ns, report.clock.rate_hz), (999_000_000, 2.1e9));
        let figures = |i: usize| {
            let summary = report.subjects[i].summary.as_ref().unwrap();
            let d = &summary.lateness_ns;
            (summary.ticks, d.min, d.mean.unwrap(), d.p90, d.max)
        };
        assert_eq!(figures(0), (1_000, 1_000, 1_402, Some(1_000), 60_000));
        assert_eq!(figures(1), (1_004, 1_000, 1_300, Some(1_000), 31_000));
        let overflow = |i: usize| report.subjects[i].histogram.as_ref().unwrap().overflow.clone();
        assert_eq!(overflow(0).map(|overflow| overflow.count), Some(10));
        assert_eq!(overflow(1), None, "the last label is above the largest value");
    }

    #[test]
    fn narrow_bins_have_decimals() {
        let narrow = TEXT
            .replace("001 (us)", "0.500 (us)")
            .replace("002 (us)", "1.000 (us)")
            .replace("Minimum:\t 1 1", "Minimum:\t 0.038 0.040")
            .replace("Maximum:\t 60 31", "Maximum:\t 60.001 31.700");
        let report = read(&narrow).unwrap();
        let d = &report.subjects[0].summary.as_ref().unwrap().lateness_ns;
        assert_eq!((d.min, d.p50, report.clock.error_bound_ns), (38, Some(500), 1));
    }

    #[test]
    fn second_run_is_rejected() {
        let (_, untitled) = TEXT.split_once("        Core").unwrap();
        for text in [format!("{TEXT}{TEXT}"), format!("{TEXT}        Core{untitled}")] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains("a second run begins in line "), "{error}");
        }
        // A run that failed has no threads.
        assert!(read(&format!("oslat V 2.60\nunable to set the priority\n{TEXT}")).is_ok());
    }

    #[test]
    fn incomplete_text_is_rejected() {
        let cases = [
            ("     Max-Min:", "     Span:", "cut off before \"Max-Min\""),
            ("     Maximum:\t 60 31", "     Largest:\t 60 31", "thread.0: the maximum is missing"),
            (
                " 60 31 (us)",
                " 60 30 (us)",
                "thread.1: the maximum 30000 ns is below the bin 32000 ns",
            ),
            ("        Core:", "        Cores:", "cut off before \"Max-Min\""),
            (" 900 1000", " 900", "invalid line 16: expected 2 columns"),
            (" 900 1000", " 900 many", "invalid number in line 16"),
            ("002 (us)", "001 (us)", "invalid number in line 17"),
        ];
        assert_rejected(TEXT, read, &cases);
        read_prefixes(TEXT, read);
    }
}
