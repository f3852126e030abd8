//! Reads the `results.json` of jitterdebugger: one thread on each CPU, and a thousand bins of a
//! microsecond, or of a nanosecond with `-N`.

use std::collections::BTreeMap;

use cli::exit::{Error, Result, usage};
use files::report::Report;
use serde::Deserialize;

use crate::interop::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::interop::imported::{
    ImportedReport, UNKNOWN_TIME, check_count, clock, json, no_cost, no_rounds, rounded, subject,
    warning,
};
use crate::interop::rt_tests::SysInfo;

const TOOL: &str = "jitterdebugger";
/// The known versions; the part about CPUs is the same in all of them.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;
const HINT: &str = "jitterdebugger has no option for more bins; its samples (-s) hold every value.";

#[derive(Deserialize)]
struct File {
    version: u64,
    #[serde(default)]
    sysinfo: SysInfo,
    cpu: BTreeMap<u64, Cpu>,
}

#[derive(Deserialize)]
struct Cpu {
    histogram: RawBins,
    count: u64,
    min: u64,
    max: u64,
    avg: Option<f64>,
}

pub(super) fn read(text: &str) -> Result<Report> {
    let file: File = json(text, "jitterdebugger result")?;
    if !VERSIONS.contains(&file.version) {
        return Err(usage!(
            "version {} of jitterdebugger's results is not known; this version reads 1 to 3",
            file.version
        ));
    }
    check_count("cpu", file.cpu.len())?;
    let unit_ns = if file.sysinfo.resolution_in_ns == 1 { 1 } else { 1_000 };
    let mut imported = ImportedReport {
        tool: TOOL,
        version: format!("(results version {})", file.version),
        started_utc: UNKNOWN_TIME.to_owned(),
        duration_ns: 0,
        host: file.sysinfo.host(),
        clock: clock("the kernel's clock, by jitterdebugger", unit_ns),
        warnings: vec![
            no_rounds(TOOL),
            no_cost(TOOL),
            warning(
                "import-no-period",
                "jitterdebugger reports neither the period nor when it ran: missed ticks are not known.",
                "Keep its command line with its result.",
            ),
        ],
        subjects: Vec::new(),
    };
    if unit_ns > 1 {
        imported.warnings.push(rounded(TOOL, "microseconds", "the rest cut off"));
    }
    for (number, cpu) in &file.cpu {
        let at = |e: Error| e.context(format!("cpu.{number}"));
        let values = if cpu.count > 0 {
            let avg = cpu.avg.ok_or_else(|| at(Error::usage("the mean is missing")))?;
            let stated = StatedFigures { count: cpu.count, min: cpu.min, max: cpu.max, avg };
            Some(BinnedValues::new(&cpu.histogram, &stated, unit_ns).map_err(at)?)
        } else {
            None
        };
        bins::add_subject(
            &mut imported,
            subject(format!("{TOOL}/cpu-{number}"), TOOL, None),
            values,
            HINT,
        );
    }
    Ok(imported.report())
}
