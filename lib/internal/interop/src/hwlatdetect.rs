//! Reads the output of `hwlatdetect` of rt-tests. It lists gaps that the kernel's hwlat tracer, or in
//! old versions a kernel module, found while it occupied a CPU with interrupts disabled, so that
//! only hardware, firmware or a hypervisor can have caused them.

use files::report::{MAX_NS, Report, Status, Summary, Warning};
use jitterstat::stats::Interval;
use jitterstat::stats::quantile::nearest_rank;

use crate::import_error::{ImportReason, Result};
use crate::imported::{
    ImportedReport, MissedTicks, clock, no_cost, no_rounds, strip_escapes, subject, summary,
};
use files::quantity::GAPS;

pub(super) const TOOL: &str = "hwlatdetect";
const NS_PER_US: i64 = 1_000;
/// Beginning of the first line of a run.
const TITLE: &str = "hwlatdetect:  test duration";
/// Line of a run that ended before the requested duration.
const INTERRUPTED: &str = "interrupted";
/// Line of a run that ended by itself or was interrupted.
const FINISHED: &str = "test finished";

/// Whether a line is one of hwlatdetect's output or of its report file.
pub(super) fn is_line(line: &str) -> bool {
    line.starts_with("hwlatdetect:")
        || line.starts_with("ts:") && line.contains("inner:")
        || parse_kernel_sample(line).is_some()
}

/// Returns the number in the line with this label, whose words any blanks separate.
fn labelled_number(text: &str, label: &str) -> Option<i64> {
    let value = text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ").strip_prefix(label).map(|value| value.trim().to_owned())
    })?;
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value[..end].parse().ok()
}

/// Returns the larger part of each sample.
///
/// # Errors
/// Returns an error that names the line of an invalid sample.
fn samples(text: &str) -> Result<Vec<i64>> {
    let mut gaps = Vec::new();
    let mut is_after_summary = false;
    let mut has_title = false;
    for (n, line) in (1..).zip(text.lines().map(|line| strip_escapes(line).trim())) {
        if line.starts_with(TITLE) && std::mem::replace(&mut has_title, true) {
            return Err(ImportReason::SecondRun { line: n }.into());
        }
        is_after_summary |= line.starts_with("Samples recorded:");
        let gap_us = if line.starts_with("ts:") {
            parse_sample(line)
        } else if let Some(gap) = parse_kernel_sample(line) {
            Some(gap)
        } else if is_after_summary && !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()) {
            // The oldest module, smi_detector, has no time stamps.
            line.parse().ok()
        } else {
            continue;
        };
        let gap_ns = gap_us.and_then(|us: i64| us.checked_mul(NS_PER_US));
        let plausible = gap_ns.filter(|gap| (0..=MAX_NS as i64).contains(gap));
        let invalid = || ImportReason::InvalidSample { line: n, text: line.to_owned() };
        gaps.push(plausible.ok_or_else(invalid)?);
    }
    gaps.sort_unstable();
    Ok(gaps)
}

/// Parses a sample such as `ts: 1503508231.541325243, inner:16, outer:0`.
fn parse_sample(line: &str) -> Option<i64> {
    let part = |name: &str| {
        line.split(',').find_map(|part| part.trim().strip_prefix(name))?.trim().parse().ok()
    };
    part("inner:").zip(part("outer:")).map(|(inner, outer): (i64, i64)| inner.max(outer))
}

/// Parses a sample as the kernel module writes it, which versions before 0.8 print unchanged:
/// `1311112345.0678901234`, then one or two gaps.
fn parse_kernel_sample(line: &str) -> Option<i64> {
    let mut words = line.split_whitespace();
    let (seconds, nanoseconds) = words.next()?.split_once('.')?;
    let is_number = |digits: &str| digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit());
    let gaps: Vec<i64> = words.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    let is_sample = is_number(seconds) && is_number(nanoseconds) && (1..=2).contains(&gaps.len());
    gaps.into_iter().max().filter(|_| is_sample)
}

pub(super) fn read(text: &str) -> Result<Report> {
    let gaps = samples(text)?;
    check_complete(text, &gaps)?;
    let threshold = labelled_number(text, "Latency threshold:");
    let requested = labelled_number(text, "hwlatdetect: test duration");
    let has_line = |wanted: &str| text.lines().any(|line| strip_escapes(line).trim() == wanted);
    // The output has only the requested duration, which a run has reached if nothing ended it.
    let has_reached_end = has_line(FINISHED) && !has_line(INTERRUPTED);
    let seconds = requested.filter(|_| has_reached_end);
    let above = threshold.map_or("an unknown threshold".to_owned(), |us| format!("{us} us"));
    let within = seconds.map_or("an unknown time".to_owned(), |seconds| format!("{seconds} s"));
    let mut found = subject(TOOL.to_owned(), TOOL, None);
    found.status = Status::Failed { reason: format!("no gap above {above} in {within}") };
    if let Some(summary) = summarise(&gaps) {
        found.status = Status::Measured;
        found.summary = Some(summary);
    }
    let imported = ImportedReport {
        duration_ns: seconds.and_then(|seconds| u64::try_from(seconds).ok()?.checked_mul(NS_PER_S)),
        subjects: vec![found],
        ..ImportedReport::new(
            TOOL,
            clock("the kernel's trace clock, by hwlatdetect", Some(NS_PER_US as u64)),
            warnings(text, &above, &within),
        )
    };
    Ok(imported.report())
}

/// Checks that the output has all samples that it recorded. The file of --report has samples only.
fn check_complete(text: &str, gaps: &[i64]) -> Result<()> {
    let listed = gaps.len();
    let is_output = text.lines().any(|line| line.trim_start().starts_with("hwlatdetect:"));
    match labelled_number(text, "Samples recorded:") {
        None if is_output => {
            return Err(ImportReason::CutOff { before: "\"Samples recorded\"" }.into());
        }
        Some(recorded) if recorded != listed as i64 => {
            return Err(ImportReason::WrongSampleCount { recorded, listed }.into());
        }
        _ => {}
    }
    let longest = gaps.last().map_or(0, |gap| gap / NS_PER_US);
    // A run without a sample may state a maximum below its threshold.
    if let Some(max) =
        labelled_number(text, "Max Latency:").filter(|&max| listed > 0 && max > longest)
    {
        return Err(ImportReason::UnlistedMaximum { max, listed: longest }.into());
    }
    Ok(())
}

/// Summarizes ascending gaps; `None` if there is none.
fn summarise(gaps: &[i64]) -> Option<Summary> {
    let range = Interval { lower: *gaps.first()?, upper: *gaps.last()? };
    let sum: i128 = gaps.iter().map(|&gap| i128::from(gap)).sum();
    let mean = (sum / gaps.len() as i128) as i64;
    Some(summary(gaps.len() as u64, MissedTicks::default(), range, Some(mean), |q| {
        nearest_rank(gaps, q)
    }))
}

const NS_PER_S: u64 = 1_000_000_000;

fn warnings(text: &str, above: &str, within: &str) -> Vec<Warning> {
    let mut warnings = vec![
        Warning::new(
            GAPS,
            format!(
                "hwlatdetect lists only gaps above its threshold, {above}, found in {within} with interrupts off: these are gaps, not \
                 lateness, there is no period, and percentiles are of the gaps alone."
            ),
            "Compare the largest gap and how many there were; what makes them is below the kernel.",
        ),
        no_rounds(TOOL),
        no_cost(TOOL),
    ];
    if let Some(smis) = labelled_number(text, "SMIs during run:") {
        let message = format!("{smis} system management interrupts came during the run.");
        let hint = "The firmware makes them; its settings are the place to look.";
        warnings.push(Warning::new("import-smi", message, hint));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../../tests/fixtures/formats/hwlatdetect-1.5.txt");

    #[test]
    fn incomplete_outputs_are_rejected() {
        let unlisted = TEXT.replace("Max Latency: 345us", "Max Latency: 346us");
        for (text, says) in [
            (format!("{TEXT}{TEXT}"), "a second run begins in line 19"),
            (unlisted, "the stated maximum is 346 us, but the longest listed sample has 345 us"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(read(TEXT).is_ok());
    }
}
