//! Reads the output of `hwlatdetect` of rt-tests, version 2 or later. It lists gaps that the
//! kernel's hwlat tracer found while it occupied a CPU with interrupts disabled, so that only
//! hardware, firmware or a hypervisor can have caused them.

use cli::exit::{Result, usage};
use files::report::{MAX_NS, Report, Status};
use jitterstat::stats::quantile::nearest_rank;

use crate::interop::imported::{
    ImportedReport, UNKNOWN_TIME, clock, no_cost, no_rounds, subject, summary, unknown_host,
    warning,
};
use render::report::quantity::GAPS;

pub(super) const TOOL: &str = "hwlatdetect";
/// Beginning of the output.
const BEGIN: &str = "hwlatdetect:";
const UNIT_NS: i64 = 1_000;

/// Whether a text is the output of hwlatdetect.
pub(super) fn is_output(text: &str) -> bool {
    text.trim_start().starts_with(BEGIN)
}

/// Returns the number in the line with this label.
fn labelled_number(text: &str, label: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(label))?;
    let digits: String = line.trim().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns the larger part of each sample: `ts: 1503508231.541325243, inner:16, outer:0`.
fn samples(text: &str) -> Result<Vec<i64>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("ts:"));
    let gap = |(n, line): (usize, &str)| {
        let part = |name: &str| {
            line.split(", ").find_map(|part| part.trim().strip_prefix(name))?.parse::<i64>().ok()
        };
        let gap = part("inner:")
            .zip(part("outer:"))
            .map(|(inner, outer)| inner.max(outer).saturating_mul(UNIT_NS));
        let plausible = gap.filter(|gap| (0..=MAX_NS as i64).contains(gap));
        plausible.ok_or_else(|| {
            usage!("not a result of hwlatdetect: invalid sample in line {n}: {line:?}")
        })
    };
    lines.map(gap).collect()
}

pub(super) fn read(text: &str) -> Result<Report> {
    let unfinished =
        || usage!("not a result of hwlatdetect: it was cut off before \"Samples recorded\"");
    let recorded = labelled_number(text, "Samples recorded:").ok_or_else(unfinished)?;
    let threshold = labelled_number(text, "Latency threshold:").unwrap_or(0);
    let seconds = labelled_number(text, "hwlatdetect:  test duration").unwrap_or(0);
    let mut gaps = samples(text)?;
    gaps.sort_unstable();
    if recorded != gaps.len() as i64 {
        return Err(usage!(
            "not a result of hwlatdetect: it recorded {recorded} samples, but lists {}; run it without --quiet and --watch",
            gaps.len()
        ));
    }
    let mut warnings = vec![
        warning(
            GAPS,
            format!(
                "hwlatdetect lists only gaps above its threshold of {threshold} us, found in {seconds} s with interrupts off: these \
                 are gaps, not lateness, there is no period, and percentiles are of the gaps alone."
            ),
            "Compare the largest gap and how many there were; what makes them is below the kernel.",
        ),
        no_rounds(TOOL),
        no_cost(TOOL),
    ];
    if let Some(smis) = labelled_number(text, "SMIs during run:") {
        let message = format!("{smis} system management interrupts came during the run.");
        warnings.push(warning(
            "import-smi",
            message,
            "The firmware makes them; its settings are the place to look.",
        ));
    }
    let mut found = subject(TOOL.to_owned(), TOOL, None);
    found.status = Status::Failed { reason: format!("no gap above {threshold} us in {seconds} s") };
    if let (Some(&min), Some(&max)) = (gaps.first(), gaps.last()) {
        let mean =
            (gaps.iter().map(|&gap| i128::from(gap)).sum::<i128>() / gaps.len() as i128) as i64;
        found.status = Status::Measured;
        found.summary =
            Some(summary(gaps.len() as u64, 0, [min, mean, max], |q| nearest_rank(&gaps, q)));
    }
    let imported = ImportedReport {
        tool: TOOL,
        version: "(its output has none)".to_owned(),
        started_utc: UNKNOWN_TIME.to_owned(),
        duration_ns: u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).min(MAX_NS),
        host: unknown_host(),
        clock: clock("the kernel's trace clock, by hwlatdetect", UNIT_NS as u64),
        warnings,
        subjects: vec![found],
    };
    Ok(imported.report())
}
