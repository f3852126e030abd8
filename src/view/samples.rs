//! The lateness values of a subject, as exact as the report kept them.

use jitterstat::histogram;
use jitterstat::report::Subject;

/// All lateness values, sorted: the samples themselves, or, in a report without samples, the values of its histogram.
pub fn sorted_lateness(subject: &Subject) -> Vec<i64> {
    let mut all: Vec<i64> = subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect();
    if all.is_empty()
        && let Some(stored) = subject.histogram.as_ref().and_then(|h| histogram::unpack(h).ok())
    {
        for step in stored.iter_recorded() {
            let value = i64::try_from(step.value_iterated_to()).unwrap_or(i64::MAX);
            all.extend(std::iter::repeat_n(value, usize::try_from(step.count_at_value()).unwrap_or(0)));
        }
    }
    all.sort_unstable();
    all
}
