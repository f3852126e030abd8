//! Writes HdrHistogram's percentile distribution (`.hgrm`) in microseconds, since its readers
//! expect a scaled column.

use std::fmt::Write as _;

use cli::exit::{Result, usage};
use files::histogram;
use files::report::Subject;

const NS_PER_US: f64 = 1e3;
/// Reported steps for each halving of the distance to 100 %; the default of every implementation.
const STEPS_PER_HALF: u32 = 5;

/// Writes the distribution of a subject.
///
/// # Errors
/// Returns an error if the subject has no valid histogram.
pub fn write(subject: &Subject) -> Result<String> {
    let stored =
        subject.histogram.as_ref().ok_or_else(|| usage!("{} has no histogram", subject.id))?;
    let histogram = histogram::unpack(stored).map_err(|e| usage!("{}: {e}", subject.id))?;
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut total = 0_u64;
    for step in histogram.iter_quantiles(STEPS_PER_HALF) {
        let value = histogram.highest_equivalent(step.value_iterated_to()) as f64 / NS_PER_US;
        let q = step.quantile_iterated_to();
        total += step.count_since_last_iteration();
        let _ = write!(text, "{value:12.3} {q:14.12} {total:10}");
        // The last line is at 100 % and has no distance.
        text += &if q < 1.0 { format!(" {:14.2}\n", 1.0 / (1.0 - q)) } else { "\n".to_owned() };
    }
    let (mean, deviation) = (histogram.mean() / NS_PER_US, histogram.stdev() / NS_PER_US);
    let (max, count) = (histogram.max() as f64 / NS_PER_US, histogram.len());
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
    let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), 2048);
    Ok(text)
}
