//! Describes the values of an imported report that were above the last bin of its source.

use cli::time::format_time;
use files::report::Subject;

use files::samples::Lateness;

/// Returns how many values are above the last bin, the position of that bin, and the largest value;
/// `None` if every value is known.
pub fn describe(subject: &Subject) -> Option<String> {
    let values = Lateness::from_subject(subject);
    let above = values.count() - values.known();
    let (last, _) = values.counts().last().filter(|_| above > 0)?;
    let largest = subject.summary.as_ref()?.lateness_ns.max;
    Some(format!(
        "{}: {above} above {}, the last bin of its source; the largest is {}",
        subject.id,
        format_time(last),
        format_time(largest)
    ))
}
