//! The CPU cost of a subject.

use files::report::Subject;
use files::round_costs::{CostPerTick, slip_factor};

/// Returns the CPU time of the process while the subject ran, in percent of one core, summed over
/// its instances; `None` without a period.
///
/// If the time in which it was counted is unknown, as for a program, it is the typical time between
/// two ticks for each tick: more than a period if the loop slips.
pub fn core_percent(subject: &Subject) -> Option<f64> {
    let summary = subject.summary.as_ref()?;
    if let Some(share) = summary.core_share {
        return Some(share * 100.0);
    }
    let per_tick = summary.cpu_ns_per_tick?;
    let gap_ns = subject.period_ns as f64 * slip_factor(summary);
    (gap_ns > 0.0).then(|| per_tick * subject.instances as f64 / gap_ns * 100.0)
}

/// Returns the 95 % confidence interval over rounds of the CPU time per tick in nanoseconds; `None`
/// if there are too few rounds, or the cost of one of them is unknown.
pub fn per_tick_ci95(subject: &Subject) -> Option<[f64; 2]> {
    interval(subject, 0.95)
}

/// Computes the confidence interval of the CPU time per tick, as a limit does.
fn interval(subject: &Subject, confidence: f64) -> Option<[f64; 2]> {
    let costs = CostPerTick::from_subject(subject);
    CostPerTick::estimate_cpu_ns_per_tick(&costs, confidence).1.map(Into::into)
}

/// Formats the cost of a subject after `lead`; an empty text if it is not known.
pub fn format_cost(subject: &Subject, lead: &str) -> String {
    match core_percent(subject) {
        Some(percent) => format!("{lead} {} % of one core", format_digits(percent)),
        None => String::new(),
    }
}

/// Formats a number with two or three digits; a run does not support more.
fn format_digits(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::gate::limit;
    use files::report::Report;
    use jitterstat::stats::bootstrap::MIN_ROUNDS;

    use super::*;

    fn subject() -> Subject {
        let report = Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report");
        report.subjects.into_iter().next().expect("a subject")
    }

    #[test]
    fn interval_is_independent_of_instances() {
        let single = subject();
        let interval = per_tick_ci95(&single).expect("it has ten rounds");
        let cost = single.summary.as_ref().and_then(|s| s.cpu_ns_per_tick).expect("a cost");
        assert!(interval[0] < cost && cost < interval[1], "{interval:?} {cost}");
        // With two instances a round has two entries, and only the first of them has a summary.
        let mut double = single.clone();
        double.instances = 2;
        double.rounds = single
            .rounds
            .iter()
            .flat_map(|r| {
                [r.clone(), files::report::Round { instance: 1, summary: None, ..r.clone() }]
            })
            .collect();
        assert_eq!(per_tick_ci95(&double), Some(interval));
        assert_eq!(core_percent(&double), core_percent(&single).map(|percent| percent * 2.0));
    }

    /// Adds windows of the costs, of which the first is much shorter than its round.
    fn subject_with_windows() -> Subject {
        let mut subject = subject();
        for round in &mut subject.rounds {
            let ticks = round.summary.as_ref().expect("a summary").ticks;
            round.cost_ticks = Some(if round.index == 0 { 2 } else { ticks - 1 });
        }
        subject
    }

    fn measure_limit(subject: &Subject) -> limit::Measured {
        let path = limit::SummaryPath::find("cpu_ns_per_tick").expect("a number of a report");
        path.measure(&limit::RoundTicks::from_subject(subject).expect("rounds with samples"))
    }

    #[test]
    fn gate_limit_uses_the_same_interval() {
        let uneven = subject_with_windows();
        for subject in [subject(), uneven.clone()] {
            // A limit is compared with the 99 % interval.
            let limited = measure_limit(&subject).interval.map(Into::into);
            assert_eq!(limited, interval(&subject, 0.99));
            assert!(limited.is_some());
        }
        assert_ne!(interval(&uneven, 0.99), interval(&subject(), 0.99));
    }

    #[test]
    fn unknown_round_makes_cost_unknown() {
        let mut subject = subject_with_windows();
        subject.rounds[3].summary.as_mut().expect("a summary").cpu_ns_per_tick = None;
        assert_eq!(per_tick_ci95(&subject), None);
        assert_eq!(measure_limit(&subject).value, None);
        // A round that was stopped before its window ended has no cost.
        subject.rounds[3].cost_ticks = Some(0);
        assert!(per_tick_ci95(&subject).is_some());
        assert!(measure_limit(&subject).value.is_some());
    }

    #[test]
    fn slipping_ticks_are_further_apart() {
        let mut slipping = subject();
        let summary = slipping.summary.as_mut().expect("a summary");
        (summary.core_share, summary.cpu_ns_per_tick) = (None, Some(20_000.0));
        (summary.elapsed_ns, summary.ideal_ns) = (3_000_000, 2_000_000);
        // 20 us in one and a half periods of a millisecond.
        let percent = core_percent(&slipping).expect("a cost");
        assert!((percent - 2.0 / 1.5).abs() < 1e-9, "{percent}");
    }

    #[test]
    fn few_rounds_give_no_interval() {
        let mut few = subject();
        few.rounds.truncate(MIN_ROUNDS - 1);
        assert_eq!(per_tick_ci95(&few), None);
    }

    #[test]
    fn rounds_are_weighted_by_ticks() {
        let mut uneven = subject();
        // One tick at a thousand times the cost, in a separate round.
        let summary = uneven.rounds[0].summary.as_mut().expect("a summary");
        (summary.ticks, summary.cpu_ns_per_tick) = (1, summary.cpu_ns_per_tick.map(|ns| ns * 1e3));
        let [_, high] = per_tick_ci95(&uneven).expect("ten rounds");
        let [_, usual] = per_tick_ci95(&subject()).expect("ten rounds");
        assert!(high < usual * 10.0, "{high} {usual}");
    }
}
