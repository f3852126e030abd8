//! What `rtla timerlat hist` and `rtla osnoise hist` print: rows of buckets, and a column for each
//! CPU and stage.

use cli::exit::{Error, Result, usage};
use files::report::Report;

use crate::interop::bins::{self, Binned, RawBins, Stated};
use crate::interop::imported::{
    Imported, UNKNOWN_TIME, clock, no_cost, no_rounds, not_too_many, rounded, subject,
    unknown_host, warning,
};
use crate::render::quantity::GAPS;

/// First words of what it prints.
const BEGIN: &str = "# RTLA ";
const HINT: &str = "Run rtla with a larger -E, so that every value has a bucket.";
/// The stages of one wake-up, as columns name them: the timer's interrupt, the thread, and its
/// return to user space.
const STAGES: [(&str, &str); 3] = [("IRQ", "irq"), ("Thr", "thread"), ("Usr", "user")];

/// Whether a text is a histogram of rtla.
pub(super) fn is_one(text: &str) -> bool {
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
    fn of(tool: &str, head: &str) -> Option<Self> {
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

    /// The figures below the buckets, and the buckets; nothing where no sample was taken.
    fn values(&self, unit_ns: u64) -> Result<Option<Binned>> {
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
            // A bucket of several steps may begin below the least value that is in it.
            if n > 0 { (from.max(min), n) } else { (from, n) }
        });
        let raw = RawBins::gathered(|| Ok(buckets.next()), Error::usage)?;
        Binned::new(&raw, &Stated { count, min, max, avg: avg as f64 }, unit_ns).map(Some)
    }
}

pub(super) fn read(text: &str) -> Result<Report> {
    let wrong = |what: &str| usage!("not a histogram of rtla: {what}");
    let mut lines = (1..).zip(text.lines().map(str::trim)).skip_while(|(_, line)| line.is_empty());
    let title =
        lines.next().and_then(|(_, line)| line.strip_prefix(BEGIN)?.strip_suffix(" histogram"));
    let (program, tool) = match title {
        Some("timerlat") => ("rtla timerlat", "timerlat"),
        Some("osnoise") => ("rtla osnoise", "osnoise"),
        _ => {
            return Err(wrong(
                "the first line names neither timerlat nor osnoise; rtla's hist mode is read, top is not",
            ));
        }
    };
    let (mut unit_ns, mut seconds) = (None, 0);
    let mut columns: Vec<Column> = Vec::new();
    for (n, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&first, values)) = words.split_first() else { break };
        let of_all = || values.len() == columns.len();
        match first {
            "#" if line.contains("unit is microseconds") => unit_ns = Some(1_000),
            "#" if line.contains("unit is nanoseconds") => unit_ns = Some(1),
            "#" => seconds = duration(&words).unwrap_or(seconds),
            "Index" => {
                not_too_many("column", values.len())?;
                let found: Option<Vec<_>> =
                    values.iter().map(|head| Column::of(tool, head)).collect();
                columns = found
                    .ok_or_else(|| wrong(&format!("line {n} names an unknown column: {line:?}")))?;
            }
            "over:" => {}
            "count:" | "min:" | "avg:" | "max:" if of_all() => {
                for (column, value) in columns.iter_mut().zip(values) {
                    // Where nothing was measured there is a dash.
                    let value = value.parse().ok();
                    match first {
                        "count:" => column.count = value,
                        "min:" => column.min = value,
                        "avg:" => column.avg = value,
                        _ => column.max = value,
                    }
                }
            }
            _ => {
                let Ok(bucket) = first.parse() else { break };
                let counts: Option<Vec<u64>> =
                    values.iter().map(|count| count.parse().ok()).collect();
                let counts = counts
                    .filter(|_| of_all())
                    .ok_or_else(|| wrong(&format!("line {n} is no row: {line:?}")))?;
                for (column, count) in columns.iter_mut().zip(counts) {
                    column.buckets.push((bucket, count));
                }
            }
        }
    }
    let unit_ns = unit_ns.ok_or_else(|| wrong("it states no unit"))?;
    if columns.is_empty() {
        return Err(wrong("no column of a CPU is there"));
    }
    let mut imported = Imported {
        tool: program,
        version: String::new(),
        started_utc: UNKNOWN_TIME.to_owned(),
        duration_ns: seconds * 1_000_000_000,
        host: unknown_host(),
        clock: clock("the kernel's clock, by its tracer", unit_ns),
        warnings: vec![no_rounds(program), no_cost(program)],
        subjects: Vec::new(),
    };
    if tool == "osnoise" {
        let what = "osnoise counts what took a CPU from a busy loop, by how long: these are gaps, not lateness, and there \
                    is no period.";
        let hint = "Compare the largest gap and the counts of long ones; the subject spin of osjitter run is its counterpart.";
        imported.warnings.push(warning(GAPS, what, hint));
    }
    if unit_ns > 1 {
        imported.warnings.push(rounded(program, "microseconds", "the rest cut off"));
    }
    for column in columns {
        let values = column.values(unit_ns).map_err(|e| e.context(&column.id))?;
        bins::add(&mut imported, subject(column.id, &column.name, None), values, HINT);
    }
    Ok(imported.report())
}

/// Of `# Duration: 0 00:10:00`: days, hours, minutes and seconds.
fn duration(words: &[&str]) -> Option<u64> {
    let ["#", "Duration:", days, time] = words else { return None };
    let parts: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    // Nobody measured for longer than a century.
    let days: u64 = days.parse().ok().filter(|&days| days < 36_525)?;
    let small = [hours, minutes, seconds].iter().all(|&part| part < 60);
    small.then(|| ((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use files::report::Status;

    use super::*;

    /// Written by hand in the layout that the kernel's documentation shows.
    const TIMERLAT: &str = include_str!("../../tests/fixtures/rtla-timerlat.txt");

    #[test]
    fn each_cpu_and_stage_is_a_subject() {
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
        // Of the one value above the last bucket, only that it is the largest is known.
        assert_eq!(
            report.subjects[1].histogram.as_ref().unwrap().overflow.as_ref().map(|o| o.count),
            Some(1)
        );
        assert!(report.warnings.iter().any(|w| w.code == "import-overflow"));
        assert!(matches!(report.subjects[5].status, Status::Failed { .. }), "it took no sample");
    }

    #[test]
    fn noise_is_gaps_and_a_bucket_may_begin_below_its_values() {
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
    fn what_cannot_be_read_is_refused_by_its_line() {
        for (from, to, says) in [
            ("timerlat histogram", "hwnoise top", "neither timerlat nor osnoise"),
            ("# Time unit is microseconds (us)\n", "", "no unit"),
            ("Thr-012", "Fro-012", "line 4 names an unknown column"),
            ("\n2 ", "\n2 17 ", "line 7 is no row"),
            ("count:", "#", "without --no-summary"),
            ("count: 12000", "count: 12", "values, and 12 is stated"),
            ("310 330 5 9", "310 330 5 1", "outside of the stated minimum"),
        ] {
            assert!(TIMERLAT.contains(from), "{from}");
            let error = read(&TIMERLAT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        // Cut off anywhere, it is refused or read in part; it never panics.
        for end in (0..TIMERLAT.len()).filter(|&end| TIMERLAT.is_char_boundary(end)) {
            let _ = read(&TIMERLAT[..end]);
        }
    }
}
