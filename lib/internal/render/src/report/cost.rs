//! The CPU cost of a subject.

use files::report::{Subject, Summary};
use jitterstat::stats::bootstrap::ratio_interval;

/// Returns the CPU time of the process while the subject ran, in percent of one core, summed over
/// its instances; `None` without a period.
///
/// If the time in which it was counted is unknown, as for a program, it is a period per tick.
pub fn core_percent(subject: &Subject) -> Option<f64> {
    let summary = subject.summary.as_ref()?;
    if let Some(share) = summary.core_share {
        return Some(share * 100.0);
    }
    let per_tick = summary.cpu_ns_per_tick?;
    let period_ns = Some(subject.period_ns).filter(|&period_ns| period_ns > 0)?;
    Some(per_tick * subject.instances as f64 / period_ns as f64 * 100.0)
}

/// Returns the 95 % confidence interval over rounds of the CPU time per tick in nanoseconds; `None`
/// if there are too few rounds.
pub fn per_tick_ci95(subject: &Subject) -> Option<[f64; 2]> {
    interval(subject, 0.95)
}

/// Computes the confidence interval of the CPU time per tick.
///
/// The cost of a round is stored once, with the first of its instances, and covers all ticks of all
/// instances. Rounds are weighted by their ticks, so that a short last round counts less.
fn interval(subject: &Subject, confidence: f64) -> Option<[f64; 2]> {
    let summaries = subject.rounds.iter().filter_map(|r| r.summary.as_ref());
    let cost_and_ticks = |s: &Summary| Some((s.cpu_ns_per_tick? * s.ticks as f64, s.ticks as f64));
    ratio_interval(&summaries.filter_map(cost_and_ticks).collect::<Vec<_>>(), confidence)
        .map(Into::into)
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

    #[test]
    fn gate_limit_uses_the_same_interval() {
        let subject = subject();
        let path = limit::SummaryPath::find("cpu_ns_per_tick").expect("a number of a report");
        let measured =
            path.measure(&limit::RoundTicks::from_subject(&subject).expect("rounds with samples"));
        // A limit is compared with the 99 % interval.
        assert_eq!(measured.interval.map(Into::into), interval(&subject, 0.99));
        assert!(measured.interval.is_some());
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
