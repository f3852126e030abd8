//! Reads the output of `rtla timerlat hist` and `rtla osnoise hist`: rows of buckets, and a column
//! for each CPU and stage.

use cli::exit::{Error, Result, usage};
use files::report::{Report, Warning};

use crate::interop::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::interop::imported::{
    ImportedReport, UNKNOWN_TIME, check_count, clock, no_cost, no_rounds, rounded, subject,
    unknown_host, warning,
};
use render::report::quantity::GAPS;

/// Beginning of the output.
const BEGIN: &str = "# RTLA ";
const HINT: &str = "Run rtla with a larger -E, so that every value has a bucket.";
/// The stages of a wake-up and their names in the columns: the timer interrupt, the thread, and its
/// return to user space.
const STAGES: [(&str, &str); 3] = [("IRQ", "irq"), ("Thr", "thread"), ("Usr", "user")];

/// Whether a text is a histogram of rtla.
pub(super) fn is_histogram(text: &str) -> bool {
    text.trim_start().starts_with(BEGIN)
}

/// One CPU at one stage.
struct Column {
    name: String,
    id: String,
    buckets: Vec<(u64, u64)>,
    count: Option<u64>,
    min: Option<u64>,
    avg: Option<u64>,
    max: Option<u64>,
}

impl Column {
    fn parse(tool: &str, head: &str) -> Option<Self> {
        let (stage, cpu) = head.split_once('-')?;
        let cpu: u64 = cpu.parse().ok()?;
        let stage = match stage {
            "CPU" => "",
            _ => STAGES.iter().find(|(column, _)| *column == stage)?.1,
        };
        let name = [tool, stage].join("-").trim_end_matches('-').to_owned();
        let id = format!("{name}/cpu-{cpu}");
        Some(Self { name, id, buckets: Vec::new(), count: None, min: None, avg: None, max: None })
    }

    /// Returns the buckets and the figures below them; `None` if no sample was taken.
    fn values(&self, unit_ns: u64) -> Result<Option<BinnedValues>> {
        let (Some(count), Some(min), Some(avg), Some(max)) =
            (self.count, self.min, self.avg, self.max)
        else {
            return match self.count {
                Some(0) => Ok(None),
                _ => Err(usage!(
                    "count, min, avg or max is not there; run rtla without --no-summary"
                )),
            };
        };
        let mut buckets = self.buckets.iter().map(|&(from, n)| {
            // A bucket of several steps may begin below the smallest value in it.
            if n > 0 { (from.max(min), n) } else { (from, n) }
        });
        let raw = RawBins::collect(|| Ok(buckets.next()), Error::usage)?;
        BinnedValues::new(&raw, &StatedFigures { count, min, max, avg: avg as f64 }, unit_ns)
            .map(Some)
    }
}

/// The parsed lines of a histogram.
#[derive(Default)]
struct Table {
    unit_ns: Option<u64>,
    seconds: u64,
    columns: Vec<Column>,
}

fn error(what: &str) -> Error {
    usage!("not a histogram of rtla: {what}")
}

impl Table {
    /// Adds a line; returns `false` if the histogram ended before it.
    fn add(&mut self, tool: &str, n: usize, line: &str) -> Result<bool> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&first, values)) = words.split_first() else { return Ok(false) };
        let is_complete = values.len() == self.columns.len();
        match first {
            "#" if line.contains("unit is microseconds") => self.unit_ns = Some(1_000),
            "#" if line.contains("unit is nanoseconds") => self.unit_ns = Some(1),
            "#" => self.seconds = duration(&words).unwrap_or(self.seconds),
            "Index" => {
                check_count("column", values.len())?;
                let columns = values.iter().map(|head| Column::parse(tool, head));
                let columns: Option<Vec<_>> = columns.collect();
                self.columns = columns
                    .ok_or_else(|| error(&format!("line {n} names an unknown column: {line:?}")))?;
            }
            "over:" => {}
            "count:" | "min:" | "avg:" | "max:" if is_complete => self.add_figures(first, values),
            _ => {
                let Ok(bucket) = first.parse() else { return Ok(false) };
                let counts: Option<Vec<u64>> =
                    values.iter().map(|count| count.parse().ok()).collect();
                let counts = counts
                    .filter(|_| is_complete)
                    .ok_or_else(|| error(&format!("invalid row in line {n}: {line:?}")))?;
                for (column, count) in self.columns.iter_mut().zip(counts) {
                    column.buckets.push((bucket, count));
                }
            }
        }
        Ok(true)
    }

    /// Adds a line of figures below the buckets.
    fn add_figures(&mut self, name: &str, values: &[&str]) {
        for (column, value) in self.columns.iter_mut().zip(values) {
            // A dash is a value that was not measured.
            let value = value.parse().ok();
            match name {
                "count:" => column.count = value,
                "min:" => column.min = value,
                "avg:" => column.avg = value,
                _ => column.max = value,
            }
        }
    }
}

pub(super) fn read(text: &str) -> Result<Report> {
    let mut lines = (1..).zip(text.lines().map(str::trim)).skip_while(|(_, line)| line.is_empty());
    let title =
        lines.next().and_then(|(_, line)| line.strip_prefix(BEGIN)?.strip_suffix(" histogram"));
    let (program, tool) = match title {
        Some("timerlat") => ("rtla timerlat", "timerlat"),
        Some("osnoise") => ("rtla osnoise", "osnoise"),
        _ => {
            return Err(error(
                "the first line names neither timerlat nor osnoise; rtla's hist mode is read, top is not",
            ));
        }
    };
    let mut table = Table::default();
    for (n, line) in lines {
        if !table.add(tool, n, line)? {
            break;
        }
    }
    let unit_ns = table.unit_ns.ok_or_else(|| error("it states no unit"))?;
    if table.columns.is_empty() {
        return Err(error("no column of a CPU found"));
    }
    let mut imported = ImportedReport {
        tool: program,
        version: String::new(),
        started_utc: UNKNOWN_TIME.to_owned(),
        duration_ns: table.seconds * 1_000_000_000,
        host: unknown_host(),
        clock: clock("the kernel's clock, by its tracer", unit_ns),
        warnings: warnings(program, tool, unit_ns),
        subjects: Vec::new(),
    };
    for column in table.columns {
        let values = column.values(unit_ns).map_err(|e| e.context(&column.id))?;
        bins::add_subject(&mut imported, subject(column.id, &column.name, None), values, HINT);
    }
    Ok(imported.report())
}

fn warnings(program: &str, tool: &str, unit_ns: u64) -> Vec<Warning> {
    let mut warnings = vec![no_rounds(program), no_cost(program)];
    if tool == "osnoise" {
        let message = "osnoise counts what took a CPU from a busy loop, by how long: these are gaps, not lateness, and there \
                    is no period.";
        let hint = "Compare the largest gap and the counts of long ones; the subject spin of osjitter run is its counterpart.";
        warnings.push(warning(GAPS, message, hint));
    }
    if unit_ns > 1 {
        warnings.push(rounded(program, "microseconds", "the rest cut off"));
    }
    warnings
}

/// Parses the duration of `# Duration: 0 00:10:00` in seconds: days, hours, minutes and seconds.
fn duration(words: &[&str]) -> Option<u64> {
    let ["#", "Duration:", days, time] = words else { return None };
    let parts: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    // More than a century is an error.
    let days: u64 = days.parse().ok().filter(|&days| days < 36_525)?;
    let small = [hours, minutes, seconds].iter().all(|&part| part < 60);
    small.then(|| ((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use files::report::Status;

    use super::*;

    /// Written by hand in the layout of the kernel documentation.
    const TIMERLAT: &str = include_str!("../../tests/fixtures/rtla-timerlat.txt");

    #[test]
    fn cpus_and_stages_are_subjects() {
        let report = read(TIMERLAT).unwrap();
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "timerlat-irq/cpu-0",
                "timerlat-thread/cpu-0",
                "timerlat-user/cpu-0",
                "timerlat-irq/cpu-12",
                "timerlat-thread/cpu-12",
                "timerlat-user/cpu-12"
            ]
        );
        assert_eq!(report.duration_ns, 12_000_000_000);
        let thread = report.subjects[1].summary.as_ref().unwrap();
        assert_eq!(
            (thread.ticks, thread.lateness_ns.min, thread.lateness_ns.max),
            (12_000, 1_000, 310_000)
        );
        assert_eq!(thread.lateness_ns.p50, Some(2_000));
        // A single value is above the last bucket, and only its size as the largest is known.
        assert_eq!(
            report.subjects[1].histogram.as_ref().unwrap().overflow.as_ref().map(|o| o.count),
            Some(1)
        );
        assert!(report.warnings.iter().any(|w| w.code == "import-overflow"));
        assert!(matches!(report.subjects[5].status, Status::Failed { .. }), "it took no sample");
    }

    #[test]
    fn osnoise_values_are_gaps() {
        let text = "# RTLA osnoise histogram\n# Time unit is nanoseconds (ns)\n# Duration: 1 00:00:01\nIndex CPU-003\n0 7\n10 3\n\
                    over: 0\ncount: 10\nmin: 4\navg: 6\nmax: 13\nALL: CPU\ncount: 99\n";
        let report = read(text).unwrap();
        assert_eq!(report.subjects[0].id, "osnoise/cpu-3");
        assert_eq!(report.duration_ns, 86_401_000_000_000);
        let summary = report.subjects[0].summary.as_ref().unwrap();
        assert_eq!((summary.ticks, summary.lateness_ns.p50), (10, Some(4)));
        assert!(report.warnings.iter().any(|w| w.code == GAPS));
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, says) in [
            ("timerlat histogram", "hwnoise top", "neither timerlat nor osnoise"),
            ("# Time unit is microseconds (us)\n", "", "no unit"),
            ("Thr-012", "Fro-012", "line 4 names an unknown column"),
            ("\n2 ", "\n2 17 ", "invalid row in line 7"),
            ("count:", "#", "without --no-summary"),
            ("count: 12000", "count: 12", "but the stated count is 12"),
            ("310 330 5 9", "310 330 5 1", "outside of the stated minimum"),
        ] {
            assert!(TIMERLAT.contains(from), "{from}");
            let error = read(&TIMERLAT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        // A truncated text is rejected or read in part, and never panics.
        for end in (0..TIMERLAT.len()).filter(|&end| TIMERLAT.is_char_boundary(end)) {
            let _ = read(&TIMERLAT[..end]);
        }
    }
}
