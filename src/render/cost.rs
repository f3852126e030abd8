//! What a subject costs.

use files::report::{Subject, Summary};
use jitterstat::stats::bootstrap::ratio_interval;

/// Per cent of one core that the process took while the subject ran, all of its instances together.
pub fn core_percent(subject: &Subject) -> Option<f64> {
    let per_tick = subject.summary.as_ref()?.cpu_ns_per_tick?;
    Some(per_tick * subject.instances as f64 / subject.period_ns as f64 * 100.0)
}

/// 95 % confidence interval of the CPU time per tick in nanoseconds, over rounds; `None` where
/// there are few.
pub fn per_tick_ci95(subject: &Subject) -> Option<[f64; 2]> {
    interval(subject, 0.95)
}

/// A round's cost stands once, with the first of its instances, and is already of all ticks of all
/// of them: rounds are weighed by their ticks, so that a short last round counts for what it is.
fn interval(subject: &Subject, confidence: f64) -> Option<[f64; 2]> {
    let summaries = subject.rounds.iter().filter_map(|r| r.summary.as_ref());
    let of_round = |s: &Summary| Some((s.cpu_ns_per_tick? * s.ticks as f64, s.ticks as f64));
    ratio_interval(&summaries.filter_map(of_round).collect::<Vec<_>>(), confidence).map(Into::into)
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::gate::limit;
    use files::report::Report;
    use jitterstat::stats::bootstrap::MIN_ROUNDS;

    use super::*;

    fn subject() -> Subject {
        let report =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
        report.subjects.into_iter().next().expect("a subject")
    }

    #[test]
    fn the_interval_holds_the_cost_whatever_the_number_of_instances() {
        let one = subject();
        let interval = per_tick_ci95(&one).expect("it has ten rounds");
        let cost = one.summary.as_ref().and_then(|s| s.cpu_ns_per_tick).expect("a cost");
        assert!(interval[0] < cost && cost < interval[1], "{interval:?} {cost}");
        // Two instances: an entry each, the round's summary with the first of them alone.
        let mut two = one.clone();
        two.instances = 2;
        two.rounds = one
            .rounds
            .iter()
            .flat_map(|r| {
                [r.clone(), files::report::Round { instance: 1, summary: None, ..r.clone() }]
            })
            .collect();
        assert_eq!(per_tick_ci95(&two), Some(interval));
        assert_eq!(core_percent(&two), core_percent(&one).map(|percent| percent * 2.0));
    }

    #[test]
    fn a_gate_resamples_the_same_rounds_in_the_same_order() {
        let subject = subject();
        let path = limit::SummaryPath::find("cpu_ns_per_tick").expect("a number of a report");
        let measured =
            path.measure(&limit::RoundTicks::from_subject(&subject).expect("rounds with samples"));
        // A limit is held against the 99 % interval.
        assert_eq!(measured.interval.map(Into::into), interval(&subject, 0.99));
        assert!(measured.interval.is_some());
    }

    #[test]
    fn few_rounds_have_no_interval() {
        let mut few = subject();
        few.rounds.truncate(MIN_ROUNDS - 1);
        assert_eq!(per_tick_ci95(&few), None);
    }

    #[test]
    fn a_short_round_counts_for_what_it_is() {
        let mut uneven = subject();
        // One tick at a thousand times the cost, in a round of its own.
        let summary = uneven.rounds[0].summary.as_mut().expect("a summary");
        (summary.ticks, summary.cpu_ns_per_tick) = (1, summary.cpu_ns_per_tick.map(|ns| ns * 1e3));
        let [_, high] = per_tick_ci95(&uneven).expect("ten rounds");
        let [_, usual] = per_tick_ci95(&subject()).expect("ten rounds");
        assert!(high < usual * 10.0, "{high} {usual}");
    }
}
