//! Reads the `results.json` of jitterdebugger: one thread on each CPU, and a thousand bins of a
//! microsecond, or of a nanosecond with `-N`.
//!
//! The file numbers the threads. The number of a thread is that of its CPU only if jitterdebugger ran
//! on all CPUs, which the file does not state.

use std::collections::BTreeMap;

use files::report::{Report, Warning};
use serde::Deserialize;

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::import_error::{ImportError, ImportPlace, ImportReason, Result};
use crate::imported::{
    ImportedReport, check_count, clock, json, no_cost, no_rounds, rounded, subject, unique_numbers,
    unknown_period,
};
use crate::rt_tests::{SysInfo, replace_nan};

const TOOL: &str = "jitterdebugger";
/// The known versions of the file; the part about CPUs is the same in all of them. jitterdebugger
/// 0.1 writes none.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;
const HINT: &str = "jitterdebugger has no option for more bins; its samples (-s) hold every value.";

#[derive(Deserialize)]
struct File {
    version: Option<u64>,
    #[serde(default)]
    sysinfo: SysInfo,
    #[serde(deserialize_with = "unique_numbers")]
    cpu: BTreeMap<u64, Cpu>,
}

#[derive(Deserialize)]
struct Cpu {
    histogram: RawBins,
    count: Option<u64>,
    min: Option<u64>,
    max: Option<u64>,
    avg: Option<f64>,
}

pub(super) fn read(text: &str) -> Result<Report> {
    let text = replace_nan(text);
    let file: File = json(&text, "jitterdebugger result")?;
    if let Some(version) = file.version.filter(|version| !VERSIONS.contains(version)) {
        return Err(ImportReason::UnknownVersion { version }.into());
    }
    check_count("cpu", file.cpu.len())?;
    // Versions without -N count in microseconds and do not state it.
    let unit_ns = match file.sysinfo.resolution_in_ns {
        Some(1) => 1,
        Some(1_000) | None => 1_000,
        Some(other) => return Err(ImportReason::InvalidResolution { ns: other }.into()),
    };
    let unknown_cpus = Warning::new(
        "import-no-cpu",
        "jitterdebugger numbers its threads in the order of their CPUs: cpu-0 is the first CPU that it ran on, not CPU 0.",
        "Keep the value of its option --affinity with the result.",
    );
    let mut imported = ImportedReport {
        version: file.version.map(|version| format!("(results version {version})")),
        host: file.sysinfo.host(),
        ..ImportedReport::new(
            TOOL,
            clock("the kernel's clock, by jitterdebugger", Some(unit_ns)),
            vec![no_rounds(TOOL), no_cost(TOOL), unknown_period(TOOL), unknown_cpus],
        )
    };
    if unit_ns > 1 {
        imported.warnings.push(rounded(TOOL, "microseconds", "the rest cut off"));
    }
    for (&number, cpu) in &file.cpu {
        let place = || ImportPlace::Entry { object: "cpu", number };
        // Without it, the number of values above the bins is unknown.
        if cpu.count.is_none() {
            let error = ImportError::from(ImportReason::MissingFigure { figure: "count" });
            return Err(error.at(place()));
        }
        let stated = StatedFigures { count: cpu.count, min: cpu.min, max: cpu.max, mean: cpu.avg };
        let values = stated
            .check_maximum()
            .and_then(|()| BinnedValues::new(&cpu.histogram, &stated, unit_ns))
            .map_err(|e| e.at(place()))?;
        let subject = subject(format!("{TOOL}/cpu-{number}"), TOOL, None);
        bins::add_subject(&mut imported, subject, values, HINT);
    }
    Ok(imported.report())
}
