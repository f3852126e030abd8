//! What a subject costs, as people speak of it.

use jitterstat::report::Subject;

/// Per cent of one core that the process took while the subject ran, all of its instances together.
pub fn core_percent(subject: &Subject) -> Option<f64> {
    let per_tick = subject.summary.as_ref()?.cpu_ns_per_tick?;
    Some(per_tick * subject.instances as f64 / subject.period_ns as f64 * 100.0)
}
