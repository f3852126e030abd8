//! What the source of an imported report had no bins for, in words.

use cli::time::format_time;
use files::report::Subject;

use crate::render::samples::Lateness;

/// How many lie above the last bin, where that is, and the largest; `None` where every value is
/// known.
pub fn says(subject: &Subject) -> Option<String> {
    let values = Lateness::of(subject);
    let above = values.count() - values.known();
    let (last, _) = values.counts().last().filter(|_| above > 0)?;
    let largest = subject.summary.as_ref()?.lateness_ns.max;
    Some(format!(
        "{}: {above} above {}, the last bin of its source, the largest {}",
        subject.id,
        format_time(last),
        format_time(largest)
    ))
}
